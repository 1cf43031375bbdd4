#include "serve/client_sse.h"

#include <errno.h>
#include <string.h>

void sse_event_release(struct sse_event *e)
{
	free(e->id);
	free(e->event);
	free(e->data);
	*e = (struct sse_event){ 0 };
}

void sse_release(struct sse *s)
{
	for (size_t i = s->n_taken; i < s->n_events; i++)
		sse_event_release(&s->events[i]);
	free(s->events);
	str_release(&s->line);
	str_release(&s->name);
	str_release(&s->data);
	*s = (struct sse){ 0 };
}

static void forget_event(struct sse *s)
{
	str_release(&s->name);
	str_release(&s->data);
	s->has_data = false;
}

void sse_restart(struct sse *s)
{
	forget_event(s);
	str_release(&s->line);
	memcpy(s->id, s->last_id, sizeof s->id);
	s->is_after_cr = s->has_begun = false;
}

/* An event without data is none. */
static void end_event(struct sse *s)
{
	memcpy(s->last_id, s->id, sizeof s->id);
	if (s->has_data) {
		s->events = xreallocarray(s->events, s->n_events + 1, sizeof *s->events);
		s->events[s->n_events++] = (struct sse_event){
			.id = xstrdup(s->last_id),
			.event = xstrdup(s->name.length ? str_text(&s->name) : "message"),
			.data = xstrdup(str_text(&s->data))
		};
	}
	forget_event(s);
}

static void take_field(struct sse *s, const char *name, size_t length, const char *value)
{
	if (length == 4 && memcmp(name, "data", 4) == 0) {
		if (s->has_data)
			str_add(&s->data, "\n");
		str_add(&s->data, value);
		s->has_data = true;
	} else if (length == 5 && memcmp(name, "event", 5) == 0) {
		str_release(&s->name);
		str_add(&s->name, value);
	} else if (length == 2 && memcmp(name, "id", 2) == 0 && strlen(value) <= SSE_ID_MAX) {
		memcpy(s->id, value, strlen(value) + 1);
	}
}

static int end_line(struct sse *s, struct err *err)
{
	CLEANUP_FREE char *owned = str_take(&s->line);
	const char *line = owned ? owned : "";
	if (!s->has_begun && str_starts(line, "\xef\xbb\xbf"))
		line += 3;
	s->has_begun = true;
	if (s->data.length + strlen(line) > SSE_EVENT_MAX)
		return err_set(err, ERR_HOST, E2BIG, "an event is larger than %zu bytes",
			       SSE_EVENT_MAX);
	if (!*line) {
		end_event(s);
		return 0;
	}
	const char *colon = strchr(line, ':');
	size_t length = colon ? (size_t)(colon - line) : strlen(line);
	const char *value = colon ? colon + 1 : "";
	take_field(s, line, length, value + (*value == ' '));
	return 0;
}

int sse_feed(struct sse *s, const char *bytes, size_t length, struct err *err)
{
	for (size_t at = 0; at < length;) {
		if (s->is_after_cr && bytes[at] == '\n') {
			s->is_after_cr = false;
			at++;
			continue;
		}
		s->is_after_cr = false;
		size_t n = 0;
		while (at + n < length && bytes[at + n] != '\n' && bytes[at + n] != '\r')
			n++;
		if (s->line.length + n > SSE_EVENT_MAX)
			return err_set(err, ERR_HOST, E2BIG, "a line is larger than %zu bytes",
				       SSE_EVENT_MAX);
		str_add_n(&s->line, bytes + at, n);
		at += n;
		if (at == length)
			break;
		s->is_after_cr = bytes[at++] == '\r';
		int r = end_line(s, err);
		if (r < 0)
			return r;
	}
	return 0;
}

bool sse_next(struct sse *s, struct sse_event *ret)
{
	if (s->n_taken == s->n_events)
		return false;
	*ret = s->events[s->n_taken++];
	if (s->n_taken == s->n_events)
		s->n_taken = s->n_events = 0;
	return true;
}

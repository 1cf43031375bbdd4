/* Streams, as answers that libmicrohttpd reads from us. A stream with nothing to say is suspended. */
#include "serve/sse.h"

#include <string.h>

#include "base/clock.h"
#include "serve/http_parts.h"

#define HEARTBEAT_USEC (15 * 1000000ULL)
#define BLOCK          (16 << 10)

struct stream {
	struct streams *all; /* borrowed */
	struct door *door;   /* borrowed */
	struct MHD_Connection *mhd;
	char *authorization; /* owned; of a client on TCP, or NULL */
	struct identity who; /* that it stands for */
	const struct stream_source *source;
	void *data; /* owned by the source's free */
	struct str pending;
	size_t sent; /* of pending */
	bool is_suspended, is_over;
	bool has_spoken; /* since the last heartbeat */
	struct stream *next, **before;
};

struct streams {
	struct stream *first;
	sd_event_source *heartbeat;
};

void sse_add(struct str *to, const char *id, const char *event, const char *data)
{
	if (id)
		str_addf(to, "id: %s\n", id);
	if (event)
		str_addf(to, "event: %s\n", event);
	for (const char *line = data;;) {
		size_t n = strcspn(line, "\r\n");
		str_add(to, "data: ");
		str_add_n(to, line, n);
		str_add(to, "\n");
		if (!line[n])
			break;
		line += n + 1;
	}
	str_add(to, "\n");
}

void sse_add_json(struct str *to, const char *id, const char *event, json_t *taken)
{
	CLEANUP_JSON json_t *value = taken;
	CLEANUP_FREE char *text = json_dumps_short(value, JSON_COMPACT);
	sse_add(to, id, event, text);
}

bool sse_is_wanted(const struct request *r)
{
	const char *accept = request_header(r, "Accept");
	return accept && strcasestr(accept, "text/event-stream");
}

static ssize_t give(struct stream *s, char *buffer, size_t room)
{
	size_t left = s->pending.length - s->sent, n = left < room ? left : room;
	memcpy(buffer, s->pending.text + s->sent, n);
	s->sent += n;
	s->has_spoken = true;
	if (s->sent == s->pending.length) {
		str_release(&s->pending);
		s->pending = (struct str){ 0 };
		s->sent = 0;
	}
	return (ssize_t)n;
}

static ssize_t read_stream(void *data, uint64_t position, char *buffer, size_t room)
{
	struct stream *s = data;
	if (s->pending.length)
		return give(s, buffer, room);
	if (s->is_over)
		return MHD_CONTENT_READER_END_OF_STREAM;
	enum stream_next next = s->source->next(s->data, &s->pending);
	s->is_over = next == STREAM_OVER;
	if (s->pending.length)
		return give(s, buffer, room);
	if (s->is_over)
		return MHD_CONTENT_READER_END_OF_STREAM;
	MHD_suspend_connection(s->mhd);
	s->is_suspended = true;
	return 0;
}

void stream_wake(struct stream *s)
{
	if (!s->is_suspended)
		return;
	s->is_suspended = false;
	MHD_resume_connection(s->mhd);
	http_kick(s->door);
}

static void free_stream(void *data)
{
	struct stream *s = data;
	*s->before = s->next;
	if (s->next)
		s->next->before = s->before;
	s->source->free(s->data);
	str_release(&s->pending);
	free(s->authorization);
	free(s);
}

struct stream *respond_stream(struct request *r, const struct stream_source *source, void *data)
{
	struct streams *all = r->connection->door->http->streams;
	struct stream *s = xcalloc(1, sizeof *s);
	const char *said = r->connection->door->is_tcp ? request_header(r, "Authorization") : NULL;
	*s = (struct stream){ .all = all,
			      .door = r->connection->door,
			      .mhd = r->mhd,
			      .authorization = said ? xstrdup(said) : NULL,
			      .who = r->who,
			      .source = source,
			      .data = data,
			      .next = all->first,
			      .before = &all->first };
	if (s->next)
		s->next->before = &s->next;
	all->first = s;
	/* A comment at once, so that the client sees that it is heard. */
	str_add(&s->pending, ": cupel\n\n");
	struct MHD_Response *response = MHD_create_response_from_callback(
		MHD_SIZE_UNKNOWN, BLOCK, read_stream, s, free_stream);
	respond_secure(response, RESPOND_POLICY);
	(void)MHD_add_response_header(response, "Content-Type", "text/event-stream");
	(void)MHD_add_response_header(response, "Cache-Control", "no-store");
	(void)MHD_add_response_header(response, "X-Accel-Buffering", "no");
	respond_with(r, 200, response);
	return s;
}

/* A token that was revoked, has expired or lost its user ends what it began. */
static bool is_let_in(const struct stream *s)
{
	struct identity now = { 0 };
	return !s->authorization ||
	       (auth_token(s->door->http->auth, s->authorization, &now, NULL) >= 0 &&
		now.scopes == s->who.scopes && str_eq(now.name, s->who.name));
}

/* What hears nothing for long can't tell a quiet service from one that is gone; and a client that is gone is noticed only by writing. */
static int on_heartbeat(sd_event_source *source, uint64_t usec, void *data)
{
	struct streams *all = data;
	for (struct stream *s = all->first; s; s = s->next) {
		if (!s->has_spoken && !s->pending.length)
			str_add(&s->pending, ":\n\n");
		s->has_spoken = false;
		s->is_over = s->is_over || !is_let_in(s);
		stream_wake(s);
	}
	(void)sd_event_source_set_time_relative(source, HEARTBEAT_USEC);
	(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

struct streams *streams_new(sd_event *event)
{
	struct streams *all = xcalloc(1, sizeof *all);
	(void)sd_event_add_time_relative(event, &all->heartbeat, CLOCK_MONOTONIC, HEARTBEAT_USEC, 0,
					 on_heartbeat, all);
	return all;
}

void streams_end(struct streams *all)
{
	for (struct stream *s = all->first; s; s = s->next) {
		s->is_over = true;
		stream_wake(s);
	}
}

void streams_free(struct streams *all)
{
	if (!all)
		return;
	sd_event_source_freep(&all->heartbeat);
	free(all);
}

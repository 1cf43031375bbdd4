#include "cli/follow.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"

static const char *const names[] = { "stdout", "stderr" };

static char *path_of(const char *id, int which)
{
	CLEANUP_FREE char *name = client_escape(id);
	return xasprintf("/v1/runs/%s/log/%s", name, names[which]);
}

static int pass_on(void *data, const void *bytes, size_t length)
{
	return terminal_out_write(data, bytes, length);
}

int follow_fetch(struct client *c, const char *id, struct terminal_out to[2], struct err *err)
{
	for (int i = 0; i < 2; i++) {
		CLEANUP_FREE char *path = path_of(id, i);
		const struct client_request request = { .path = path,
							.sink = pass_on,
							.data = &to[i] };
		int r = client_call(c, &request, NULL, err);
		if (r < 0)
			return r;
	}
	return 0;
}

struct following {
	struct client_stream *streams[2]; /* owned; NULL: it has come to its end */
	struct terminal_out *to;          /* borrowed; one for each stream */
};

static void following_release(struct following *f)
{
	client_stream_freep(&f->streams[0]);
	client_stream_freep(&f->streams[1]);
}

/* 1: that was the end. */
static int hear(const struct sse_event *event, struct terminal_out *to, struct err *err)
{
	if (str_eq(event->event, "end"))
		return 1;
	CLEANUP_JSON json_t *data = json_loads(event->data, 0, NULL);
	const json_t *text = json_object_get(data, "text");
	if (!str_eq(event->event, "log") || !json_is_string(text))
		return 0;
	int r = terminal_out_write(to, json_string_value(text), json_string_length(text));
	return r < 0 ? err_set(err, ERR_HOST, -r, "write the log: %s", strerrordesc_np(-r)) : 0;
}

static int take_news(struct following *f, int which, struct err *err)
{
	for (;;) {
		CLEANUP_SSE_EVENT struct sse_event event = { 0 };
		int news = client_stream_next(f->streams[which], &event, err);
		if (news <= CLIENT_NOTHING)
			return news;
		if (news != CLIENT_EVENT)
			continue; /* what is connected again goes on behind the last event */
		int r = hear(&event, &f->to[which], err);
		if (r > 0)
			client_stream_freep(&f->streams[which]);
		if (r)
			return r;
	}
}

int follow_stream(struct client *c, const char *id, struct terminal_out to[2], struct err *err)
{
	CLEANUP(following_release) struct following f = { .to = to };
	int r = 0;
	for (int i = 0; r >= 0 && i < 2; i++) {
		CLEANUP_FREE char *path = path_of(id, i);
		r = client_stream_open(c, path, NULL, &f.streams[i], err);
	}
	while (r >= 0 && (f.streams[0] || f.streams[1])) {
		r = client_wait(c, -1, err);
		for (int i = 0; r >= 0 && i < 2; i++)
			if (f.streams[i])
				r = take_news(&f, i, err);
	}
	return r < 0 ? r : 0;
}

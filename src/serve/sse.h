/* Server-sent events: an answer that goes on. Nothing is kept for a client that reads slowly: what is next is asked of the source when there is
 * room for it. */
#pragma once

#include "serve/request.h"

struct stream;

enum stream_next {
	STREAM_WAIT, /* nothing now; stream_wake() says when */
	STREAM_SOME, /* something was added */
	STREAM_OVER, /* that was all */
};

struct stream_source {
	/* Adds what is next, some kilobytes at most. */
	enum stream_next (*next)(void *data, struct str *to);
	void (*free)(void *data);
};

/* Answers; takes `data`. */
struct stream *respond_stream(struct request *r, const struct stream_source *source, void *data);
/* There may be something now. */
void stream_wake(struct stream *s);

/* One event: each of `id` and `event` may be NULL. `data` has no line ends, or is cut into lines. */
void sse_add(struct str *to, const char *id, const char *event, const char *data);
/* The same with a value, which is taken. */
void sse_add_json(struct str *to, const char *id, const char *event, json_t *taken);
/* Whether the client wants events. */
bool sse_is_wanted(const struct request *r);

/* For http.c: all streams, so that they can be kept alive and ended. */
struct streams;
struct streams *streams_new(sd_event *event);
void streams_end(struct streams *all); /* each is over with what was said */
void streams_free(struct streams *all);

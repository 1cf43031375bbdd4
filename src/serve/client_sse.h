/* Server-sent events out of a stream of bytes that may be cut anywhere, as the HTML standard reads them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

#define SSE_EVENT_MAX ((size_t)4 << 20) /* of one event, and of one line */
#define SSE_ID_MAX    200

struct sse_event {
	char *id;    /* owned; the last one told, "" if none was */
	char *event; /* owned; "message" if it has no name */
	char *data;  /* owned; its lines, with line feeds between them */
};
void sse_event_release(struct sse_event *e);
#define CLEANUP_SSE_EVENT CLEANUP(sse_event_release)

struct sse {
	struct str line, name, data; /* of what has not come to its end */
	bool has_data;
	bool is_after_cr; /* a line feed now belongs to the end of the line before */
	bool has_begun;
	char id[SSE_ID_MAX + 1];      /* said last; counts with the event that it stands in */
	char last_id[SSE_ID_MAX + 1]; /* of the last whole event: where to go on */
	struct sse_event *events;     /* owned; whole ones that nobody has taken */
	size_t n_events, n_taken;
};
void sse_release(struct sse *s);
/* After a connection was lost: what had not come to its end never will. The last id and whole events stay. */
void sse_restart(struct sse *s);
/* -E2BIG (host): a line or event is larger than any that cupel sends. */
int sse_feed(struct sse *s, const char *bytes, size_t length, struct err *err);
/* The next whole one: true, and *ret is the caller's. */
bool sse_next(struct sse *s, struct sse_event *ret);

/* The service from outside: its JSON answers and its streams of events, over its unix socket or over http://HOST:PORT with a token. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "serve/client_sse.h"
#include "spec/config.h"

#define CLIENT_BODY_MAX ((size_t)64 << 20) /* of an answer */

struct client;

/* Whom to ask is said by CUPEL_SERVICE (a path, http://HOST:PORT, or "none"), else by the configuration. 1: *ret; 0: nobody listens there, or
 * nobody is to be asked. One that CUPEL_SERVICE names and that is not there is an error. CUPEL_TOKEN is the token for TCP. */
int client_open(const struct config *config, struct client **ret, struct err *err);
/* Whether the one to ask has a socket, and so most likely sees the files that the caller sees. */
bool client_is_here(void);
void client_free(struct client *c);
static inline void client_freep(struct client **c)
{
	client_free(*c);
	*c = NULL;
}
#define CLEANUP_CLIENT __attribute__((cleanup(client_freep)))
/* For messages; borrowed. */
const char *client_where(const struct client *c);

struct client_request {
	const char *path;   /* "/v1/runs?limit=2" */
	const char *method; /* or NULL: GET */
	const json_t *body; /* or NULL */
	const char *key;    /* or NULL: Idempotency-Key */
	/* Or NULL: where the bytes of a good answer go, as they come; no cap and no time limit then. Negative errno stops it. */
	int (*sink)(void *data, const void *bytes, size_t length);
	void *data;
};
/* The answer, which is the caller's; without `ret` it is dropped. Refusals have the service's own words, kind caller for what was asked and
 * host for the rest: -ENOENT, -EPERM, -EACCES (token), -EEXIST, -EDQUOT, -EINVAL, -EAGAIN (not now); -EHOSTDOWN: nobody answers. */
int client_call(struct client *c, const struct client_request *q, json_t **ret, struct err *err);
/* One part of a path or a value of a query, owned by the caller. */
char *client_escape(const char *text);

/* A stream of events that connects again by itself, and goes on behind the last event that had an id. */
struct client_stream;
int client_stream_open(struct client *c, const char *path, const char *last_id,
		       struct client_stream **ret, struct err *err);
void client_stream_free(struct client_stream *s);
static inline void client_stream_freep(struct client_stream **s)
{
	client_stream_free(*s);
	*s = NULL;
}
#define CLEANUP_CLIENT_STREAM __attribute__((cleanup(client_stream_freep)))
/* Lets all streams of the client go on, until something has come or the time is over (-1: none). */
int client_wait(struct client *c, int timeout_ms, struct err *err);

enum client_news {
	CLIENT_NOTHING,
	CLIENT_EVENT,  /* *ret is the caller's */
	CLIENT_OPENED, /* connected, or again: ask for what has happened meanwhile */
	CLIENT_LOST,   /* the connection; it is being made again */
};
/* Without waiting. Negative errno, as client_call: it was refused, and is not tried again. */
int client_stream_next(struct client_stream *s, struct sse_event *ret, struct err *err);

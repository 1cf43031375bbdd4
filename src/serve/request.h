/* One request, and the answers to it. A handler is called once, when all of the request is there: it answers, or says that the answer comes
 * later (request_wait), and whoever has it then answers. All of it in the thread of the loop. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/str.h"
#include "serve/desk.h"
#include "serve/identity.h"
#include "serve/service.h"
#include "serve/url.h"
#include "spec/config.h"

#define REQUEST_BODY_MAX (1 << 20)

/* What handlers work with. Borrowed. */
struct context {
	sd_event *event;
	const struct config *config;
	struct service *service;
	struct desk *desk;
	struct children *children;    /* child.h */
	struct news *news;            /* news.h */
	struct metrics_kept *metrics; /* metrics.h */
};

struct MHD_Connection;
struct MHD_Response;
struct route;
struct connection;

enum request_stage { REQUEST_HEAD, REQUEST_BODY, REQUEST_HANDLED, REQUEST_ANSWERED };

struct request {
	const struct context *context;
	const struct route *route;
	struct url url;     /* owned */
	const char *arg[2]; /* borrowed from url: what stands for {id} or {name} */
	char *rest;         /* owned or NULL: what stands for {path} */
	struct identity who;
	struct viewer viewer; /* what that one may see */
	struct str body;
	/* The rest is http_request.c's and respond.c's. */
	enum request_stage stage;
	struct MHD_Connection *mhd;
	struct connection *connection;
	struct MHD_Response *response; /* owned until it is sent */
	unsigned status;
	bool is_waiting;   /* for its answer */
	unsigned n_waits;  /* how often somebody promised an answer (request_wait) */
	bool is_suspended; /* the library does not look at it meanwhile */
	bool is_too_large; /* more came than a body may have */
	bool is_crowded;   /* there was no room for it beside those of others */
	size_t drained;    /* bytes of such a body */
	struct err refused;
	struct request *next, **before; /* in the list of those that wait */
};

/* Of this request; borrowed. NULL if it is not there. */
const char *request_header(const struct request *r, const char *name);
/* Query values: the number, or `otherwise` if it was not said; the request is answered and false returned if it is none or above `max`. */
bool request_number(struct request *r, const char *key, uint64_t max, uint64_t otherwise,
		    uint64_t *ret);
/* The body as an object, owned by the caller. NULL: the request is answered. */
json_t *request_object(struct request *r);
/* The answer comes later. Each callback that leaves the request unanswered says so again. */
void request_wait(struct request *r);
/* Answers 500 if the request is neither answered nor waits anew since n_waits had this value: nothing would ever answer it. */
void request_must_go_on(struct request *r, unsigned n_waits_before);

/* What is worked on at the desk for a request. */
struct reading {
	void (*work)(void *data);                      /* in a thread: never touches the request */
	void (*answer)(struct request *r, void *data); /* in the loop */
	void (*release)(void *data);                   /* in the loop, at last */
};
void request_read(struct request *r, const struct reading *reading, void *data);

/* Each answers. */
void respond_json(struct request *r, unsigned status, json_t *taken);
struct problem {
	unsigned status;
	const char *code;   /* "not-found" ... */
	const char *remedy; /* or NULL */
};
void respond_problem(struct request *r, const struct problem *p, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* A failure below: -ENOENT is 404, the caller's other mistakes are 400, the rest is the host's. */
void respond_failure(struct request *r, int code, const struct err *err);
/* Bytes that live as long as the program. `etag`: without quotes, or NULL. */
void respond_static(struct request *r, const char *type, const char *text, const char *etag);
/* Heap bytes, which are taken. */
void respond_bytes(struct request *r, unsigned status, const char *type, struct str *taken);

/* A page that was made of a stranger's words, and is shut in: no scripts, no other hosts. Heap bytes, which are taken. */
void respond_page(struct request *r, struct str *taken);

struct respond_file {
	int fd; /* taken */
	uint64_t size;
	const char *etag;     /* without quotes */
	const char *type;     /* media type */
	const char *filename; /* or NULL: shown, not saved */
	bool is_sandboxed;    /* what a stranger made: no page of ours */
};
/* The file or the part of it that is asked for. */
void respond_file(struct request *r, const struct respond_file *f);

/* Adds to the answer that was given. */
void respond_header(struct request *r, const char *name, const char *value);

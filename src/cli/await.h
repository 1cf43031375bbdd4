/* Runs and pipelines that somebody waits for: by the service, if one answers, else by their records. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "serve/client.h"
#include "spec/config.h"

struct awaited {
	const char *id; /* borrowed */
	bool is_pipeline;
	bool is_known; /* the service has had it: if it says otherwise, it is between its memory and its ledger */
	bool is_over;
	bool is_ending;  /* an event has said that it is over, before those who are asked know */
	bool is_begun;   /* it does not wait in a queue any more */
	bool is_watched; /* its end is told by an event of the service; else it is asked for */
	json_t *told;    /* owned or NULL; as `cupel show --json` has it, as far as is known */
	int exit_status; /* once it is over: as of `cupel run` */
	pid_t keeper;    /* or who runs the pipeline; 0 nobody, -1 not to be seen from here */
	int keeper_fd;   /* owned; -1: none */
};

struct awaiting {
	const struct config *config; /* borrowed */
	struct client *client;       /* borrowed or NULL: by the records */
	struct awaited *v;           /* owned */
	size_t n;
	bool is_any;
	bool until_begun;     /* no longer than that */
	bool is_down;         /* the service; it was said */
	uint64_t deadline_ns; /* by the monotonic clock; 0: none */
	/* Or NULL: called when one is over. */
	void (*news)(void *data, const struct awaited *w);
	void *data;
};
void awaiting_release(struct awaiting *a);
#define CLEANUP_AWAITING CLEANUP(awaiting_release)
void awaiting_add(struct awaiting *a, const char *id);

/* Looks once. -ENOENT (caller): there is none of that id. -EHOSTDOWN, -EAGAIN: the service can't tell now. */
int await_look(struct awaiting *a, struct awaited *w, struct err *err);
/* The same by its record alone. */
int await_look_record(struct awaiting *a, struct awaited *w, struct err *err);
/* Until all are over, or one if that is enough. 1: it is so; 0: the time is over. A service that goes away is waited for. */
int await_ends(struct awaiting *a, struct err *err);
/* await_service.c */
int await_look_service(struct awaiting *a, struct awaited *w, struct err *err);
int await_by_service(struct awaiting *a, struct err *err);
/* Shared by both ways. */
void await_take(struct awaited *w, json_t *told);
bool await_is_done(const struct awaiting *a);
int await_left_ms(const struct awaiting *a, int most_ms);

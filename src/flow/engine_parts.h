/* Shared by the files that run a pipeline; no other file includes it. */
#pragma once

#include "flow/engine.h"
#include "flow/finished.h"
#include "flow/key.h"
#include "flow/link.h"
#include "flow/ongoing.h"
#include "flow/past.h"
#include "flow/record.h"
#include "run/run.h"

#define RUNNING_MAX 256 /* at once */

struct task_state {
	enum flow_state state;
	size_t waiting; /* for so many of the step's needs */
	unsigned attempt;
	struct flow_tries tries;
	bool had_twin; /* one of the same key ran while it waited */
	char *reason;  /* owned or NULL; why it is run */
	char *lost;    /* owned or NULL; why its result can't be used, once that was found out */
	bool is_found; /* its result is there and whole, and in `made`: looked at ahead */
	char key[HASH_HEX];
	enum cause cause;
	char cause_name[32];
	int exit_status;
	uint64_t wall_ns, memory_bytes;
	struct strv attempts; /* run ids */
	struct running *run;  /* owned or NULL; while it runs */
	uint64_t sampled_bytes;
	uint64_t limits[LIMIT_COUNT_]; /* of this attempt, for admission */
};

struct queue {
	size_t *v; /* owned; room for every task once */
	size_t first, n;
};

struct engine {
	const struct flow_request *q;
	const struct config *config;
	struct flow *flow;
	char *home; /* owned; real */
	struct flow_record record;
	struct key_maker *keys; /* owned */
	struct finished_reader finished;
	struct flow_past *past; /* owned */
	struct ongoing_set ongoing;
	struct task_state *tasks; /* owned; one a task */
	struct flow_made *made;   /* owned; one a task */
	size_t *done;             /* owned; one a step: tasks of it that are */
	struct queue ready, queued;
	size_t *running; /* owned; tasks */
	size_t n_running;
	size_t streak; /* tasks looked at one after the other whose results were there */
	size_t counts[FLOW_STATE_COUNT_];
	struct {
		size_t hit, miss, unusable; /* what was looked for; was there, but can't be used */
	} lookups;
	bool stopping; /* nothing new is started */
	bool cancelled;
	uint64_t cancelled_ns; /* since when */
	int exit_status;       /* of the first that failed */
	uint64_t began_ns;
	unsigned n_cpus;
	int signal_fd; /* owned */
};

void queue_add(struct queue *q, size_t task);
void engine_set(struct engine *e, size_t task, enum flow_state state);
void engine_tell(struct engine *e, const struct flow_news *news);
/* A task is over: whatever waits for it and for nothing else is ready. */
void engine_passed(struct engine *e, size_t task);

/* task.c: one task. */
/* Its key, and whether it was finished before: FLOW_REUSED or FLOW_QUEUED from here on; FLOW_FAILED if its inputs can't be had. */
void engine_look(struct engine *e, size_t task);
/* Its result may be one that is there already. */
bool engine_may_reuse(const struct engine *e, const struct flow_step *s);
/* True if a result of its key has come to be meanwhile, and is used. */
bool engine_reuse(struct engine *e, size_t task);
/* -errno only where nothing can be recorded any more. */
int engine_start(struct engine *e, size_t task, struct err *err);
int engine_ended(struct engine *e, size_t task, struct err *err);
void engine_skip(struct engine *e, size_t task, const char *why);
/* Its run is over, or is ended. */
void engine_drop_run(struct task_state *s);

/* attempt.c: its next run. */
void engine_prepare(struct engine *e, size_t task);
/* It did not succeed: is it to be run again? The limit that it reached has grown then. */
bool engine_wants_again(struct engine *e, size_t task);

/* admit.c: starts what fits, looks at what is ready; returns when there is nothing to do but wait. */
int engine_advance(struct engine *e, struct err *err);
/* What a service has admitted the pipeline with, if this task takes of it; 0: no bound. */
uint64_t engine_given(const struct engine *e, size_t task, enum limit_id id);
/* Something is left to be looked at. */
bool engine_may_look(const struct engine *e);
/* Takes signals without waiting: nothing new is started after one. */
void engine_hear_signals(struct engine *e);

/* ahead.c: many ready tasks at once, on all cpus, where results were found again and again: what is found is noted. Only while nothing runs: the
 * threads are gone when it returns. */
void engine_look_ahead(struct engine *e);
void engine_take_outputs(struct flow_made *made, const struct finished *f);

/* What both running and foreseeing need; releases what it made on failure too. */
int engine_open(struct engine *e, const struct flow_request *q, const char *previous,
		struct err *err);
void engine_release(struct engine *e);

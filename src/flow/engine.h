/* Runs a pipeline: whatever is ready and not finished before, side by side within the host's budget. */
#pragma once

#include "flow/flow.h"
#include "runtime/fingerprint.h"
#include "spec/id.h"

enum flow_state {
	FLOW_WAITING, /* for other tasks */
	FLOW_READY,   /* nothing is known of it yet */
	FLOW_QUEUED,  /* it must be run */
	FLOW_RUNNING,
	FLOW_OK,
	FLOW_REUSED,
	FLOW_FAILED,
	FLOW_CANCELLED,
	FLOW_SKIPPED, /* what it needs did not succeed, or the pipeline was ended before */
	FLOW_STATE_COUNT_
};
extern const char *const flow_state_names[];

/* What happened to a task, for whoever watches. */
struct flow_news {
	enum {
		FLOW_NEWS_REUSED,
		FLOW_NEWS_AWAITED, /* `run`, begun by a pipeline that was killed, goes on elsewhere */
		FLOW_NEWS_STARTED,
		FLOW_NEWS_ENDED,
		FLOW_NEWS_AGAIN,
		FLOW_NEWS_SKIPPED
	} kind;
	const struct flow_task *task;
	const char *run;
	const char *
		why; /* STARTED: why it is run; SKIPPED: why it is not; ENDED: the verdict's own words */
	const char *cause; /* ENDED, AGAIN */
	bool ok;
	unsigned attempt;
	uint64_t wall_ns, memory_bytes;
};

struct flow_tally {
	size_t n[FLOW_STATE_COUNT_];
	size_t total;
	uint64_t elapsed_ns, memory_bytes;  /* of all that run, at the last sample */
	const struct flow_task *running[8]; /* the first of them */
	size_t n_running;
};

struct flow_viewer {
	void *data;
	void (*news)(void *data, const struct flow_news *news);
	void (*tally)(void *data, const struct flow_tally *tally); /* a few times a second */
};

struct flow_request {
	const struct config *config;
	struct flow *flow;                /* checked */
	const char *resume;               /* NULL, or the pipeline that is gone on with */
	const struct strv *force;         /* steps that are run whatever is known of them */
	unsigned jobs;                    /* 0: one a cpu */
	bool keep_going;                  /* after a failure, whatever does not depend on it */
	const struct flow_viewer *viewer; /* or NULL */
	const struct fingerprint_progress *
		reading; /* or NULL; told while the content of a runtime is read, which takes seconds the first time */
};

struct flow_end {
	char id[ID_MAX + 1];
	enum flow_state state; /* FLOW_OK, FLOW_FAILED, FLOW_CANCELLED */
	int exit_status;       /* of the first task that failed */
	struct flow_tally tally;
	json_t *result; /* owned; as in result.json */
};
void flow_end_release(struct flow_end *e);
#define CLEANUP_FLOW_END CLEANUP(flow_end_release)

/* A task that fails is no error here. Negative errno if the pipeline could not be begun, or not be recorded. */
int flow_run(const struct flow_request *q, struct flow_end *ret, struct err *err);

/* What a run would do, task by task, without doing it. */
struct flow_foresight {
	enum flow_state
		state; /* FLOW_REUSED, FLOW_QUEUED: it would be run; FLOW_WAITING: it depends on what others make */
	char run[ID_MAX + 1]; /* FLOW_REUSED */
	char *why;            /* owned or NULL */
};
/* One for each task; owned by the caller, as are their texts. */
int flow_foresee(const struct flow_request *q, struct flow_foresight **ret, struct err *err);

/* The record of a pipeline, HOME/pipelines/ID, read into memory: which steps it has, what became of each of their shards in which attempts.
 * Complete, or as far as it has got. Names and texts in it quote an analysis file and are hostile; ids of runs are checked. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "spec/config.h"
#include "spec/id.h"

enum task_state {
	TASK_WAITING, /* it was not come to yet, or never will be */
	TASK_RUNNING,
	TASK_OK,
	TASK_REUSED,
	TASK_FAILED,
	TASK_CANCELLED,
	TASK_SKIPPED,
	TASK_STATE_COUNT_
};
extern const char *const task_state_names[];

struct dossier_attempt {
	char run[ID_MAX + 1];           /* "": none, or one that is no id */
	uint64_t started_ms, ended_ms;  /* since 1970; 0: not known */
	char cause[24];                 /* "": it has not ended */
	uint64_t wall_ms, memory_bytes; /* 0: not known */
};

/* A step, or a shard of one. */
struct dossier_task {
	char *shard; /* owned; "" if the step is not scattered */
	enum task_state state;
	char run[ID_MAX + 1]; /* whose outputs count, or that failed last; "": none */
	char cause[24];
	char *key;     /* owned; hex or "" */
	json_t *parts; /* owned or NULL; of the key: name -> hex */
	char *why;     /* owned; why it was run, or was not; or what kept it from being run */
	uint64_t wall_ms, memory_bytes;
	struct dossier_attempt
		*attempts; /* owned; of this pipeline: one that was reused has none */
	size_t n_attempts;
};

struct dossier_step {
	const char *name, *summary, *runtime; /* borrowed from the record */
	uint64_t line;
	size_t *needs; /* owned; numbers of steps */
	size_t n_needs;
	bool is_scattered;
	uint64_t shards;
	size_t layer;               /* longest way from a step that needs none */
	struct dossier_task *tasks; /* owned; those that something is known of */
	size_t n_tasks;
	uint64_t counts[TASK_STATE_COUNT_]; /* of its shards */
};

struct pipeline_dossier {
	char *id;         /* owned */
	char *directory;  /* owned; HOME/pipelines/ID */
	int dir_fd;       /* owned */
	int runs_fd;      /* owned; HOME/runs, -1 if there is none */
	json_t *pipeline; /* owned; pipeline.json */
	json_t *result;   /* owned; result.json, NULL while it goes on, also if it does so again */
	struct dossier_step *steps; /* owned */
	size_t n_steps;
	uint64_t counts[TASK_STATE_COUNT_], total;
	uint64_t last_ms;            /* of the last event */
	uint64_t began_ms, ended_ms; /* since 1970; of the last event if it has no end */
	const char *state;           /* "ok", "failed", "cancelled", "running", "lost?" */
};
#define PIPELINE_DOSSIER_INIT                                                                      \
	{                                                                                          \
		.dir_fd = -1, .runs_fd = -1                                                        \
	}

/* Is there a pipeline of that id? */
bool pipeline_is_there(const struct config *c, const char *id);
/* -ENOENT (caller) if there is none. */
int pipeline_dossier_read(const struct config *c, const char *id, struct pipeline_dossier *ret,
			  struct err *err);
void pipeline_dossier_release(struct pipeline_dossier *d);
#define CLEANUP_PIPELINE_DOSSIER CLEANUP(pipeline_dossier_release)

/* Whatever it came to: those that ended well, or were reused. */
uint64_t pipeline_done(const struct pipeline_dossier *d);
/* What the cause of an attempt means; "": it has not ended. */
enum task_state task_state_of(const char *cause);
/* "align", "align[s1]"; owned by the caller. */
char *task_name(const struct dossier_step *step, const struct dossier_task *task);
/* RFC 3339 as milliseconds since 1970; 0 if it is none. */
uint64_t pipeline_time_ms(const char *text);

/* pipeline_events.c: what steps.jsonl and then result.json say, put to the steps. */
int pipeline_fold_events(struct pipeline_dossier *d, struct err *err);
void pipeline_fold_result(struct pipeline_dossier *d);

/* A pipeline: an analysis file with steps. Each step becomes one task, or one for each of its shards; a task is an analysis of its own, run in a
 * box of its own. Read and checked as a whole before anything runs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/json.h"
#include "flow/retry.h"
#include "keeper/verdict.h"
#include "spec/analysis.h"
#include "spec/config.h"

#define FLOW_STEPS_MAX 1000
#ifndef FLOW_TASKS_MAX /* fewer where each of many thousand inputs is to take no time */
#define FLOW_TASKS_MAX 50000
#endif
#define FLOW_TEXTS_MAX ((size_t)256 << 20) /* of all tasks together */
#define FLOW_NAME_MAX  32                  /* of a step: part of run ids */

/* An input that another step makes. */
struct flow_source {
	size_t step;  /* index */
	char *path;   /* owned or NULL: all its outputs; a pattern over them */
	char *name;   /* owned or NULL: below data/ */
	char *origin; /* owned; file:line:column */
	bool matched; /* of the shard that is this task's own */
};

struct flow_edge {
	size_t step;
	bool matched; /* shard by shard */
};

enum flow_place_of {
	FLOW_AT_NAME,
	FLOW_AT_RUNTIME,
	FLOW_AT_COMMAND,
	FLOW_AT_LIMITS,
	FLOW_PLACE_COUNT_
};

struct flow_step {
	char *name;    /* owned */
	char *summary; /* owned or NULL */
	struct flow_place {
		int line, column;
	} at[FLOW_PLACE_COUNT_]; /* in the file; of its name where it does not say the rest */
	struct flow_edge *needs; /* owned; each step once */
	size_t n_needs;
	struct strv variables; /* of its scatter; none: one task */
	bool scattered;
	size_t of; /* the step whose shards it has; itself if none */
	size_t first, n_tasks;
	struct flow_retry retries[CAUSE_COUNT_];
	bool cache;           /* its result may be reused */
	struct limits limits; /* effective, as checked: for admission */
	struct strv given;    /* parameters of the pipeline that it is given */
};

struct flow_task {
	size_t step;
	char *shard; /* owned or NULL; one path component */
	char *label; /* owned; "align" or "align[s1]" */
	struct analysis analysis;
	struct flow_source *sources; /* owned */
	size_t n_sources;
};

struct flow {
	char *file;      /* owned; as given */
	char *real;      /* owned */
	char *base;      /* owned; its directory */
	char *said;      /* owned or NULL; the caller's parameters, JSON */
	json_t *options; /* owned or NULL; what else the caller said for all steps, for the record: as analysis_from_json reads it */
	char sha256[HASH_HEX];
	struct analysis
		defaults; /* what the file says for all steps; name, quest, labels, parameters and id of the whole */
	struct flow_step *steps; /* owned */
	size_t n_steps;
	struct flow_task *tasks; /* owned; those of a step side by side */
	size_t n_tasks;
};

void flow_release(struct flow *f);
#define CLEANUP_FLOW CLEANUP(flow_release)

/* Does the file have steps? A file that can't be read or parsed has none here; whoever reads it says what is wrong. */
bool flow_is(const char *path);
/* Reads the file, and what it names for the caller of the configuration (NULL: for ourselves); `parameters` (JSON or NULL) go over those of the file. Finds unknown steps, cycles, outputs that no step declares, inputs that are
 * not there or not declared, each as file:line:column. */
int flow_read(const struct config *config, const char *path, const char *parameters,
	      struct flow *ret, struct err *err);
/* The same from memory (fuzzing); `path` is for messages and relative paths, and is real. */
int flow_parse(const char *path, const char *text, size_t length, const char *parameters,
	       struct flow *ret, struct err *err);
/* What the host must have: runtimes, files, limits within its ceilings. */
int flow_check(const struct config *config, struct flow *f, struct err *err);
/* What its caller says of all steps goes over what the file says: quest, labels, allow_missing, allow_drift, keep. */
void flow_lay_over(struct flow *f, const struct analysis *said);
/* One that was begun, as flow_read; for whom it was begun, which `config` says from here on. -ENOENT (caller) there is none, -ESTALE (caller) the
 * file was changed since. */
int flow_read_again(struct config *config, const char *id, struct flow *ret, struct err *err);
/* Memory, cpus and processes, after flow_check: of the largest step, and of all that could run side by side if there were room; `jobs` as of
 * flow_request. */
struct flow_need {
	uint64_t largest[LIMIT_COUNT_], wide[LIMIT_COUNT_];
};
void flow_need(const struct flow *f, unsigned jobs, struct flow_need *ret);
/* "FILE:LINE:COLUMN: FORMAT" at a place of a step, kind caller. */
int flow_error(const struct flow *f, const struct flow_step *s, enum flow_place_of place,
	       struct err *err, const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Under what name below data/ it is shown; borrowed. */
const char *flow_source_name(const struct flow *f, const struct flow_source *s);
/* -1 if there is none of that name. */
ssize_t flow_find(const struct flow *f, const char *name);

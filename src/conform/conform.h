/* The same questions to every executor: do its runs end with the causes they should, arrive whole, and leave nothing behind?
 *
 * Real analyses take the path of `cupel run -x NAME`, each by a process of its own, in a home of their own that is removed at the end. They are
 * judged by what they recorded: verdict.json, the logs, the outputs and their digests. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "executor/executor.h"
#include "spec/config.h"

enum outcome_status { OUTCOME_PASSED, OUTCOME_FAILED, OUTCOME_SKIPPED, OUTCOME_COUNT_ };
extern const char *const outcome_names[]; /* passed, failed, skipped */

struct outcome {
	const char *name;    /* of the case */
	const char *summary; /* what it asks for */
	enum outcome_status status;
	char text[500]; /* why it failed or was skipped; of one that passed a remark, or "" */
	uint64_t wall_ns;
};

struct conform_viewer {
	void *data;
	void (*begin)(void *data, const char *name);
	void (*end)(void *data, const struct outcome *o);
};

struct conform_request {
	const struct config *config;
	const char *executor;
	const char *only; /* or NULL: the name of one case */
	const struct conform_viewer *viewer;
};

#define CONFORM_CASES_MAX 40
struct conform_report {
	struct capability capability;
	struct strv without; /* layers that it does not give: its runs were allowed to miss them */
	struct outcome outcomes[CONFORM_CASES_MAX];
	size_t n;
	size_t counts[OUTCOME_COUNT_];
	bool is_interrupted;
};
void conform_report_release(struct conform_report *r);
#define CLEANUP_CONFORM_REPORT CLEANUP(conform_report_release)

/* 0 whatever was found. The error is that it could not be tried at all. */
int conform_run(const struct conform_request *q, struct conform_report *ret, struct err *err);
json_t *conform_json(const char *executor, const struct conform_report *r);
/* The names of all cases, for people. */
void conform_names(struct str *ret);

/* here.c: what an executor can do, by its own word. Of a keeper on this host nothing is found out. */
int capability_ask(const struct config *config, const char *name, struct capability *ret,
		   struct err *err);
/* The same, and what this host gives a keeper is found by the doctor. */
int capability_find(const struct config *config, const char *name, struct capability *ret,
		    struct err *err);

/* attempt.c: a run as this folder makes them, in a process of its own: HOME EXECUTOR FILE. As run_local. */
#define CONFORM_RUN "--conformance-run"
int conform_inside(int argc, char **argv, int *ret_status, struct err *err);

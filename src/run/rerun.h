/* The same analysis again, from the record of a run. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "run/run.h"
#include "spec/analysis.h"
#include "spec/config.h"

struct rerun {
	struct analysis analysis; /* as it was resolved then */
	json_t *record;           /* owned; analysis.json */
	json_t *verdict;          /* owned; verdict.json */
};

void rerun_release(struct rerun *r);
#define CLEANUP_RERUN CLEANUP(rerun_release)

/* -ENOENT (caller) if there is no such run, -EBUSY (caller) if it still goes on. */
int rerun_read(const struct config *config, const char *id, struct rerun *ret, struct err *err);
/* The values of its secret variables, which no record has. -ENOKEY (caller) names those that are missing; -ESTALE (caller) one that is
 * another than then, unless it may differ. Before run_resolve, also if there are none. */
int rerun_give(struct rerun *r, const struct config *config, const struct pairs *values,
	       bool may_differ, struct err *err);
/* After run_resolve of r->analysis: are code, inputs and runtime what they were? -ESTALE (caller) with what is not, or can't be said. */
int rerun_check(const struct rerun *r, const struct resolved *now, struct err *err);

/* From what was asked to a verdict: spec -> runtime -> plan -> keeper, front to back, from outside the box. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "box/plan.h"
#include "keeper/keeper.h"
#include "runtime/chosen.h"
#include "runtime/runtime.h"
#include "spec/analysis.h"
#include "spec/config.h"
#include "spec/id.h"

/* Everything that is known before anything is touched; `cupel plan` shows it. */
struct resolved {
	char id[ID_MAX + 1];
	struct runtime runtime;
	struct chosen
		chosen; /* refused: the plan may be bare, and a run is recorded as runtime-broken */
	struct host host;
	struct limits limits;
	struct plan plan;
	enum keep keep;
};

void resolved_release(struct resolved *r);
#define CLEANUP_RESOLVED CLEANUP(resolved_release)

/* Completes `analysis` (real paths, passed variables, default outputs), chooses and looks at its runtime, and plans. An image may be
 * unpacked into HOME/cache, and the scripts of a conda activation are run in a box of their own, once for each state of the runtime. */
int run_resolve(const struct config *config, struct analysis *analysis, struct resolved *ret,
		struct err *err);
/* The same, but nothing is run: where scripts have not been run yet, a warning of the plan says so. */
int run_foresee(const struct config *config, struct analysis *analysis, struct resolved *ret,
		struct err *err);

/* Who shows the run while it goes on; each may be NULL. */
struct run_viewer {
	void *data;
	void (*sample)(void *data, const struct keeper_msg *sample);
	void (*clear)(void *data); /* before the analysis's own output is passed on */
};

struct run_request {
	const struct config *config;
	const struct analysis *analysis;
	const struct resolved *resolved;
	const struct run_viewer *viewer; /* or NULL */
	bool is_silent;                  /* the analysis's own output goes to its log only */
	struct stages *ret_stages;       /* NULL, or filled with where the time went */
};

/* Sweeps what dead runs left, starts a keeper, passes output and signals on, and waits for the verdict. -errno only if nothing was
 * started or the verdict could not be recorded; how the analysis ended is in *ret_exit_status. */
int run_local(const struct run_request *request, int *ret_exit_status, struct err *err);

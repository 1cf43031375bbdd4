/* Runs that are carried out elsewhere: executor/executor.h. */
#pragma once

#include "run/run.h"

/* Which executor the analysis has, into a->executor; for one that is elsewhere what it can do, and whether that is all that is asked for. */
int attended_resolve(const struct config *config, struct analysis *a, struct resolved *r,
		     struct err *err);

/* The same for whoever only asks: is there such an executor? */
int attended_foresee(const struct config *config, struct analysis *a, const struct runtime *r,
		     struct err *err);

/* start.c: this process becomes the keeper of a run that lost its own. */
_Noreturn void run_keep_again(const struct config *config, const struct analysis *analysis,
			      const struct resolved *resolved);

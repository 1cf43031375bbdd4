/* Leftovers of runs whose keeper died: found by the lock that a live keeper holds, removed, and the run recorded as lost. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "spec/config.h"
#include "spec/id.h"

#define GC_UNATTENDED_MAX 16

struct gc_report {
	uint64_t lost;    /* runs recorded as lost */
	uint64_t cleared; /* entries of complete runs, and of those whose directory is gone */
	uint64_t alive;
	uint64_t failed; /* could not be cleaned; `last_error` says why of one */
	struct err last_error;
	/* Carried out elsewhere, and nobody attends them; so many at a time. Whoever sweeps has them attended: run_sweep. */
	char unattended[GC_UNATTENDED_MAX][ID_MAX + 1];
	size_t n_unattended;
};

/* Cheap: looks at the runs that were active, and at all once after a restart of the host. Safe beside live runs and beside another gc;
 * a second call changes nothing. */
int gc_sweep(const struct config *c, struct gc_report *ret, struct err *err);
/* The same over every run there is. */
int gc_sweep_all(const struct config *c, struct gc_report *ret, struct err *err);

/* What `cupel gc` looks for beyond the sweep that every run begins with: it looks at everything, so it takes its time. */
#pragma once

#include "base/json.h"
#include "health/gc.h"

#define GC_NAMED_MAX 1000

/* GC_LOOK changes nothing. */
enum gc_act { GC_LOOK, GC_REMOVE };

struct gc_found {
	/* Runs whose keeper died, with all that is left of them, and those that go on. Only with GC_LOOK: gc_sweep_all has them otherwise. */
	uint64_t dead, alive;
	uint64_t groups; /* control groups of this home, of either version, that no run has */
	uint64_t mounts; /* working directories on an image of this home that no run has */
	uint64_t partial, partial_bytes;        /* runs whose partial outputs are too old */
	uint64_t checkpoints, checkpoint_bytes; /* that nobody used for too long */
	uint64_t kept_checkpoints, kept_checkpoint_bytes; /* that stay */
	uint64_t temporary;            /* files that a writer who died left in the home */
	uint64_t pruned, pruned_bytes; /* outputs in the store that no run has */
	uint64_t keys;                 /* entries of results by key whose run is gone */
	uint64_t failed;               /* `last_error` says why of one */
	struct err last_error;
	json_t *items; /* owned; {"kind","what","bytes"} of each, GC_NAMED_MAX at most */
};
void gc_found_release(struct gc_found *f);
#define CLEANUP_GC_FOUND CLEANUP(gc_found_release)

struct gc_request {
	const struct config *config;
	enum gc_act act;
	uint64_t partial_age_ns;    /* since the verdict; 0: kept for ever */
	uint64_t checkpoint_age_ns; /* since the last use; 0: kept for ever */
};
/* Never touches what a live run has: its lock is asked after the thing was seen, and a run takes its lock before it makes anything.
 * A second call finds nothing. */
int gc_thorough(const struct gc_request *q, struct gc_found *ret, struct err *err);

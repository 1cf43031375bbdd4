/* Is a runtime what it was, and does it work? Its state against the lock or its packages' own records, then each trial in a box of its
 * own: a real run, whose record is removed once its result is taken. The answer is written to state.json. */
#pragma once

#include "base/err.h"
#include "run/trial.h"
#include "runtime/fingerprint.h"
#include "runtime/runtime.h"
#include "runtime/state.h"
#include "spec/config.h"

#define CHECK_LABEL                                                                                \
	"cupel.check" /* of the runs of trials; its value is the name of the runtime that is checked */
#define CHECK_ID_PREFIX "check-" /* their ids begin with it */

/* Who shows the work while it goes on. */
struct check_viewer {
	void *data;
	void (*step)(void *data, const char *what, size_t number, size_t of); /* or NULL */
	struct fingerprint_progress progress;
};

struct check_request {
	const struct config *config;
	struct runtime *runtime;           /* an image gets its root */
	enum depth depth;                  /* DEPTH_STAT, DEPTH_CONTENT */
	const struct check_viewer *viewer; /* or NULL */
	const char *on_behalf_of; /* the runtime whose lock is held; NULL: `runtime` itself */
};

/* 0 whatever the health is; `ret` is what was written. -EINTR if it was interrupted: nothing is written then. Where this host can't
 * run a box at all, the error says so and the state becomes unknown. */
int check_runtime(const struct check_request *q, struct runtime_state *ret, struct err *err);

/* check_box.c: one trial in the box, with the runtime's check_limits. A refusal that is the entry's fault (limits above a ceiling, a
 * path that is not there) is an end with cause `setup`, not an error. */
int check_box(const struct check_request *q, const struct trial *t, struct trial_end *ret,
	      struct err *err);
/* Removes what interrupted checks of this runtime left in runs/. The caller holds the runtime's lock. */
void check_sweep(const struct check_request *q);

/* How a runtime stands now, without running anything. */
struct standing {
	/* What state.json says, with the health as it is now: one that can't be looked at is broken, one that is not what was locked
	 * degraded, one that changed since its check, or is not unpacked, unknown. */
	struct runtime_state state;
	struct fingerprint now; /* identity only */
	struct lock lock;
};
void standing_release(struct standing *s);
#define CLEANUP_STANDING CLEANUP(standing_release)
void runtime_standing(const struct config *config, struct runtime *r, struct standing *ret);

/* Locks a runtime as it is now; a state that was degraded for its drift becomes unknown until the next check. */
int runtime_pin(const struct config *config, struct runtime *r,
		const struct fingerprint_progress *progress, struct fingerprint *ret,
		struct err *err);
/* Removes lock and manifest. 1 if there was one, 0 otherwise. */
int runtime_unpin(const struct runtime *r, struct err *err);

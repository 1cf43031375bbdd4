/* What is known of a runtime's health: HOME/runtimes/NAME/state.json, written by check, lock and create, read before every run. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "runtime/fingerprint.h"
#include "runtime/runtime.h"
#include "spec/config.h"

enum health {
	HEALTH_UNKNOWN,  /* never checked, or changed since */
	HEALTH_HEALTHY,  /* its checks passed at this identity */
	HEALTH_DEGRADED, /* differs from its lock or from its packages' own records */
	HEALTH_BROKEN,   /* a check failed, or it can't be started at all */
	HEALTH_COUNT_
};
extern const char *const health_names[];

struct runtime_state {
	enum health health;
	char *reason;        /* owned or NULL; one line: what is wrong and the remedy */
	char *verified_time; /* owned or NULL; of the last check */
	enum depth verified_depth;
	struct fingerprint fingerprint; /* at that time */
	json_t *checks;                 /* owned or NULL; each check's name, ok, text, duration */
	json_t *drift;                  /* owned or NULL */
};
void runtime_state_release(struct runtime_state *s);
#define CLEANUP_RUNTIME_STATE CLEANUP(runtime_state_release)

int state_read(const struct config *config, const char *name, struct runtime_state *ret,
	       struct err *err);
int state_write(const struct config *config, const char *name, const struct runtime_state *s,
		struct err *err);

/* The depths that were looked at, by name. */
json_t *fingerprint_json(const struct fingerprint *f);

/* Before a run: identity now, against lock and state. 0: fit; -ESTALE with the reason and the remedy in err (cause runtime-broken):
 * degraded or broken. `ret` gets the identity that runs, with -ESTALE too. */
int runtime_fit(const struct config *config, const struct runtime *r, struct fingerprint *ret,
		struct err *err);

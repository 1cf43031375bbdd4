/* Which runs are alive, and which were a moment ago. A live keeper holds active/ID locked, so the answer is never stale. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"
#include "spec/config.h"

/* Asked, not taken: a lock of ours would look like a run. Never of the run that the calling process keeps: closing its file would end the
 * lock. *ret_keeper, unless NULL, gets the pid of its keeper. */
bool run_is_alive(const struct config *c, const char *id, pid_t *ret_keeper);
/* Asks its keeper to end it, once: *told is the keeper that was asked already, or 0. */
void run_ask_to_end(const struct config *c, const char *id, pid_t *told);
/* Those that are alive, and those whose verdict was written since. `own` is not asked about, but named; NULL: we keep none. Sorted. */
int runs_alive_since(const struct config *c, const char *own, uint64_t since_real_ns,
		     struct strv *ret, struct err *err);

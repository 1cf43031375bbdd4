/* Runs as they stand in their directories. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "keeper/alive.h"
#include "spec/config.h"
#include "view/table.h"

/* One run: {"id","state","cause","exit_status","started","name","quest","runtime","completion_notes","directory"}; state is "running",
 * "ended" or "lost?" (no verdict and no keeper; the next sweep records it). -ENOENT if there is none. */
int run_json(const struct config *c, const char *id, json_t **ret, struct err *err);
/* What of the two (either may be NULL) is told of a run, into an object that says the rest. */
void run_json_add(json_t *to, const json_t *analysis, const json_t *verdict);
/* When it was accepted and started, by its events: {"accepted","started"}. */
json_t *run_times_json(int dir_fd);
/* A page of them; `t` is {0} before the first. */
int runs_print(const json_t *runs, struct table *t, struct err *err);
/* Everything about one, for people, out of what run_json() or a service told. */
void run_print(const json_t *run);

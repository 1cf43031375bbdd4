/* Runs as they stand in their directories. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "spec/config.h"

/* One run: {"id","state","cause","exit_status","started","name","quest","runtime","completion_notes","directory"}; state is "running",
 * "ended" or "lost?" (no verdict and no keeper; the next sweep records it). -ENOENT if there is none. */
int run_json(const struct config *c, const char *id, json_t **ret, struct err *err);
/* All, in the order of their ids; made ids are in the order of time. */
int runs_json(const struct config *c, json_t **ret, struct err *err);
void runs_print(const json_t *runs);
/* Everything about one, for people. */
int run_print(const struct config *c, const char *id, struct err *err);

/* The runs that are going on, as their records tell: a keeper writes a sample a second. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "spec/config.h"

enum live_order { LIVE_BY_ID, LIVE_BY_CPU, LIVE_BY_MEMORY, LIVE_BY_TIME, LIVE_ORDER_COUNT_ };
extern const char *const live_order_names[]; /* id, cpu, memory, time */

/* [{"id","phase","keeper_pid","accepted","started","elapsed_ms","cpus","cpu_usec","memory_bytes","memory_limit_bytes","pids",
 * "disk_bytes","runtime","quest","name"}]; phase is starting, running, stopping or collecting. What is not known yet is left out. */
int live_json(const struct config *c, enum live_order order, json_t **ret, struct err *err);
/* A table; `lines` at most, 0: all. */
int live_print(const json_t *runs, size_t lines, struct err *err);
/* One line about all of them, beside what all of them together may use. */
void live_print_total(const struct config *c, const json_t *runs);

/* The runs that are going on, as their records tell: a keeper writes a sample a second. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "spec/config.h"

enum live_order { LIVE_BY_ID, LIVE_BY_CPU, LIVE_BY_MEMORY, LIVE_BY_TIME, LIVE_ORDER_COUNT_ };
extern const char *const live_order_names[]; /* id, cpu, memory, time */

/* [{"id","phase","keeper_pid","accepted","started","elapsed_ms","cpus","cpu_usec","memory_bytes","memory_limit_bytes","pids",
 * "disk_bytes","runtime","quest","name"}]; phase is starting, running, stopping or collecting. What is not known yet is left out. */
int live_json(const struct config *c, enum live_order order, json_t **ret, struct err *err);
/* A new array of them in that order. */
json_t *live_sort(json_t *runs, enum live_order order);
/* What a service adds: "submitter", and those that wait, with phase "queued". */
bool live_is_waiting(const json_t *run);
/* A table of those that go on; `lines` at most, 0: all. */
int live_print(const json_t *runs, size_t lines, struct err *err);
/* One line about all of them, beside what all of them together may use. */
void live_print_total(const struct config *c, const json_t *runs);
/* waiting.c: those that wait, in the order of their turn, and why; `lines` at most, 0: all. Nothing is printed where none waits. */
int waiting_print(const json_t *runs, size_t lines, struct err *err);

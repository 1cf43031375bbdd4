/* Runtimes for people and programs. */
#pragma once

#include "base/json.h"
#include "run/check.h"
#include "runtime/catalog.h"
#include "runtime/runtime.h"

/* A row of `list`: name, kind, version, summary, health, reason, verified, depth, fingerprint, locked, limits, origin. */
json_t *runtime_row_json(const struct runtime *r, const struct standing *s);
/* The same of an entry that can't be read: health broken, and its error as the reason. */
json_t *runtime_fault_json(const struct catalog_fault *f);
/* Everything: the row, and what the entry says, the last results of its checks, drift and lock. `overrides`: the files of that name that
 * come before it. */
json_t *runtime_json(const struct runtime *r, const struct standing *s,
		     const struct strv *overrides);

int runtimes_print(const json_t *rows, struct err *err);
void runtime_print(const json_t *runtime);

/* The result of a check: {"name","health","reason","verified","depth","fingerprint","checks","drift"}. */
json_t *check_json(const char *name, const struct runtime_state *s);
void check_print(const json_t *check);

/* "5 minutes ago", from what clock_write() wrote; owned by the caller; "never" for NULL. */
char *time_ago(const char *time, uint64_t now_real_ns);

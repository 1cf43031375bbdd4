/* Small helpers over jansson: one line out, capped and typed in. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"

#define CLEANUP_JSON __attribute__((cleanup(json_decrefp))) /* jansson's own */

/* Draws what the order of keys in memory depends on, once for this process and those forked from it; without this each draws for
 * itself, from a file. */
void json_seed(void);
/* String value; bytes that are not UTF-8 are written as \ufffd so that a record is never lost for a name. */
json_t *json_text(const char *text);
/* u64 beyond 2^63-1 is clamped there (jansson's integers are signed). */
json_t *json_u64(uint64_t value);
/* As json_dumps, each number with as few digits as give it back: 0.3, where jansson alone says 0.29999999999999999. NULL as there. */
char *json_dumps_short(const json_t *value, size_t flags);

/* Durable and atomic; indented when `name` is for people (all of ours are). */
int json_write_file(int dir_fd, const char *name, const json_t *value, struct err *err);
/* Capped, duplicate keys refused, err names the file and line:column. */
int json_read_file(int dir_fd, const char *name, size_t max, json_t **ret, struct err *err);

/* One line on standard output. As an allocation that fails, a value that is none aborts: json_text() takes any bytes. */
void json_print(const json_t *value);

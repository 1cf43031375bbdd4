/* JSON as it passes by: a notebook may hold megabytes of pictures, of which nothing is kept. Strict by RFC 8259, but that a string's
 * bytes need not be UTF-8. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

#define SKIM_DEPTH_MAX 256

struct skim {
	const char *file;
	const char *start, *p, *end;
	int depth;
};

/* FILE:LINE: what; -EINVAL. */
int skim_error(const struct skim *s, struct err *err, const char *what);
/* The first byte of the next value, or '\0' at the end. */
char skim_peek(struct skim *s);
/* Whatever value is next. */
int skim_skip(struct skim *s, struct err *err);
/* A string, which must be next; `ret` may be NULL. It is cut at `max` bytes, and NULs are left out. */
int skim_string(struct skim *s, size_t max, struct str *ret, struct err *err);
/* An object or array, which must be next: `take` is called before each value and must pass over it. `key` is NULL in an array. */
typedef int skim_take(struct skim *s, const char *key, void *data, struct err *err);
int skim_each(struct skim *s, skim_take *take, void *data, struct err *err);
/* Nothing but blanks is left. */
int skim_finish(struct skim *s, struct err *err);

/* What a request asks for, taken apart once: the path as decoded segments, the query as pairs. Pure. */
#pragma once

#include "base/err.h"
#include "base/str.h"

#define URL_MAX      8192
#define URL_SEGMENTS 256
#define URL_PAIRS    32

struct url {
	struct strv path;         /* "/v1/runs/a" is v1, runs, a; "/" has none */
	struct strv keys, values; /* of the query, each key once */
};
void url_release(struct url *u);
#define CLEANUP_URL CLEANUP(url_release)

/* -EINVAL with the text: no origin form, an escape that is none, a NUL, a slash that was hidden in an escape, a segment that is empty, "." or
 * "..", a key that is said twice; -E2BIG too much of anything. */
int url_parse(const char *target, struct url *ret, struct err *err);
/* Borrowed; NULL if it was not said. */
const char *url_value(const struct url *u, const char *key);
/* The segments from `first` on with slashes between them; owned by the caller. */
char *url_rest(const struct url *u, size_t first);

/* Answers that go on, of one run. */
#pragma once

#include "serve/request.h"

#define LIVE_LINE_MAX (64 << 10)

/* `name`: stdout.log or stderr.log. Each answers. */
void live_log(struct request *r, const char *name);
void live_events(struct request *r);
/* Whether a run of that id waits, or is about to begin: there is no record to read, but it is no mistake to ask. */
bool live_is_to_come(const struct request *r, const char *id);
/* Whether a run of that id waits, runs or has a record. */
bool live_is_known(const struct request *r, const char *id);
/* Bytes as UTF-8: what is none becomes U+FFFD, a NUL too. Owned by the caller. */
char *live_text(const char *bytes, size_t length);

/* Which of the runs there are: by state, cause, runtime, quest and time, page by page.
 *
 * The ledger says which, if it has them all: a page then costs what it shows, however many runs there are. What is not delivered yet, and
 * what still goes on, is in the run directories only, and is merged with its answer. Without it every directory is read, and the answer is
 * the same. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "spec/config.h"

enum runs_source { RUNS_LEDGER, RUNS_DIRECTORIES };
/* RUNS_GLANCE: what runs_print() shows; RUNS_ALL: as run_json() tells of each, which reads the directories of those that are shown. */
enum runs_detail { RUNS_GLANCE, RUNS_ALL };

struct runs_query {
	struct strv states, causes, runtimes, quests; /* any of; none said: all */
	uint64_t since_ns;                            /* accepted then or later; 0: whenever */
	char *after;    /* owned or NULL; the last id of the page before, in the order asked for */
	uint64_t limit; /* 0: all */
	bool is_reverse;
	enum runs_source source;
	enum runs_detail detail;
};

void runs_query_release(struct runs_query *q);

struct runs;
/* `c` and `q` are borrowed until runs_free(). */
int runs_open(const struct config *c, const struct runs_query *q, struct runs **ret,
	      struct err *err);
void runs_free(struct runs *r);
static inline void runs_freep(struct runs **r)
{
	runs_free(*r);
	*r = NULL;
}
#define CLEANUP_RUNS __attribute__((cleanup(runs_freep)))
/* The next of them, an array in the order of their ids; made ids are in the order of time. Empty: that was all, or the limit is
 * reached. */
int runs_next(struct runs *r, json_t **ret, struct err *err);
/* Why the ledger is not used, if that is worth a word and was not told yet; else NULL. */
const char *runs_note(struct runs *r);
/* The id to go on behind if the limit left some out, else NULL. */
const char *runs_left_after(const struct runs *r);

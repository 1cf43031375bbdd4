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

#define RUN_TIME_ROOM 40

struct runs_query {
	struct strv states, causes, runtimes, quests; /* any of; none said: all */
	uint64_t since_ns;                            /* accepted then or later; 0: whenever */
	char *after; /* owned or NULL; the last id of the page before, in the order asked for */
	char after_time[RUN_TIME_ROOM]; /* when that run was accepted */
	uint64_t limit;                 /* 0: all */
	bool is_oldest_first;           /* else the newest */
	enum runs_source source;
	enum runs_detail detail;
};

/* The place of a run in the order: by time, and by id where the times are the same. */
struct runs_key {
	const char *id, *time; /* borrowed; RFC 3339 in UTC, "" if it is not known */
};
/* Negative if `a` comes first. */
int runs_order(const struct runs_query *q, const struct runs_key *a, const struct runs_key *b);
/* When a run was accepted, by its record; "" if it does not say. Negative errno if there is no such run. */
int run_accepted(const struct config *c, const char *id, char ret[static RUN_TIME_ROOM]);

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
/* The next of them, an array in the order of time. Empty: that was all, or the limit is
 * reached. */
int runs_next(struct runs *r, json_t **ret, struct err *err);
/* Why the ledger is not used, if that is worth a word and was not told yet; else NULL. */
const char *runs_note(struct runs *r);
/* The id to go on behind if the limit left some out, else NULL. */
const char *runs_left_after(const struct runs *r);

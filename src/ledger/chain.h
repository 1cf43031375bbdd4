/* HOME/chain.jsonl: one chain over all runs. A line for each run that is complete, in the order in which they were delivered:
 *
 *   {"n":1,"time":"...","event":"run","run":"ID","last":"SHA-256 of its last event","prev":"SHA-256 of the line before"}
 *
 * The last event of a run vouches for the rest of it (keeper/record.h), so a run that was removed, exchanged or made again as a whole no
 * longer fits its line, and a line that was removed, exchanged or made again no longer fits the next. "event" is "removed" where somebody
 * has recorded that a run was removed on purpose. The ledger has a copy of each line's digest: a chain that was cut at its end, or made
 * again from some line on, does not fit those.
 *
 * Lines are added by whoever delivers (ledger_deliver), under its lock, and synced before a run's mark is dropped; so each run is chained once,
 * and none waits for it. What a crash cut off is no line, and is cut away by the next. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/hash.h"
#include "spec/config.h"
#include "spec/id.h"

#define CHAIN_FILE "chain.jsonl"

struct chain_link {
	uint64_t n; /* its line, from 1 */
	bool is_removal;
	char run[ID_MAX + 1];
	char last[HASH_HEX];   /* of the run's last event */
	char prev[HASH_HEX];   /* of the line before */
	char sha256[HASH_HEX]; /* of the line */
	off_t end;             /* where the next one begins */
};

/* A place in the chain: behind a line. chain_begin() is before the first. */
struct chain_at {
	uint64_t n;
	char sha256[HASH_HEX];
	off_t offset;
};
void chain_begin(struct chain_at *ret);

/* Negative errno, with the text in err, ends the reading. */
typedef int (*chain_row)(void *data, const struct chain_link *link, struct err *err);

/* The lines behind *at, which is moved; each is checked against the one before. A last line without its end is not one. 0; 1 if a line
 * is not what belongs there: err says why, and at->n + 1 is its number. A chain that is not there has no lines. */
int chain_read(const struct config *c, struct chain_at *at, chain_row row, void *data,
	       struct err *err);
/* The SHA-256 of the last event of a run, of zeros if it has none. -ENOENT: there is no such run. */
int chain_last_event(const struct config *c, const char *id, char ret[HASH_HEX], struct err *err);
/* Records that a run was removed on purpose. -ENOENT (caller) if the chain does not have it; -EBUSY (caller) if it is still there. Waits for
 * whoever delivers. */
int chain_removed(const struct config *c, const char *id, struct err *err);

/* Against the ledger's copy: 0 if each line that it has is there; 1 if not: *ret_line is the first that does not fit, and err says how.
 * -ENODATA (no text) if it has none; else as ledger_open(). */
int chain_compare(const struct config *c, uint64_t *ret_line, struct err *err);

/* What the files of the chain share, and what delivery needs of them. */
#pragma once

#include "ledger/chain.h"
#include "ledger/parts.h"

#define CHAIN_LINE_MAX 1024 /* with newline and NUL */
/* chain.c: a line without a look at its neighbours. Negative errno. */
int chain_parse_alone(const char *line, size_t length, struct chain_link *ret);
/* Is the line before `at` still there? 1 if not: err says so. */
int chain_check_at(const struct config *c, const struct chain_at *at, struct err *err);

/* chain_write.c: which runs are chained, as "ID LAST", sorted. */
struct chain_known {
	struct strv pairs;
};
void chain_known_release(struct chain_known *k);
#define CLEANUP_CHAIN_KNOWN CLEANUP(chain_known_release)
int chain_known_read(const struct config *c, struct chain_known *k, struct err *err);
/* `last` NULL: whatever it was. */
bool chain_known_has(const struct chain_known *k, const char *id, const char *last);

/* Which of the lines are looked at, lest a run be chained twice: after a crash of the host marks tell nothing. */
enum chain_scan { CHAIN_TAIL, CHAIN_WHOLE };
/* Those of the runs that are complete and not chained yet. Whoever calls has the lock. */
int chain_add(const struct config *c, const struct strv *ids, enum chain_scan scan,
	      struct err *err);

/* deliver.c: the same, as a part of a delivery. */
void deliver_chain_owed(const struct config *c, const struct strv *owed, enum chain_scan scan,
			struct ledger_delivery *report);

/* chain_copy.c: the ledger's copy is brought up to the file. 1 if the file is not what was copied before: then nothing is added, and
 * err says so. */
int chain_copy(struct ledger *l, const struct config *c, const char *home, struct err *err);
/* Forgets the copy. */
int chain_uncopy(struct ledger *l, const char *home, struct err *err);

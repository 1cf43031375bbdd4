/* The ledger: a database of runs, made from their directories, which stay the truth.
 *
 * A run is entered when it is complete, all of it in one transaction: verdict, attempts, events, outputs, digests of the logs, the choice
 * of its runtime. HOME/undelivered/ID says that this is still owed: the keeper makes it of active/ID when the verdict is there, and it is
 * dropped after the commit. Entering a run again changes nothing, and a run that is another under an old id takes its place; so a crash
 * anywhere leaves each run entered once. After a restart of the host, or when ledger.url changes, whatever the database does not have is
 * owed again.
 *
 * No run waits for the ledger, and none fails with it: see run/deliver.c for who delivers. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "spec/config.h"

struct ledger;

/* Opens the database that ledger.url names and sees to its schema: an empty one is made; an older one is refused (-ESTALE, the remedy is
 * ledger_migrate), and so is a newer one (-EPROTO). */
int ledger_open(const struct config *c, struct ledger **ret, struct err *err);
void ledger_close(struct ledger *l);
static inline void ledger_closep(struct ledger **l)
{
	ledger_close(*l);
	*l = NULL;
}
#define CLEANUP_LEDGER __attribute__((cleanup(ledger_closep)))

struct ledger_versions {
	uint64_t found; /* the last migration that was applied; 0: none */
	uint64_t known; /* the last that this program has */
};
/* Applies what is missing, a transaction each. */
int ledger_migrate(const struct config *c, struct ledger_versions *ret, struct err *err);

struct ledger_delivery {
	uint64_t entered; /* runs that are now in the ledger */
	uint64_t settled; /* marks that were dropped */
	uint64_t gone;    /* marks of runs that somebody removed */
	uint64_t waiting; /* marks of runs without a verdict yet */
	uint64_t
		failed; /* records that could not be read, or entered; `last_error` says why of one */
	struct err last_error;
};
/* While another process delivers. */
enum ledger_wait { LEDGER_TRY, LEDGER_WAIT };
/* Enters what is owed. -EBUSY if another process is at it and we do not wait. On any other failure what was committed stays, what was not stays owed, and
 * ledger_status tells. */
int ledger_deliver(const struct config *c, enum ledger_wait wait, struct ledger_delivery *ret,
		   struct err *err);
/* The same for somebody whom nobody waits for: a moment after it has taken its place, so that what ends meanwhile, whose commands see that
 * somebody is at it, goes in the same transaction. Does not wait for another process. Nothing is delivered that `before` was not called for; it may be
 * called for the same run twice. */
typedef void ledger_before(void *data, const struct strv *ids);
int ledger_deliver_soon(const struct config *c, ledger_before *before, void *data,
			struct ledger_delivery *ret, struct err *err);
/* Cheap, without the database: is anything owed that nobody is delivering? */
bool ledger_owes(const struct config *c);

struct ledger_audit {
	uint64_t runs;      /* complete ones that were looked at */
	uint64_t missing;   /* not in the ledger */
	uint64_t different; /* in the ledger, but not as in their directories */
	uint64_t extra;     /* in the ledger, without a directory */
	uint64_t unreadable;
	uint64_t totals;   /* sums that are not what their runs add up to */
	struct strv names; /* the first of them, "ID: what" */
};
void ledger_audit_release(struct ledger_audit *a);
#define CLEANUP_LEDGER_AUDIT CLEANUP(ledger_audit_release)
/* Compares the rows with the run directories, value by value. */
int ledger_check(const struct config *c, struct ledger_audit *ret, struct err *err);
/* Enters every run again and removes the rows of those that are gone. Readers see a whole ledger at every moment. A damaged SQLite file
 * is set aside as cupel.db.broken, and *ret_aside is then true. */
int ledger_rebuild(const struct config *c, struct ledger_delivery *ret, bool *ret_aside,
		   struct err *err);

/* {"url","backend","reachable","error","schema":{"found","known"},"runs","owed","delivering","last_try","last_error"}. A ledger that
 * cannot be reached is no failure: the text is in "error". */
int ledger_status(const struct config *c, json_t **ret, struct err *err);

/* For those who only look: -ENODATA, without a text, if it has not all the runs that are complete and have no mark: it was never made, or
 * nothing was delivered since the host started. Any other failure as above; nothing is made. */
int ledger_open_whole(const struct config *c, struct ledger **ret, struct err *err);

/* Which runs, by the time when they were accepted, newest first; runs of one time by their ids, by bytes. */
struct ledger_filter {
	const struct strv *causes, *runtimes, *quests; /* any of; an empty list: all */
	const char *since;                             /* accepted then or later; or NULL */
	const char *after;      /* the id of the last run of the page before; or NULL */
	const char *after_time; /* when that run was accepted */
	bool is_oldest_first;
	unsigned limit;
};
/* A page of this home's complete runs: {"id","accepted","state","cause","started","name","usage":{"wall_usec","memory_peak_bytes"}} each, in an array;
 * what is not known is left out. */
int ledger_runs(struct ledger *l, const struct config *c, const struct ledger_filter *filter,
		json_t **ret, struct err *err);

/* What the files of this folder share: the home's side of the ledger, a run as rows, and putting them in. */
#pragma once

#include "base/hash.h"
#include "base/str.h"
#include "ledger/backend.h"
#include "ledger/ledger.h"
#include "spec/viewer.h"

/* schema.c */
int schema_versions(struct ledger *l, struct ledger_versions *ret, struct err *err);
int schema_migrate(struct ledger *l, struct err *err);
/* ledger.c: without a look at the schema. */
int ledger_connect(const struct config *c, struct ledger **ret, struct err *err);
/* One that is there, with the schema that this program knows; nothing is made. -ENODATA, without a text, if it is empty. */
int ledger_open_existing(const struct config *c, struct ledger **ret, struct err *err);

/* home.c */
#define HOME_ID 17 /* with the NUL */
/* HOME/ledger.id; -ENOENT if there is none yet. */
int home_id(const struct config *c, char ret[HOME_ID], struct err *err);
/* The same, made if need be; by whoever holds the lock. */
int home_id_make(const struct config *c, char ret[HOME_ID], struct err *err);
/* The lock of whoever delivers; -EBUSY if it is another and we do not wait. */
int home_lock(const struct config *c, enum ledger_wait wait, int *ret_fd, struct err *err);
bool home_is_locked(const struct config *c);
int home_owe(const struct config *c, const char *id, struct err *err);
void home_settle(const struct config *c, const char *id);
/* HOME/ledger.json: what is known of the last delivery. Never fails: half a file is as good as none. */
json_t *home_state(const struct config *c);
/* `reconciled`: all that the database lacks has its mark; else what was known of that stays. */
enum home_reconciled { HOME_AS_BEFORE, HOME_RECONCILED };
void home_state_write(const struct config *c, enum home_reconciled reconciled, const char *error);
void home_state_forget(const struct config *c); /* the next delivery looks at everything */
/* The mark of a run says that it is in the chain (chain_write.c). */
bool home_is_chained(const struct config *c, const char *id);
void home_mark_chained(const struct config *c, const char *id);
/* All that is chained was looked at since the host started, and marks can be believed. */
bool home_is_scanned(const json_t *state);
/* The boot's id; never fails: "" is none. */
void home_boot(char ret[64]);
/* Whether all that the database lacks was owed since the host started, with this URL. */
bool home_is_reconciled(const struct config *c, const json_t *state);

/* posting.c, posting_rows.c: a run as rows. The first two columns of each are home and run. */
enum table {
	TABLE_RUNS,
	TABLE_ATTEMPTS,
	TABLE_EVENTS,
	TABLE_OUTPUTS,
	TABLE_LOGS,
	TABLE_SELECTIONS,
	TABLE_OWN_COUNT_,                  /* those above belong to a run */
	TABLE_RUNTIMES = TABLE_OWN_COUNT_, /* shared: what is there stays */
	TABLE_COUNT_
};
struct row {
	enum table table;
	char **values; /* owned, with what is in it; NULLs among them */
	size_t n;
};
struct posting {
	char *id; /* owned */
	struct row *rows;
	size_t n_rows;
	char record[HASH_HEX]; /* of all rows that are the run's own */
	char *submitter;       /* owned or NULL; as the record has it */
};
void posting_release(struct posting *e);
#define CLEANUP_POSTING CLEANUP(posting_release)
/* -ENOENT: there is no such run; -EAGAIN: it has no verdict yet. */
int posting_read(const struct config *c, const char *id, struct posting *ret, struct err *err);

/* What posting_rows.c makes rows of. */
struct record_files {
	json_t *verdict, *analysis, *outputs; /* owned; NULL where there is none */
	char verdict_sha256[HASH_HEX], analysis_sha256[HASH_HEX];
	char *events; /* owned or NULL */
	size_t events_length;
	int dir_fd; /* owned */
};
int posting_add_rows(const struct record_files *f, struct posting *e, struct err *err);

/* Digests of rows, from the directory or from the database, are made alike. */
void row_hash(struct hash *h, enum table table, const char *const *values, size_t n);

/* put.c */
int put_home(struct ledger *l, const struct config *c, const char *home, struct err *err);
/* What tells whether a run is there as it is: the digest that was entered with it, or its rows, which somebody may have changed. */
enum put_compare { PUT_RECORD, PUT_ROWS };
/* Within a transaction. 1 if it was entered, 0 if it is there as it is. */
int put_posting(struct ledger *l, const char *home, const struct posting *e,
		enum put_compare compare, struct err *err);
int put_removal(struct ledger *l, const char *home, const char *id, struct err *err);
/* HOME/runtimes/NAME/state.json of each runtime that was checked. */
int put_health(struct ledger *l, const struct config *c, const char *home, struct err *err);
/* health_record.c: those in HOME/health. */
int put_checks(struct ledger *l, const struct config *c, const char *home, struct err *err);
/* The ids of every run of the home, sorted. */
int put_ids(struct ledger *l, const char *home, struct strv *ret, struct err *err);
/* Those that the second does not have; both are sorted. */
void ids_minus(const struct strv *ids, const struct strv *without, struct strv *ret);
/* The digest of the rows that the database has of a run. */
/* Is whose it is what its record says? The digest does not say it. 1: yes. */
int put_has_submitter(struct ledger *l, const char *home, const struct posting *e, struct err *err);
int put_digest(struct ledger *l, const char *home, const char *id, char ret[HASH_HEX],
	       struct err *err);
/* homes.reconciled: 1 if it is of this boot, 0 if not. */
int put_is_reconciled(struct ledger *l, const char *home, struct err *err);
int put_reconciled(struct ledger *l, const char *home, struct err *err);
/* A ledger_row: one number, into a uint64_t. */
int put_take_count(void *data, const char *const *columns, size_t n, struct err *err);
int put_count(struct ledger *l, const char *home, uint64_t *ret, struct err *err);

/* totals.c: " AND (...)", true of the rows that the viewer may see, with its values bound as the next parameters. */
void visible_add(struct str *sql, struct strv *values, const char *column,
		 const struct viewer *viewer);

/* totals_put.c: sums of runs, changed where runs are, in the same transaction. totals_lock() is the first thing there. */
int totals_lock(struct ledger *l, const char *home, struct err *err);
/* Of a run that is there: just entered, about to be removed. */
int totals_add(struct ledger *l, const char *home, const char *id, struct err *err);
int totals_remove(struct ledger *l, const char *home, const char *id, struct err *err);
/* It is now known whose it is; nothing happens if the run is not there yet. */
int totals_attribute(struct ledger *l, const char *home, const char *id, struct err *err);
/* All of the home's, added up again; in a transaction of its own. The other does it only if one is marked. */
int totals_rebuild(struct ledger *l, const char *home, struct err *err);
int totals_settle(struct ledger *l, const char *home, struct err *err);
/* 1 if one is marked: what they say does not count. */
int totals_are_stale(struct ledger *l, const char *home, struct err *err);
/* How many are not what adding up gives. */
int totals_compare(struct ledger *l, const char *home, uint64_t *ret, struct err *err);

/* deliver.c: entering many, a batch in a transaction; then their marks are dropped. */
struct delivering {
	const struct config *config;
	struct ledger *ledger;
	char home[HOME_ID];
	enum put_compare compare;
	struct ledger_delivery *report;
	ledger_before *before; /* NULL: nobody wants to know */
	void *before_data;
};
int deliver_ids(struct delivering *d, const struct strv *ids, struct err *err);
/* The ledger's copy of the chain. A chain that is damaged is a failure in the report, not of the delivery. `is_scanned`: no run is without both
 * a mark and a link. */
int deliver_chain(struct delivering *d, bool is_scanned, struct err *err);

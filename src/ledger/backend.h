/* What a database is to the ledger: statements with text parameters, rows of text, transactions. One file per database implements it;
 * everything above is the same for all. SQL is written once, in what both understand, with $1, $2... in rising order. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct ledger {
	const struct ledger_ops *ops;
}; /* first member of every backend */

/* A statement that is kept prepared under its number; the numbers are put.c's. */
struct statement {
	unsigned number;
	const char *sql;
	size_t n_params;
};
#define STATEMENT_MAX  32
#define STATEMENT_ONCE STATEMENT_MAX /* is used once: not kept */

/* A row: `n` columns, each NULL or text that lives until the function returns. Negative errno, with the text in err, ends the query. */
typedef int (*ledger_row)(void *data, const char *const *columns, size_t n, struct err *err);

/* LEDGER_ALONE: no other process changes the schema meanwhile. */
enum ledger_lock { LEDGER_SHARED, LEDGER_ALONE };

/* Errors a caller may branch on: -EAGAIN the database is busy or cannot be reached, -ENOSPC it is full, -EBADMSG it is damaged,
 * -EINVAL it does not take these values, and would take others. */
struct ledger_ops {
	const char *name;
	int (*begin)(struct ledger *, enum ledger_lock, struct err *);
	/* When it returns >= 0, what was done survives a power cut. */
	int (*commit)(struct ledger *, struct err *);
	void (*rollback)(struct ledger *); /* nothing happens without a transaction */
	/* Several statements without parameters. */
	int (*script)(struct ledger *, const char *sql, struct err *);
	/* `row` may be NULL. */
	int (*run)(struct ledger *, const struct statement *, const char *const *values,
		   ledger_row row, void *data, struct err *);
	/* 1 if the tables were never made. */
	int (*is_empty)(struct ledger *, struct err *);
	/* Makes what must be there before a migration, if it is not; within a transaction. */
	int (*prepare_schema)(struct ledger *, struct err *);
	/* Has the database itself look at its pages; 0 where it gives no such thing. */
	int (*verify)(struct ledger *, struct err *);
	/* What is asked from here on reads all there is, and may take long. */
	int (*be_patient)(struct ledger *, struct err *);
	void (*free)(struct ledger *);
};

/* `path`: made if it is not there. */
int ledger_sqlite(const char *path, struct ledger **ret, struct err *err);
int ledger_postgres(const char *url, struct ledger **ret, struct err *err);
/* Somebody else's file, only to be read: under a shared lock while a transaction or statement lasts, as any reader. While another process writes it
 * we wait up to 10 s, then statements fail with -EAGAIN. -ENOENT if it is not there. */
int ledger_sqlite_read(const char *path, struct ledger **ret, struct err *err);
/* Of such a file: it was read without locks, since nobody had it open, and somebody has opened or written it since. What was read, and any failure,
 * then counts for nothing: read it again. */
bool ledger_sqlite_is_stale(struct ledger *l);

/* Ends an open transaction, whatever has happened. */
struct transaction {
	struct ledger *ledger; /* borrowed; NULL: none is open */
};
int transaction_begin(struct transaction *t, struct ledger *l, enum ledger_lock lock,
		      struct err *err);
int transaction_commit(struct transaction *t, struct err *err);
void transaction_end(struct transaction *t);
#define CLEANUP_TRANSACTION __attribute__((cleanup(transaction_end)))

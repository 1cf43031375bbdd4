/* The sums of runs, kept up to date by whoever changes rows of runs, in the same transaction.
 *
 * Two writers may meet: one enters a run while another enters whose it is. Where the database lets both go on at once, neither would see the
 * other's row; so each takes the home's row first. A sum that lost a run may have lost its first, last or largest too: it is marked, and added
 * up again by whoever asks (totals.c), until totals_settle() has done it for good. */
#include "ledger/parts.h"

enum { /* between those of put.c and of submissions.c */
       TOTALS_LOCK = 18,
       TOTALS_ADD,
       TOTALS_REMOVE,
       TOTALS_MOVE,
       TOTALS_ADD_OWNER,
};

#define INTO                                                                                       \
	"INSERT INTO run_totals (home, kind, subject, cause, runs, wall_usec, cpu_usec, "          \
	"memory_gib_hours, memory_peak_bytes, first, last, is_stale) "
#define PLUS  "1, wall_usec, cpu_usec, memory_gib_hours, memory_peak_bytes, accepted, accepted, 0"
#define MINUS "-1, -wall_usec, -cpu_usec, -memory_gib_hours, 0, accepted, accepted, "
#define SUMS                                                                                       \
	"count(*), sum(wall_usec), sum(cpu_usec), sum(memory_gib_hours), max(memory_peak_bytes), " \
	"min(accepted), max(accepted), 0"
#define OF_RUN        " FROM run_shares WHERE home = $1 AND id = $2"
#define ADDED(column) column " = run_totals." column " + excluded." column
#define BOUND(column, order)                                                                       \
	column " = CASE WHEN excluded." column " " order " run_totals." column                     \
	       " THEN excluded." column " ELSE run_totals." column " END"
#define MERGE                                                                                                                               \
	" ON CONFLICT (home, kind, subject, cause) DO UPDATE SET " ADDED("runs") ", " ADDED("wall_usec") ", " ADDED("cpu_usec") ", " ADDED( \
		"memory_gib_hours") ", " BOUND("memory_peak_bytes",                                                                         \
					       ">") ", " BOUND("first",                                                                     \
							       "<") ", " BOUND("last",                                                      \
									       ">") ", " BOUND("is_stale",                                  \
											       ">")

int totals_lock(struct ledger *l, const char *home, struct err *err)
{
	static const struct statement touch = { TOTALS_LOCK,
						"UPDATE homes SET host = host WHERE home = $1", 1 };
	return l->ops->run(l, &touch, &home, NULL, NULL, err);
}

int totals_add(struct ledger *l, const char *home, const char *id, struct err *err)
{
	static const struct statement add = {
		TOTALS_ADD, INTO "SELECT home, kind, subject, cause, " PLUS OF_RUN MERGE, 2
	};
	const char *const key[] = { home, id };
	return l->ops->run(l, &add, key, NULL, NULL, err);
}

int totals_remove(struct ledger *l, const char *home, const char *id, struct err *err)
{
	static const struct statement take_out = {
		TOTALS_REMOVE,
		INTO "SELECT home, kind, subject, cause, " MINUS
		     "CASE kind WHEN 'submitter' THEN 0 ELSE 1 END" OF_RUN MERGE,
		2
	};
	const char *const key[] = { home, id };
	return l->ops->run(l, &take_out, key, NULL, NULL, err);
}

int totals_attribute(struct ledger *l, const char *home, const char *id, struct err *err)
{
	static const struct statement nobodys = { TOTALS_MOVE,
						  INTO "SELECT home, kind, '', cause, " MINUS
						       "0" OF_RUN " AND is_late = 1" MERGE,
						  2 };
	static const struct statement somebodys = {
		TOTALS_ADD_OWNER,
		INTO "SELECT home, kind, subject, cause, " PLUS OF_RUN " AND is_late = 1" MERGE, 2
	};
	const char *const key[] = { home, id };
	int r = totals_lock(l, home, err);
	if (r >= 0)
		r = l->ops->run(l, &nobodys, key, NULL, NULL, err);
	return r < 0 ? r : l->ops->run(l, &somebodys, key, NULL, NULL, err);
}

int totals_rebuild(struct ledger *l, const char *home, struct err *err)
{
	static const struct statement forget = { STATEMENT_ONCE,
						 "DELETE FROM run_totals WHERE home = $1", 1 };
	static const struct statement add_up = {
		STATEMENT_ONCE,
		INTO "SELECT home, kind, subject, cause, " SUMS
		     " FROM run_shares WHERE home = $1 GROUP BY home, kind, subject, cause",
		1
	};
	CLEANUP_TRANSACTION struct transaction t = { 0 };
	int r = l->ops->be_patient(l, err);
	if (r >= 0)
		r = transaction_begin(&t, l, LEDGER_SHARED, err);
	if (r >= 0)
		r = totals_lock(l, home, err);
	if (r >= 0)
		r = l->ops->run(l, &forget, &home, NULL, NULL, err);
	if (r >= 0)
		r = l->ops->run(l, &add_up, &home, NULL, NULL, err);
	return r < 0 ? r : transaction_commit(&t, err);
}

int totals_are_stale(struct ledger *l, const char *home, struct err *err)
{
	static const struct statement stale = {
		STATEMENT_ONCE, "SELECT count(*) FROM run_totals WHERE home = $1 AND is_stale <> 0",
		1
	};
	uint64_t n = 0;
	int r = l->ops->run(l, &stale, &home, put_take_count, &n, err);
	return r < 0 ? r : n > 0;
}

int totals_settle(struct ledger *l, const char *home, struct err *err)
{
	int r = totals_are_stale(l, home, err);
	return r <= 0 ? r : totals_rebuild(l, home, err);
}

/* Hours are not compared: the order in which they were added is in their last digits. */
int totals_compare(struct ledger *l, const char *home, uint64_t *ret, struct err *err)
{
	static const char made[] =
		"SELECT kind, subject, cause, count(*) AS runs, sum(wall_usec) AS wall, sum(cpu_usec) AS cpu, max(memory_peak_bytes) AS "
		"peak, min(accepted) AS first, max(accepted) AS last FROM run_shares WHERE home = ";
	static const char kept[] =
		"SELECT kind, subject, cause, runs, wall_usec, cpu_usec, memory_peak_bytes, first, last FROM run_totals WHERE "
		"runs <> 0 AND home = ";
	static const char by[] = " GROUP BY kind, subject, cause";
	CLEANUP_FREE char *sql = xasprintf(
		"SELECT (SELECT count(*) FROM (%s$1%s EXCEPT %s$2) AS lacking) + (SELECT count(*) FROM (%s$3 EXCEPT %s$4%s) AS more)",
		made, by, kept, kept, made, by);
	const struct statement compare = { STATEMENT_ONCE, sql, 4 };
	const char *const values[] = { home, home, home, home };
	int r = l->ops->be_patient(l, err);
	if (r >= 0)
		r = totals_are_stale(l, home, err);
	if (r > 0)
		*ret = 0; /* nobody is told what they say */
	return r ? r : l->ops->run(l, &compare, values, put_take_count, ret, err);
}

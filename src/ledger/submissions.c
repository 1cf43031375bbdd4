#include "ledger/submissions.h"

#include <errno.h>
#include <string.h>

#include "ledger/parts.h"

_Static_assert(SUBMISSIONS_HOME == HOME_ID, "one length");

enum { /* behind those of put.c */
       ENTER = 24,
       FIND,
       CHANGE,
       ENTER_RUN
};
_Static_assert(ENTER_RUN < STATEMENT_MAX, "numbers of statements");

#define COLUMNS                                                                                                                 \
	"id, n, kind, submitter, uid, gid, priority, key, body_sha256, analysis, retries, not_before, submitted, name, quest, " \
	"runtime, state, cause, note, started, ended, attempt, run, progress"

int submissions_home(struct ledger *l, const struct config *c, char ret[SUBMISSIONS_HOME],
		     struct err *err)
{
	CLEANUP_FD int lock_fd = -1;
	int r = home_id(c, ret, NULL);
	if (r == -ENOENT) {
		r = home_lock(c, LEDGER_WAIT, &lock_fd, err);
		if (r >= 0)
			r = home_id_make(c, ret, err);
	} else if (r < 0) {
		r = home_id(c, ret, err);
	}
	return r < 0 ? r : put_home(l, c, ret, err);
}

static int note_row(void *data, const char *const *columns, size_t n, struct err *err)
{
	*(bool *)data = true;
	return 0;
}

static int take_found(void *data, const char *const *columns, size_t n, struct err *err)
{
	struct submission_found *found = data;
	(void)snprintf(found->id, sizeof found->id, "%s", columns[0] ? columns[0] : "");
	(void)snprintf(found->body_sha256, sizeof found->body_sha256, "%s",
		       columns[1] ? columns[1] : "");
	found->by_key = str_eq(columns[2], "1");
	return 0;
}

int submissions_find(struct ledger *l, const char *home,
		     const char *const values[SUBMISSION_COLUMNS_], struct submission_found *ret,
		     struct err *err)
{
	/* The key's own row behind that of the id: the last counts. */
	static const struct statement find = {
		FIND,
		"SELECT id, body_sha256, CASE WHEN submitter = $1 AND key = $2 THEN 1 ELSE 0 END AS by_key FROM submissions "
		"WHERE home = $3 AND (id = $4 OR (submitter = $5 AND key = $6)) ORDER BY by_key",
		6
	};
	const char *submitter = values[SUBMISSION_SUBMITTER], *key = values[SUBMISSION_KEY];
	const char *const by[] = { submitter, key, home, values[SUBMISSION_ID], submitter, key };
	return l->ops->run(l, &find, by, take_found, ret, err);
}

int submissions_enter(struct ledger *l, const char *home,
		      const char *const values[SUBMISSION_COLUMNS_], struct submission_found *ret,
		      struct err *err)
{
	static const struct statement enter = {
		ENTER,
		"INSERT INTO submissions (home, " COLUMNS
		") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, "
		"$11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25) ON CONFLICT DO NOTHING RETURNING id",
		SUBMISSION_COLUMNS_ + 1
	};
	const char *all[SUBMISSION_COLUMNS_ + 1] = { home };
	bool entered = false;
	for (size_t i = 0; i < SUBMISSION_COLUMNS_; i++)
		all[i + 1] = values[i];
	int r = l->ops->run(l, &enter, all, note_row, &entered, err);
	if (r >= 0 && !entered)
		r = submissions_find(l, home, values, ret, err);
	return r < 0 ? r : entered;
}

static int enter_run(struct ledger *l, const char *home, const char *submission,
		     const struct submission_ran *ran, struct err *err)
{
	static const struct statement enter = {
		ENTER_RUN,
		"INSERT INTO submission_runs (home, run, submission, attempt) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING RETURNING run",
		4
	};
	char attempt[16];
	bool entered = false;
	(void)snprintf(attempt, sizeof attempt, "%u", ran->attempt);
	const char *const run[] = { home, ran->run, submission, attempt };
	int r = l->ops->run(l, &enter, run, note_row, &entered, err);
	return r < 0 || !entered ? r : totals_attribute(l, home, ran->run, err);
}

int submissions_change(struct ledger *l, const char *home,
		       const char *const values[SUBMISSION_COLUMNS_],
		       const struct submission_ran *ran, struct err *err)
{
	static const struct statement change = {
		CHANGE,
		"UPDATE submissions SET state = $1, cause = $2, note = $3, started = $4, ended = $5, attempt = $6, run = $7, "
		"progress = $8 WHERE home = $9 AND id = $10",
		10
	};
	const char *changed[10];
	memcpy(changed, values + SUBMISSION_STATE, 8 * sizeof *changed);
	changed[8] = home;
	changed[9] = values[SUBMISSION_ID];
	int r = l->ops->run(l, &change, changed, NULL, NULL, err);
	return r < 0 || !ran->run[0] ? r : enter_run(l, home, values[SUBMISSION_ID], ran, err);
}

struct reading {
	submissions_row *row;
	void *data;
};

static int pass_row(void *data, const char *const *columns, size_t n, struct err *err)
{
	const struct reading *r = data;
	return n == SUBMISSION_COLUMNS_
		       ? r->row(r->data, columns, err)
		       : err_set(err, ERR_HOST, EBADMSG, "a submission has %zu columns", n);
}

int submissions_open(struct ledger *l, const char *home, submissions_row *row, void *data,
		     struct err *err)
{
	static const struct statement all = {
		STATEMENT_ONCE,
		"SELECT " COLUMNS
		" FROM submissions WHERE home = $1 AND state IN ('queued', 'running') ORDER BY n",
		1
	};
	struct reading reading = { row, data };
	return l->ops->run(l, &all, &home, pass_row, &reading, err);
}

int submissions_last(struct ledger *l, const char *home, uint64_t *ret, struct err *err)
{
	static const struct statement last = {
		STATEMENT_ONCE, "SELECT coalesce(max(n), 0) FROM submissions WHERE home = $1", 1
	};
	return l->ops->run(l, &last, &home, put_take_count, ret, err);
}

/* Rows of one table that go to the same table of another database. */
struct copying {
	struct ledger *to;
	const struct statement *insert;
	unsigned entered;
};

static int copy_row(void *data, const char *const *columns, size_t n, struct err *err)
{
	struct copying *c = data;
	bool entered = false;
	int r = c->to->ops->run(c->to, c->insert, columns, note_row, &entered, err);
	c->entered += entered;
	return r;
}

int submissions_salvage(struct ledger *from, struct ledger *to, struct err *err)
{
	static const struct {
		struct statement select, insert;
	} tables[] = {
		{ { STATEMENT_ONCE, "SELECT home, host, path FROM homes", 0 },
		  { STATEMENT_ONCE,
		    "INSERT INTO homes (home, host, path) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
		    3 } },
		{ { STATEMENT_ONCE, "SELECT home, " COLUMNS " FROM submissions", 0 },
		  { STATEMENT_ONCE,
		    "INSERT INTO submissions (home, " COLUMNS
		    ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, "
		    "$21, $22, $23, $24, $25) ON CONFLICT DO NOTHING RETURNING id",
		    SUBMISSION_COLUMNS_ + 1 } },
		{ { STATEMENT_ONCE, "SELECT home, run, submission, attempt FROM submission_runs",
		    0 },
		  { STATEMENT_ONCE,
		    "INSERT INTO submission_runs (home, run, submission, attempt) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
		    4 } },
	};
	CLEANUP_TRANSACTION struct transaction t = { 0 };
	struct copying c = { .to = to };
	struct err why = { 0 };
	int r = transaction_begin(&t, to, LEDGER_SHARED, err);
	for (size_t i = 0; r >= 0 && i < sizeof tables / sizeof *tables; i++) {
		c.insert = &tables[i].insert;
		/* What is damaged ends the reading of that table, not what was read before. */
		(void)from->ops->run(from, &tables[i].select, NULL, copy_row, &c, &why);
	}
	if (r >= 0)
		r = transaction_commit(&t, err);
	return r < 0 ? r : (int)c.entered;
}

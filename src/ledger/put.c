/* Rows into the tables and back; the only SQL but the schema's, the pages' and the sums'. One statement for each thing. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fs.h"
#include "base/num.h"
#include "base/path.h"
#include "ledger/parts.h"

#define COLUMNS_MAX 32
#define STATE_MAX   (4 << 20)

enum { /* numbers of statements that are kept prepared; the first are the tables' */
       PUT_HOME = TABLE_COUNT_,
       PUT_FIND,
       PUT_REMOVE,
       PUT_HEALTH,
       PUT_SELECT /* and one for each table of a run behind it */
};
_Static_assert(PUT_SELECT + TABLE_OWN_COUNT_ <= STATEMENT_MAX, "numbers of statements");

static const struct statement inserts[TABLE_COUNT_] = {
	[TABLE_RUNS] = { TABLE_RUNS,
			 "INSERT INTO runs (home, id, accepted, started, ended, name, quest, runtime, cause, exit_status, notes, evidence, "
			 "missing_layers, labels, wall_usec, cpu_usec, memory_peak_bytes, pids_peak, disk_peak_bytes, io_read_bytes, "
			 "io_write_bytes, analysis_sha256, verdict_sha256, chain, record, submitter) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, "
			 "$11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26)",
			 26 },
	[TABLE_ATTEMPTS] = { TABLE_ATTEMPTS,
			     "INSERT INTO attempts (home, run, n, executor, started, ended, cause, exit_code, signal) "
			     "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
			     9 },
	[TABLE_EVENTS] = { TABLE_EVENTS,
			   "INSERT INTO events (home, run, n, time, event, data, sha256) VALUES ($1, $2, $3, $4, $5, $6, $7)",
			   7 },
	[TABLE_OUTPUTS] = { TABLE_OUTPUTS,
			    "INSERT INTO outputs (home, run, n, path, size, sha256, media_type) VALUES ($1, $2, $3, $4, $5, $6, $7)",
			    7 },
	[TABLE_LOGS] = { TABLE_LOGS,
			 "INSERT INTO logs (home, run, n, name, size, sha256) VALUES ($1, $2, $3, $4, $5, $6)",
			 6 },
	[TABLE_SELECTIONS] = { TABLE_SELECTIONS,
			       "INSERT INTO selections (home, run, n, runtime, identity, rule, why, allowed_drift) "
			       "VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
			       8 },
	[TABLE_RUNTIMES] = { TABLE_RUNTIMES,
			     "INSERT INTO runtimes (home, name, identity, kind, version) VALUES ($1, $2, $3, $4, $5) "
			     "ON CONFLICT DO NOTHING",
			     5 },
};

/* The same columns in the same order, without home and run, and without what was made of the others. */
static const struct statement selects[TABLE_OWN_COUNT_] = {
	[TABLE_RUNS] = { PUT_SELECT + TABLE_RUNS,
			 "SELECT accepted, started, ended, name, quest, runtime, cause, exit_status, notes, evidence, missing_layers, labels, "
			 "wall_usec, cpu_usec, memory_peak_bytes, pids_peak, disk_peak_bytes, io_read_bytes, io_write_bytes, "
			 "analysis_sha256, verdict_sha256, chain FROM runs WHERE home = $1 AND id = $2",
			 2 },
	[TABLE_ATTEMPTS] = { PUT_SELECT + TABLE_ATTEMPTS,
			     "SELECT n, executor, started, ended, cause, exit_code, signal FROM attempts WHERE home = $1 AND run = $2 ORDER BY n",
			     2 },
	[TABLE_EVENTS] = { PUT_SELECT + TABLE_EVENTS,
			   "SELECT n, time, event, data, sha256 FROM events WHERE home = $1 AND run = $2 ORDER BY n",
			   2 },
	[TABLE_OUTPUTS] = { PUT_SELECT + TABLE_OUTPUTS,
			    "SELECT n, path, size, sha256, media_type FROM outputs WHERE home = $1 AND run = $2 ORDER BY n",
			    2 },
	[TABLE_LOGS] = { PUT_SELECT + TABLE_LOGS,
			 "SELECT n, name, size, sha256 FROM logs WHERE home = $1 AND run = $2 ORDER BY n",
			 2 },
	[TABLE_SELECTIONS] = { PUT_SELECT + TABLE_SELECTIONS,
			       "SELECT n, runtime, identity, rule, why, allowed_drift FROM selections WHERE home = $1 AND run = $2 ORDER BY n",
			       2 },
};

int put_home(struct ledger *l, const struct config *c, const char *home, struct err *err)
{
	static const struct statement put = {
		PUT_HOME,
		"INSERT INTO homes (home, host, path) VALUES ($1, $2, $3) "
		"ON CONFLICT (home) DO UPDATE SET host = excluded.host, path = excluded.path",
		3
	};
	char host[256] = "";
	if (gethostname(host, sizeof host - 1) < 0)
		return err_errno(err, "read the name of the host");
	str_clean(host);
	CLEANUP_FREE char *path = str_visible(c->home);
	const char *const values[] = { home, host, path };
	return l->ops->run(l, &put, values, NULL, NULL, err);
}

static int put_row(struct ledger *l, const char *home, const struct posting *e,
		   const struct row *row, struct err *err)
{
	const char *values[COLUMNS_MAX] = { home, e->id };
	size_t n = row->table < TABLE_OWN_COUNT_ ? 2 : 1;
	for (size_t i = 0; i < row->n; i++)
		values[n++] = row->values[i];
	if (row->table == TABLE_RUNS) {
		values[n++] = e->record;
		values[n++] = e->submitter;
	}
	if (n != inserts[row->table].n_params)
		return err_set(err, ERR_HOST, EINVAL, "a row of %zu values for table %d", n,
			       (int)row->table);
	return l->ops->run(l, &inserts[row->table], values, NULL, NULL, err);
}

static int take_text(void *data, const char *const *columns, size_t n, struct err *err)
{
	(void)snprintf(data, HASH_HEX, "%s", columns[0] ? columns[0] : "");
	return 0;
}

int put_removal(struct ledger *l, const char *home, const char *id, struct err *err)
{
	static const struct statement remove_run = { PUT_REMOVE,
						     "DELETE FROM runs WHERE home = $1 AND id = $2",
						     2 };
	const char *const key[] = { home, id };
	int r = totals_remove(l, home, id, err);
	return r < 0 ? r : l->ops->run(l, &remove_run, key, NULL, NULL, err);
}

struct digesting {
	struct hash *hash; /* borrowed */
	enum table table;
};

static int hash_row(void *data, const char *const *columns, size_t n, struct err *err)
{
	const struct digesting *d = data;
	row_hash(d->hash, d->table, columns, n);
	return 0;
}

int put_digest(struct ledger *l, const char *home, const char *id, char ret[HASH_HEX],
	       struct err *err)
{
	CLEANUP_HASH struct hash *h = hash_new();
	const char *const key[] = { home, id };
	int r = 0;
	for (int i = 0; r >= 0 && i < TABLE_OWN_COUNT_; i++) {
		struct digesting d = { h, i };
		r = l->ops->run(l, &selects[i], key, hash_row, &d, err);
	}
	if (r >= 0)
		hash_end(h, ret);
	return r;
}

static int compare_text(void *data, const char *const *columns, size_t n, struct err *err)
{
	const char **text = data;
	if (str_eq(columns[0] ? columns[0] : "", *text ? *text : ""))
		*text = NULL;
	return 0;
}

int put_has_submitter(struct ledger *l, const char *home, const struct posting *e, struct err *err)
{
	static const struct statement find = {
		STATEMENT_ONCE, "SELECT submitter FROM runs WHERE home = $1 AND id = $2", 2
	};
	const char *const key[] = { home, e->id };
	const char *text = e->submitter ? e->submitter : "";
	int r = l->ops->run(l, &find, key, compare_text, &text, err);
	return r < 0 ? r : text == NULL;
}

int put_posting(struct ledger *l, const char *home, const struct posting *e,
		enum put_compare compare, struct err *err)
{
	static const struct statement find = {
		PUT_FIND, "SELECT record FROM runs WHERE home = $1 AND id = $2", 2
	};
	char record[HASH_HEX] = "";
	const char *const key[] = { home, e->id };
	int r = compare == PUT_ROWS ? put_digest(l, home, e->id, record, err)
				    : l->ops->run(l, &find, key, take_text, record, err);
	bool is_same = r >= 0 && str_eq(record, e->record);
	if (is_same && compare == PUT_ROWS) {
		r = put_has_submitter(l, home, e, err);
		is_same = r > 0;
	}
	if (is_same)
		return 0;
	if (r >= 0 && record[0])
		r = put_removal(l, home, e->id, err);
	for (size_t i = 0; r >= 0 && i < e->n_rows; i++)
		r = put_row(l, home, e, &e->rows[i], err);
	if (r >= 0)
		r = totals_add(l, home, e->id, err);
	return r < 0 ? r : 1;
}

static int put_state(struct ledger *l, const char *home, const char *name, const json_t *state,
		     struct err *err)
{
	static const struct statement put = {
		PUT_HEALTH,
		"INSERT INTO health (home, runtime, verified, health, reason, state) "
		"VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
		6
	};
	const char *health = json_string_value(json_object_get(state, "health"));
	const char *verified = json_string_value(json_object_get(state, "verified_time"));
	if (!health || !verified)
		return 0;
	CLEANUP_FREE char *text = json_dumps(state, JSON_COMPACT);
	const char *const values[] = {
		home, name, verified, health, json_string_value(json_object_get(state, "reason")),
		text
	};
	return l->ops->run(l, &put, values, NULL, NULL, err);
}

int put_health(struct ledger *l, const struct config *c, const char *home, struct err *err)
{
	CLEANUP_FREE char *path = path_join(c->home, "runtimes");
	CLEANUP_DIR DIR *dir = opendir(path);
	int r = 0;
	for (struct dirent *entry; r >= 0 && dir && (entry = readdir(dir));) {
		CLEANUP_JSON json_t *state = NULL;
		CLEANUP_FREE char *file = xasprintf("%s/%s/state.json", path, entry->d_name);
		if (entry->d_name[0] == '.' || !str_is_utf8(entry->d_name, strlen(entry->d_name)))
			continue;
		/* A state that cannot be read is the runtime's business, and said there. */
		if (json_read_file(AT_FDCWD, file, STATE_MAX, &state, NULL) >= 0)
			r = put_state(l, home, entry->d_name, state, err);
	}
	return r;
}

static int note_id(void *data, const char *const *columns, size_t n, struct err *err)
{
	if (columns[0])
		strv_add(data, columns[0]);
	return 0;
}

int put_ids(struct ledger *l, const char *home, struct strv *ret, struct err *err)
{
	static const struct statement all = { STATEMENT_ONCE, "SELECT id FROM runs WHERE home = $1",
					      1 };
	int r = l->ops->run(l, &all, &home, note_id, ret, err);
	strv_sort(ret); /* by bytes, which is not every database's order */
	return r;
}

void ids_minus(const struct strv *ids, const struct strv *without, struct strv *ret)
{
	for (size_t i = 0, k = 0; i < ids->n; i++) {
		while (k < without->n && strcmp(without->v[k], ids->v[i]) < 0)
			k++;
		if (k == without->n || !str_eq(without->v[k], ids->v[i]))
			strv_add(ret, ids->v[i]);
	}
}

int put_take_count(void *data, const char *const *columns, size_t n, struct err *err)
{
	return num_u64(columns[0] ? columns[0] : "", UINT64_MAX, data) < 0
		       ? err_set(err, ERR_HOST, EBADMSG, "the ledger's count is no number")
		       : 0;
}

int put_count(struct ledger *l, const char *home, uint64_t *ret, struct err *err)
{
	static const struct statement count = { STATEMENT_ONCE,
						"SELECT count(*) FROM runs WHERE home = $1", 1 };
	return l->ops->run(l, &count, &home, put_take_count, ret, err);
}

static int compare_boot(void *data, const char *const *columns, size_t n, struct err *err)
{
	char boot[64];
	home_boot(boot);
	*(bool *)data = str_eq(columns[0], boot);
	return 0;
}

int put_is_reconciled(struct ledger *l, const char *home, struct err *err)
{
	static const struct statement find = { STATEMENT_ONCE,
					       "SELECT reconciled FROM homes WHERE home = $1", 1 };
	bool found = false;
	int r = l->ops->run(l, &find, &home, compare_boot, &found, err);
	return r < 0 ? r : found;
}

int put_reconciled(struct ledger *l, const char *home, struct err *err)
{
	static const struct statement put = { STATEMENT_ONCE,
					      "UPDATE homes SET reconciled = $1 WHERE home = $2",
					      2 };
	char boot[64];
	home_boot(boot);
	const char *const values[] = { boot, home };
	return l->ops->run(l, &put, values, NULL, NULL, err);
}

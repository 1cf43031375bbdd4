/* What a database says of itself. The statements are each database's own; nothing else in this folder is. */
#include "ledger/inspect.h"

#include <errno.h>
#include <string.h>

#include "base/path.h"
#include "ledger/parts.h"

#define ORPHANS_MAX "20"

struct inspection {
	struct ledger *ledger; /* borrowed */
	enum inspect_depth depth;
	const char *where; /* borrowed; the file or the URL without its password */
	inspect_tell tell;
	void *data;
};

static void fault(const struct inspection *i, const char *where, const char *text)
{
	i->tell(i->data, INSPECT_FAULT, where, text);
}

static void note(const struct inspection *i, const char *text)
{
	i->tell(i->data, INSPECT_NOTE, i->where, text);
}

static int ask(const struct inspection *i, const char *sql, ledger_row row, void *data,
	       struct err *err)
{
	const struct statement s = { STATEMENT_ONCE, sql, 0 };
	return i->ledger->ops->run(i->ledger, &s, NULL, row, data, err);
}

/* Damage that keeps the database from answering is what was looked for. */
static int unless_damaged(const struct inspection *i, int r, const struct err *err)
{
	if (r != -EBADMSG)
		return r;
	fault(i, i->where, err->text);
	return 0;
}

static int integrity_row(void *data, const char *const *columns, size_t n, struct err *err)
{
	if (n > 0 && columns[0] && !str_eq(columns[0], "ok"))
		fault(data, ((const struct inspection *)data)->where, columns[0]);
	return 0;
}

static int foreign_key_row(void *data, const char *const *columns, size_t n, struct err *err)
{
	const char *row = n > 1 && columns[1] ? columns[1] : "?";
	CLEANUP_FREE char *text = xasprintf("row %s refers to a row of '%s' that is not there", row,
					    n > 2 && columns[2] ? columns[2] : "?");
	CLEANUP_FREE char *where = xasprintf("%s table %s",
					     ((const struct inspection *)data)->where,
					     n > 0 && columns[0] ? columns[0] : "?");
	fault(data, where, text);
	return 0;
}

static int inspect_sqlite(struct inspection *i, struct err *err)
{
	const char *check = i->depth == INSPECT_QUICK ? "PRAGMA quick_check(20)"
						      : "PRAGMA integrity_check(20)";
	int r = unless_damaged(i, ask(i, check, integrity_row, i, err), err);
	if (r < 0)
		return r;
	return unless_damaged(i, ask(i, "PRAGMA foreign_key_check", foreign_key_row, i, err), err);
}

static int orphan_row(void *data, const char *const *columns, size_t n, struct err *err)
{
	CLEANUP_FREE char *text = xasprintf("has rows of the run '%s', which the table runs lacks",
					    n > 1 && columns[1] ? columns[1] : "?");
	CLEANUP_FREE char *where = xasprintf("table %s", columns[0]);
	fault(data, where, text);
	return 0;
}

/* The server checks keys when rows are written; who switches that off, or mends a damaged table, can leave orphans. */
static int find_orphans(struct inspection *i, struct err *err)
{
	static const char *const tables[] = { "attempts", "events", "outputs", "logs",
					      "selections" };
	int r = 0;
	for (size_t k = 0; r >= 0 && k < sizeof tables / sizeof *tables; k++) {
		CLEANUP_FREE char *sql = xasprintf(
			"SELECT DISTINCT '%s', run FROM %s x WHERE NOT EXISTS (SELECT 1 FROM runs "
			"WHERE runs.home = x.home AND runs.id = x.run) LIMIT " ORPHANS_MAX,
			tables[k], tables[k]);
		r = unless_damaged(i, ask(i, sql, orphan_row, i, err), err);
	}
	return r;
}

static int checksum_row(void *data, const char *const *columns, size_t n, struct err *err)
{
	const struct inspection *i = data;
	if (n < 3)
		return 0;
	if (!str_eq(columns[0], "on")) {
		note(i, "the server keeps no checksums of its pages; an administrator can switch "
			"them on with pg_checksums --enable");
		return 0;
	}
	CLEANUP_FREE char *text = xasprintf("%s pages failed their checksum, the last at %s",
					    columns[1] ? columns[1] : "?",
					    columns[2] ? columns[2] : "?");
	if (columns[1] && !str_eq(columns[1], "0"))
		fault(i, i->where, text);
	return 0;
}

static int list_row(void *data, const char *const *columns, size_t n, struct err *err)
{
	if (n > 0 && columns[0])
		strv_add(data, columns[0]);
	return 0;
}

static int find_invalid(struct inspection *i, struct err *err)
{
	CLEANUP_STRV struct strv names = { 0 };
	int r = ask(i,
		    "SELECT conrelid::regclass || ' ' || conname FROM pg_constraint WHERE "
		    "connamespace = 'cupel'::regnamespace AND NOT convalidated "
		    "UNION ALL SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON "
		    "pg_class.oid = indexrelid WHERE relnamespace = 'cupel'::regnamespace AND NOT "
		    "indisvalid",
		    list_row, &names, err);
	for (size_t k = 0; r >= 0 && k < names.n; k++)
		fault(i, names.v[k], "the server itself says that it is not valid");
	return r;
}

/* Each index by itself: what is wrong with one says nothing of the next. */
static int check_indexes(struct inspection *i, const char *schema, struct err *err)
{
	CLEANUP_STRV struct strv names = { 0 };
	int r = ask(i,
		    "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_am a ON a.oid = c.relam "
		    "WHERE c.relkind = 'i' AND a.amname = 'btree' AND c.relnamespace = "
		    "'cupel'::regnamespace ORDER BY 1",
		    list_row, &names, err);
	for (size_t k = 0; r >= 0 && k < names.n; k++) {
		CLEANUP_FREE char *sql = xasprintf("SELECT %s.bt_index_check('%s'::regclass, %s)",
						   schema, names.v[k],
						   i->depth == INSPECT_FULL ? "true" : "false");
		struct err why = { 0 };
		r = ask(i, sql, NULL, NULL, &why);
		if (r == -EACCES) {
			note(i,
			     "indexes were not looked at: that takes the right to execute "
			     "bt_index_check (GRANT EXECUTE ON FUNCTION bt_index_check(regclass, "
			     "boolean) TO ...)");
			return 0;
		}
		if (r == -EBADMSG || r == -EIO) {
			fault(i, names.v[k], why.text);
			r = 0;
		}
		if (r < 0)
			*err = why;
	}
	return r;
}

static int inspect_indexes(struct inspection *i, struct err *err)
{
	CLEANUP_STRV struct strv schema = { 0 };
	int r = ask(
		i,
		"SELECT quote_ident(nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = "
		"e.extnamespace WHERE extname = 'amcheck'",
		list_row, &schema, err);
	if (r >= 0 && schema.n == 0)
		note(i, "indexes were not looked at: the extension amcheck is not in this database "
			"(CREATE EXTENSION amcheck)");
	return r < 0 || schema.n == 0 ? r : check_indexes(i, schema.v[0], err);
}

static int inspect_postgres(struct inspection *i, struct err *err)
{
	/* A large index takes its time; what hangs has an end all the same. */
	int r = i->ledger->ops->be_patient(i->ledger, err);
	if (r >= 0)
		r = ask(i,
			"SELECT current_setting('data_checksums'), checksum_failures, "
			"checksum_last_failure FROM pg_stat_database WHERE datname = "
			"current_database()",
			checksum_row, i, err);
	if (r >= 0)
		r = find_invalid(i, err);
	if (r >= 0)
		r = inspect_indexes(i, err);
	return r < 0 ? r : find_orphans(i, err);
}

/* SQLite would make the file that is looked for. */
static int sqlite_is_there(const struct config *c, struct err *err)
{
	CLEANUP_FREE char *path = NULL;
	if (!c->ledger_url)
		path = path_join(c->home, "cupel.db");
	else if (str_starts(c->ledger_url, "sqlite:"))
		path = xstrdup(c->ledger_url + strlen("sqlite:"));
	if (path && access(path, F_OK) < 0)
		return errno == ENOENT ? err_set(err, ERR_HOST, ENOENT, "there is no %s", path)
				       : err_errno(err, "look at %s", path);
	return 0;
}

int ledger_inspect(const struct config *c, enum inspect_depth depth, inspect_tell tell, void *data,
		   struct err *err)
{
	CLEANUP_LEDGER struct ledger *l = NULL;
	CLEANUP_FREE char *where = config_ledger_shown(c);
	struct inspection i = { .depth = depth, .where = where, .tell = tell, .data = data };
	int r = sqlite_is_there(c, err);
	if (r >= 0)
		r = ledger_open(c, &l, err);
	if (r < 0)
		return unless_damaged(&i, r, err);
	i.ledger = l;
	return str_eq(l->ops->name, "sqlite") ? inspect_sqlite(&i, err) : inspect_postgres(&i, err);
}

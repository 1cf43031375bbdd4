/* Databases: how their tables are made, how many rows they have, and a checksum over these that does not depend on their order. */
#include <errno.h>
#include <string.h>

#include "ledger/backend.h"
#include "ledger/ledger.h"
#include "protect/parts.h"

#define COLUMNS_TOGETHER 60 /* SQLite bounds the depth of an expression */
#define COLUMNS_MAX      1500

/* Ours change with each run; the server's own are its own. */
#define NOT_OURS                                                                                   \
	" n.nspname NOT IN ('information_schema', 'cupel') AND left(n.nspname, 3) <> 'pg_' "

struct reading {
	struct ledger *ledger; /* borrowed */
	struct items *items;   /* borrowed */
	enum watch_level level;
};

static int ask(const struct reading *r, const char *sql, ledger_row row, void *data,
	       struct err *err)
{
	const struct statement s = { STATEMENT_ONCE, sql, 0 };
	return r->ledger->ops->run(r->ledger, &s, NULL, row, data, err);
}

static const char *text(const char *column)
{
	return column ? column : "";
}

static int schema_row(void *data, const char *const *columns, size_t n, struct err *err)
{
	char hex[HASH_HEX];
	if (n < 2 || !columns[0])
		return 0;
	hash_bytes(text(columns[1]), strlen(text(columns[1])), hex);
	items_add(data, ITEM_SCHEMA, columns[0], "", "", hex);
	return 0;
}

static int counter_row(void *data, const char *const *columns, size_t n, struct err *err)
{
	if (n > 1 && columns[0])
		items_add(data, ITEM_COUNTER, columns[0], text(columns[1]), "", "");
	return 0;
}

static int name_row(void *data, const char *const *columns, size_t n, struct err *err)
{
	if (n > 0 && columns[0])
		strv_add(data, columns[0]);
	return 0;
}

static int postgres_schema(const struct reading *r, struct err *err)
{
	int e = ask(
		r,
		"SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname), concat_ws(E'\\n', "
		"c.relkind, c.relowner, c.relacl, c.relrowsecurity, "
		"(SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), "
		"attnotnull, attacl, pg_get_expr(adbin, adrelid)), E'\\n' ORDER BY attnum) FROM "
		"pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum "
		"WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped), "
		"(SELECT string_agg(conname || ' ' || pg_get_constraintdef(oid), E'\\n' ORDER BY "
		"conname) FROM pg_constraint WHERE conrelid = c.oid), "
		"(SELECT string_agg(pg_get_indexdef(indexrelid), E'\\n' ORDER BY "
		"pg_get_indexdef(indexrelid)) FROM pg_index WHERE indrelid = c.oid), "
		"(SELECT string_agg(pg_get_triggerdef(oid), E'\\n' ORDER BY tgname) FROM "
		"pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal), "
		"CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END) "
		"FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE "
		"c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND" NOT_OURS,
		schema_row, r->items, err);
	if (e < 0)
		return e;
	return ask(
		r,
		"SELECT n.nspname || '.' || p.proname || '(' || "
		"pg_get_function_identity_arguments(p.oid) || ')', concat_ws(E'\\n', p.prosrc, "
		"p.probin, p.prosecdef, p.proowner, p.proacl) FROM pg_proc p JOIN pg_namespace n "
		"ON n.oid = p.pronamespace WHERE" NOT_OURS,
		schema_row, r->items, err);
}

/* Updates change no number of rows. */
static int postgres_counters(const struct reading *r, struct err *err)
{
	return ask(
		r,
		r->level == WATCH_ROWS
			? "SELECT quote_ident(schemaname) || '.' || quote_ident(relname), "
			  "n_tup_ins || ' inserted, ' || n_tup_del || ' deleted' FROM "
			  "pg_stat_user_tables WHERE schemaname <> 'cupel'"
			: "SELECT quote_ident(schemaname) || '.' || quote_ident(relname), n_tup_ins || ' "
			  "inserted, ' || n_tup_upd || ' updated, ' || n_tup_del || ' deleted' FROM "
			  "pg_stat_user_tables WHERE schemaname <> 'cupel'",
		counter_row, r->items, err);
}

struct counted {
	char *rows, *sum; /* owned */
};

static int counted_row(void *data, const char *const *columns, size_t n, struct err *err)
{
	struct counted *c = data;
	if (n < 2)
		return 0;
	c->rows = xstrdup(text(columns[0]));
	c->sum = xstrdup(text(columns[1]));
	return 0;
}

/* record_out: a cast to text could be the owner's own, and would run as us. */
static int postgres_tables(const struct reading *r, struct err *err)
{
	CLEANUP_STRV struct strv names = { 0 };
	int e = ask(
		r,
		"SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) FROM pg_class c "
		"JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'm') "
		"AND" NOT_OURS,
		name_row, &names, err);
	for (size_t i = 0; e >= 0 && i < names.n; i++) {
		CLEANUP_FREE char *sql =
			r->level == WATCH_ROWS
				? xasprintf("SELECT count(*), '' FROM ONLY %s t", names.v[i])
				: xasprintf("SELECT count(*), coalesce(sum(hashtextextended(textin("
					    "record_out(t)), 0)), 0) FROM ONLY %s t",
					    names.v[i]);
		struct counted c = { 0 };
		e = ask(r, sql, counted_row, &c, err);
		if (e >= 0)
			items_add(r->items, ITEM_TABLE, names.v[i], text(c.rows), "", text(c.sum));
		free(c.rows);
		free(c.sum);
	}
	return e;
}

/* A run waits for this: a server that does not answer at once is not looked at. What the URL says of it stands. */
static char *with_timeout(const char *url, enum depth depth)
{
	if (depth >= DEPTH_CONTENT || strstr(url, "connect_timeout="))
		return xstrdup(url);
	return xasprintf("%s%cconnect_timeout=2", url, strchr(url, '?') ? '&' : '?');
}

static int look_postgres(const struct protect_look *q, struct reading *r, struct err *err)
{
	CLEANUP_LEDGER struct ledger *l = NULL;
	CLEANUP_FREE char *url = with_timeout(q->what, q->depth);
	int e = ledger_postgres(url, &l, err);
	r->ledger = l;
	/* No schema but the server's own: a function of another one could fit better, and would run as us. */
	if (e >= 0)
		e = l->ops->script(
			l,
			q->depth >= DEPTH_CONTENT
				? "SET search_path TO pg_catalog, pg_temp; SET statement_timeout TO "
				  "'30min'; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
				: "SET search_path TO pg_catalog, pg_temp; SET statement_timeout TO "
				  "'5s'; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
			err);
	if (e >= 0)
		e = postgres_schema(r, err);
	if (e < 0 || r->level == WATCH_SCHEMA)
		return e;
	e = postgres_counters(r, err);
	return e < 0 || q->depth < DEPTH_CONTENT ? e : postgres_tables(r, err);
}

struct summing {
	uint64_t rows, sum;
};

static int sum_row(void *data, const char *const *columns, size_t n, struct err *err)
{
	struct summing *s = data;
	CLEANUP_STR struct str row = { 0 };
	char hex[HASH_HEX];
	for (size_t i = 0; i < n; i++)
		str_addf(&row, "%s;", text(columns[i]));
	hash_bytes(str_text(&row), row.length, hex);
	hex[16] = '\0';
	s->sum += strtoull(hex, NULL, 16);
	s->rows++;
	return 0;
}

static void add_quoted(struct str *out, const char *name)
{
	str_add(out, "\"");
	for (; *name; name++)
		str_add_n(out, *name == '"' ? "\"\"" : name, *name == '"' ? 2 : 1);
	str_add(out, "\"");
}

/* Each value as SQLite writes it down, so that NULL, '' and 0 are three; but of a text it writes nothing behind a NUL. */
static int sqlite_table(const struct reading *r, const char *name, struct err *err)
{
	CLEANUP_STR struct str sql = { 0 };
	CLEANUP_STR struct str info = { 0 };
	CLEANUP_STRV struct strv columns = { 0 };
	struct summing s = { 0 };
	char rows[24], sum[24];
	str_add(&info, "SELECT name FROM pragma_table_info(");
	add_quoted(&info, name);
	str_add(&info, ")");
	int e = ask(r, str_text(&info), name_row, &columns, err);
	if (e >= 0 && (columns.n == 0 || columns.n > COLUMNS_MAX))
		return err_set(err, ERR_HOST, E2BIG, "the table %s has %zu columns", name,
			       columns.n);
	for (size_t i = 0; i < columns.n; i++) {
		str_add(&sql, i == 0 ? "SELECT " : i % COLUMNS_TOGETHER ? " || ',' || " : ", ");
		CLEANUP_STR struct str column = { 0 };
		add_quoted(&column, columns.v[i]);
		const char *name_of = str_text(&column);
		str_addf(
			&sql,
			"iif(typeof(%s) = 'text' AND instr(%s, char(0)), 't' || hex(%s), quote(%s))",
			name_of, name_of, name_of, name_of);
	}
	str_add(&sql, " FROM ");
	add_quoted(&sql, name);
	if (e >= 0)
		e = ask(r, str_text(&sql), sum_row, &s, err);
	if (e < 0)
		return e;
	(void)snprintf(rows, sizeof rows, "%llu", (unsigned long long)s.rows);
	(void)snprintf(sum, sizeof sum, "%016llx", (unsigned long long)s.sum);
	items_add(r->items, ITEM_TABLE, name, rows, "", sum);
	return 0;
}

static int sqlite_rows(const struct reading *r, const char *name, struct err *err)
{
	CLEANUP_STR struct str sql = { 0 };
	struct counted c = { 0 };
	str_add(&sql, "SELECT count(*), '' FROM ");
	add_quoted(&sql, name);
	int e = ask(r, str_text(&sql), counted_row, &c, err);
	if (e >= 0)
		items_add(r->items, ITEM_TABLE, name, text(c.rows), "", "");
	free(c.rows);
	free(c.sum);
	return e;
}

static int sqlite_tables(const struct reading *r, struct err *err)
{
	CLEANUP_STRV struct strv names = { 0 };
	int e = r->ledger->ops->script(r->ledger, "BEGIN", err);
	if (e >= 0)
		e = ask(r, "SELECT type || ' ' || name, sql FROM sqlite_master", schema_row,
			r->items, err);
	if (r->level == WATCH_SCHEMA)
		return e;
	if (e >= 0)
		e = ask(r,
			"SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB "
			"'sqlite_*' AND sql NOT LIKE 'CREATE VIRTUAL%'",
			name_row, &names, err);
	for (size_t i = 0; e >= 0 && i < names.n; i++)
		e = r->level == WATCH_ROWS ? sqlite_rows(r, names.v[i], err)
					   : sqlite_table(r, names.v[i], err);
	return e;
}

static int look_sqlite(const struct protect_look *q, struct reading *r, struct err *err)
{
	CLEANUP(rights_restore) struct rights rights = { 0 };
	CLEANUP_LEDGER struct ledger *l = NULL;
	const char *path = q->what + strlen("sqlite:");
	int e = rights_of_owner(path, &rights, err);
	if (e >= 0)
		e = ledger_sqlite_read(path, &l, err);
	if (e < 0)
		return e;
	r->ledger = l;
	e = sqlite_tables(r, err);
	if (ledger_sqlite_is_stale(l))
		return err_set(err, ERR_HOST, ESTALE, "it was changed while it was read");
	return e;
}

int database_look(const struct protect_look *q, struct items *ret, struct err *err)
{
	struct reading r = { .items = ret,
			     .level = q->config ? config_watch_level(q->config, q->what)
						: WATCH_CONTENT };
	int e = str_starts(q->what, "sqlite:") ? look_sqlite(q, &r, err)
					       : look_postgres(q, &r, err);
	items_sort(ret);
	return e;
}

static void compare_item(const struct item *then, const struct item *now, enum watch_level level,
			 struct drifts *ret)
{
	CLEANUP_STR struct str detail = { 0 };
	bool is_counted_only = level == WATCH_ROWS && str_eq(now->kind, ITEM_TABLE);
	if (str_eq(then->version, now->version) &&
	    (is_counted_only || str_eq(then->digest, now->digest)))
		return;
	if (str_eq(now->kind, ITEM_SCHEMA))
		str_add(&detail, "how it is made");
	else if (str_eq(now->kind, ITEM_COUNTER))
		str_addf(&detail, "rows written: %s -> %s", then->version, now->version);
	else if (!str_eq(then->version, now->version))
		str_addf(&detail, "%s rows -> %s", then->version, now->version);
	else
		str_addf(&detail, "other values in its %s rows", now->version);
	drifts_add(ret, DRIFT_CHANGED, now->name, str_text(&detail), NULL);
}

static bool is_compared(const struct item *i, const struct database_compared *how)
{
	if (how->level == WATCH_SCHEMA)
		return str_eq(i->kind, ITEM_SCHEMA);
	return !str_eq(i->kind, how->depth >= DEPTH_CONTENT ? ITEM_COUNTER : ITEM_TABLE);
}

/* A table that came or went is named once, by how it is made. */
static void add_one(const struct item *i, enum drift_kind kind, struct drifts *ret)
{
	if (str_eq(i->kind, ITEM_SCHEMA))
		drifts_add(ret, kind, i->name, "in the schema", NULL);
}

static bool has_rows(const struct items *items, const struct database_compared *how)
{
	for (size_t i = 0; i < items->n; i++)
		if (!str_eq(items->v[i].kind, ITEM_SCHEMA) && is_compared(&items->v[i], how))
			return true;
	return false;
}

void database_compare(const struct items *then, const struct items *now,
		      const struct database_compared *how, struct drifts *ret)
{
	/* Accepted while only the schema was watched: there is nothing to compare the rows with. */
	if (then->n && !has_rows(then, how) && has_rows(now, how))
		drifts_add(
			ret, DRIFT_CHANGED, "rows",
			"not recorded when the state was accepted (watch was schema): accept it again",
			NULL);
	for (size_t i = 0, k = 0; i < then->n || k < now->n;) {
		int c = i == then->n ? 1 : k == now->n ? -1 : item_order(&then->v[i], &now->v[k]);
		const struct item *one = c > 0 ? &now->v[k] : &then->v[i];
		if (is_compared(one, how) && c == 0)
			compare_item(one, &now->v[k], how->level, ret);
		else if (is_compared(one, how))
			add_one(one, c < 0 ? DRIFT_MISSING : DRIFT_ADDED, ret);
		i += c <= 0;
		k += c >= 0;
	}
}

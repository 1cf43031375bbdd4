/* The numbered migrations: what of them a database has, and applying the rest. */
#include <errno.h>

#include "base/clock.h"
#include "base/num.h"
#include "ledger/parts.h"

struct migration {
	const char *name; /* NNN-words.sql */
	const char *sql;
};
#include "ledger/schema.inc"

#define N_MIGRATIONS (sizeof migrations / sizeof *migrations)

static int take_version(void *data, const char *const *columns, size_t n, struct err *err)
{
	return columns[0] && num_u64(columns[0], UINT32_MAX, data) < 0
		       ? err_set(err, ERR_HOST, EBADMSG, "the ledger's schema has no number")
		       : 0;
}

int schema_versions(struct ledger *l, struct ledger_versions *ret, struct err *err)
{
	static const struct statement last = { STATEMENT_ONCE,
					       "SELECT max(version) FROM cupel_schema", 0 };
	struct ledger_versions v = { .known = N_MIGRATIONS };
	int r = l->ops->is_empty(l, err);
	if (r == 0)
		r = l->ops->run(l, &last, NULL, take_version, &v.found, err);
	if (r >= 0)
		*ret = v;
	return r < 0 ? r : 0;
}

static int note(struct ledger *l, size_t number, const struct migration *m, struct err *err)
{
	static const struct statement insert = {
		STATEMENT_ONCE,
		"INSERT INTO cupel_schema (version, name, sha256, applied) VALUES ($1, $2, $3, $4)",
		4
	};
	char sha256[HASH_HEX], time[40];
	CLEANUP_FREE char *version = xasprintf("%zu", number);
	hash_bytes(m->sql, strlen(m->sql), sha256);
	const char *const values[] = { version, m->name, sha256,
				       clock_write(clock_real_ns(), time, sizeof time) };
	return l->ops->run(l, &insert, values, NULL, NULL, err);
}

/* One step in a transaction of its own; another process may have done it since we looked. 1 if there was nothing to do. */
static int migrate_one(struct ledger *l, struct err *err)
{
	CLEANUP_TRANSACTION struct transaction t = { 0 };
	struct ledger_versions v = { 0 };
	int r = transaction_begin(&t, l, LEDGER_ALONE, err);
	if (r >= 0)
		r = schema_versions(l, &v, err);
	if (r < 0 || v.found >= v.known)
		return r < 0 ? r : 1;
	r = l->ops->prepare_schema(l, err);
	if (r >= 0 && v.found == 0)
		r = l->ops->script(
			l,
			"CREATE TABLE cupel_schema (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, "
			"sha256 TEXT NOT NULL, applied TEXT NOT NULL)",
			err);
	/* A new one is made at once: who looks meanwhile must not take it for an old one. */
	const struct migration *m = NULL;
	for (size_t i = v.found, end = v.found == 0 ? v.known : v.found + 1; r >= 0 && i < end;
	     i++) {
		m = &migrations[i];
		r = l->ops->script(l, m->sql, err);
		if (r >= 0)
			r = note(l, i + 1, m, err);
	}
	if (r >= 0)
		r = transaction_commit(&t, err);
	return r < 0 ? err_wrap(err, "migrate the ledger to %s", m ? m->name : "its first tables")
		     : 0;
}

int schema_migrate(struct ledger *l, struct err *err)
{
	int r;
	do
		r = migrate_one(l, err);
	while (r == 0);
	return r < 0 ? r : 0;
}

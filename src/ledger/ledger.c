/* Opening the ledger, and transactions that cannot be left open. */
#include "ledger/ledger.h"

#include <errno.h>
#include <unistd.h>

#include "base/path.h"
#include "ledger/parts.h"

int ledger_connect(const struct config *c, struct ledger **ret, struct err *err)
{
	const char *url = c->ledger_url;
	if (url && !str_starts(url, "sqlite:"))
		return ledger_postgres(url, ret, err);
	CLEANUP_FREE char *path = url ? xstrdup(url + sizeof "sqlite:" - 1)
				      : path_join(c->home, "cupel.db");
	return ledger_sqlite(path, ret, err);
}

static int check_versions(const struct ledger_versions *v, struct err *err)
{
	if (v->found < v->known)
		return err_set(
			err, ERR_HOST, ESTALE,
			"the ledger has schema %llu, and this cupel writes %llu. Remedy: cupel ledger migrate",
			(unsigned long long)v->found, (unsigned long long)v->known);
	if (v->found > v->known)
		return err_set(
			err, ERR_HOST, EPROTO,
			"the ledger has schema %llu, but this cupel knows only %llu. Remedy: use the newer cupel that made it",
			(unsigned long long)v->found, (unsigned long long)v->known);
	return 0;
}

/* A file of its own is made again from the runs; of a server's tables its own words are enough. */
static int damaged(const struct config *c, int r, struct err *err)
{
	bool is_file = !c->ledger_url || str_starts(c->ledger_url, "sqlite:");
	if (!err || r != -EBADMSG || !is_file)
		return r;
	struct err why = *err;
	return err_set(err, why.kind, why.code, "%s. Remedy: cupel ledger rebuild", why.text);
}

int ledger_open(const struct config *c, struct ledger **ret, struct err *err)
{
	CLEANUP_LEDGER struct ledger *l = NULL;
	struct ledger_versions v = { 0 };
	int r = ledger_connect(c, &l, err);
	if (r >= 0)
		r = schema_versions(l, &v, err);
	if (r >= 0)
		r = v.found == 0 ? schema_migrate(l, err) : check_versions(&v, err);
	if (r < 0)
		return damaged(c, r, err);
	*ret = take_ptr(l);
	return 0;
}

/* A file that is only looked at is not to be made. */
static int check_file(const struct config *c, struct err *err)
{
	const char *url = c->ledger_url;
	if (url && !str_starts(url, "sqlite:"))
		return 0;
	CLEANUP_FREE char *own = path_join(c->home, "cupel.db");
	const char *path = url ? url + sizeof "sqlite:" - 1 : own;
	return access(path, F_OK) < 0 ? err_errno(err, "open the ledger %s", path) : 0;
}

int ledger_open_existing(const struct config *c, struct ledger **ret, struct err *err)
{
	CLEANUP_LEDGER struct ledger *l = NULL;
	struct ledger_versions v = { 0 };
	int r = check_file(c, err);
	if (r >= 0)
		r = ledger_connect(c, &l, err);
	if (r >= 0)
		r = schema_versions(l, &v, err);
	if (r >= 0 && v.found == 0)
		return -ENODATA;
	if (r >= 0)
		r = check_versions(&v, err);
	if (r < 0)
		return damaged(c, r, err);
	*ret = take_ptr(l);
	return 0;
}

int ledger_open_whole(const struct config *c, struct ledger **ret, struct err *err)
{
	CLEANUP_LEDGER struct ledger *l = NULL;
	char home[HOME_ID];
	if (home_id(c, home, NULL) < 0)
		return -ENODATA;
	int r = ledger_open_existing(c, &l, err);
	if (r >= 0)
		r = put_is_reconciled(l, home, err);
	if (r == 0)
		return -ENODATA;
	if (r < 0)
		return r;
	*ret = take_ptr(l);
	return 0;
}

void ledger_close(struct ledger *l)
{
	if (l)
		l->ops->free(l);
}

int ledger_migrate(const struct config *c, struct ledger_versions *ret, struct err *err)
{
	CLEANUP_LEDGER struct ledger *l = NULL;
	int r = ledger_connect(c, &l, err);
	if (r >= 0)
		r = l->ops->be_patient(l, err);
	if (r >= 0)
		r = schema_migrate(l, err);
	if (r >= 0)
		home_state_forget(c); /* a new column may be to fill */
	return r < 0 ? r : schema_versions(l, ret, err);
}

int transaction_begin(struct transaction *t, struct ledger *l, enum ledger_lock lock,
		      struct err *err)
{
	int r = l->ops->begin(l, lock, err);
	if (r >= 0)
		t->ledger = l;
	return r;
}

int transaction_commit(struct transaction *t, struct err *err)
{
	int r = t->ledger->ops->commit(t->ledger, err);
	if (r >= 0)
		t->ledger = NULL;
	return r;
}

void transaction_end(struct transaction *t)
{
	if (t->ledger)
		t->ledger->ops->rollback(t->ledger);
	t->ledger = NULL;
}

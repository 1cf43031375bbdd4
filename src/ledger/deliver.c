/* What is owed to the ledger becomes rows, a batch in a transaction, and the marks go after the commit. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/fs.h"
#include "base/path.h"
#include "ledger/parts.h"
#include "spec/id.h"

#define BATCH 100

/* 1: its mark may go once the batch is committed. A record that cannot be read holds up nobody else. */
static int enter_one(struct delivering *d, const char *id, struct err *err)
{
	CLEANUP_POSTING struct posting e = { 0 };
	struct err why = { 0 };
	int r = posting_read(d->config, id, &e, &why);
	if (r == -ENOENT) {
		d->report->gone++;
		return 1;
	}
	if (r == -EAGAIN) {
		d->report->waiting++;
		return 0;
	}
	if (r < 0) {
		d->report->failed++;
		d->report->last_error = why;
		return 0;
	}
	r = put_posting(d->ledger, d->home, &e, d->compare, err);
	if (r < 0)
		return err_wrap(err, "enter run %s", id);
	d->report->entered += (uint64_t)r;
	return 1;
}

static int deliver_batch(struct delivering *d, char *const *ids, size_t n, struct err *err)
{
	CLEANUP_TRANSACTION struct transaction t = { 0 };
	bool settled[BATCH] = { false };
	struct ledger_delivery before = *d->report;
	int r = transaction_begin(&t, d->ledger, LEDGER_SHARED, err);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		r = enter_one(d, ids[i], err);
		settled[i] = r > 0;
		FAULT_PHASE("ledger-entered");
	}
	if (r >= 0)
		r = transaction_commit(&t, err);
	if (r < 0) {
		*d->report = before;
		return r;
	}
	FAULT_PHASE("ledger-committed");
	for (size_t i = 0; i < n; i++)
		if (settled[i]) {
			home_settle(d->config, ids[i]);
			d->report->settled++;
		}
	FAULT_PHASE("ledger-settled");
	return 0;
}

int deliver_ids(struct delivering *d, const struct strv *ids, struct err *err)
{
	int r = 0;
	for (size_t i = 0; r >= 0 && i < ids->n; i += BATCH)
		r = deliver_batch(d, ids->v + i, ids->n - i < BATCH ? ids->n - i : BATCH, err);
	return r;
}

/* Marks can be lost with a power cut, or be of another database: what this one lacks is owed. */
static int reconcile(struct delivering *d, struct err *err)
{
	CLEANUP_STRV struct strv known = { 0 };
	CLEANUP_STRV struct strv all = { 0 };
	CLEANUP_STRV struct strv lacking = { 0 };
	int r = put_ids(d->ledger, d->home, &known, err);
	if (r >= 0)
		r = id_list(d->config->home, "runs", &all, err);
	if (r >= 0)
		ids_minus(&all, &known, &lacking);
	for (size_t i = 0; r >= 0 && i < lacking.n; i++) {
		CLEANUP_FREE char *verdict =
			xasprintf("%s/runs/%s/verdict.json", d->config->home, lacking.v[i]);
		if (access(verdict, F_OK) == 0)
			r = home_owe(d->config, lacking.v[i], err);
	}
	return r;
}

static int put_shared(struct delivering *d, struct err *err)
{
	CLEANUP_TRANSACTION struct transaction t = { 0 };
	int r = transaction_begin(&t, d->ledger, LEDGER_SHARED, err);
	if (r >= 0)
		r = put_home(d->ledger, d->config, d->home, err);
	if (r >= 0)
		r = put_health(d->ledger, d->config, d->home, err);
	if (r >= 0)
		r = put_checks(d->ledger, d->config, d->home, err);
	return r < 0 ? r : transaction_commit(&t, err);
}

static int deliver_owed(struct delivering *d, bool is_reconciled, struct err *err)
{
	CLEANUP_STRV struct strv ids = { 0 };
	int r = home_id_make(d->config, d->home, err);
	if (r >= 0)
		r = put_shared(d, err);
	if (r >= 0 && !is_reconciled)
		r = reconcile(d, err);
	if (r >= 0)
		r = id_list(d->config->home, "undelivered", &ids, err);
	return r < 0 ? r : deliver_ids(d, &ids, err);
}

static int deliver(const struct config *c, struct ledger_delivery *report, struct err *err)
{
	CLEANUP_LEDGER struct ledger *l = NULL;
	CLEANUP_STRV struct strv owed = { 0 };
	CLEANUP_JSON json_t *state = home_state(c);
	bool is_reconciled = home_is_reconciled(c, state);
	int r = id_list(c->home, "undelivered", &owed, err);
	if (r < 0 || (is_reconciled && owed.n == 0))
		return r;
	FAULT_PHASE("ledger-begun");
	r = ledger_open(c, &l, err);
	struct delivering d = { .config = c, .ledger = l, .report = report };
	if (r >= 0)
		r = deliver_owed(&d, is_reconciled, err);
	const char *error = r < 0 ? err->text : report->failed ? report->last_error.text : NULL;
	home_state_write(c, error);
	return r;
}

int ledger_deliver(const struct config *c, enum ledger_wait wait, struct ledger_delivery *ret,
		   struct err *err)
{
	CLEANUP_FD int lock_fd = -1;
	struct ledger_delivery report = { 0 };
	int r = home_lock(c, wait, &lock_fd, err);
	if (r >= 0)
		r = deliver(c, &report, err);
	*ret = report;
	return r;
}

bool ledger_owes(const struct config *c)
{
	CLEANUP_FREE char *path = path_join(c->home, "undelivered");
	CLEANUP_DIR DIR *dir = opendir(path);
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (id_check(entry->d_name, NULL) >= 0)
			return !home_is_locked(c);
	return false;
}

static void add_reach(const struct config *c, json_t *o)
{
	CLEANUP_LEDGER struct ledger *l = NULL;
	struct ledger_versions v = { 0 };
	struct err err = { 0 };
	char home[HOME_ID];
	uint64_t runs = 0;
	int r = ledger_connect(c, &l, &err);
	if (l)
		json_object_set_new(o, "backend", json_string(l->ops->name));
	if (r >= 0)
		r = schema_versions(l, &v, &err);
	if (r >= 0)
		json_object_set_new(o, "schema",
				    json_pack("{s:I,s:I}", "found", (json_int_t)v.found, "known",
					      (json_int_t)v.known));
	if (r >= 0 && v.found > 0 && home_id(c, home, NULL) >= 0)
		r = put_count(l, home, &runs, &err);
	json_object_set_new(o, "reachable", json_boolean(r >= 0));
	json_object_set_new(o, "error", r < 0 ? json_text(err.text) : json_null());
	json_object_set_new(o, "runs", r < 0 ? json_null() : json_u64(runs));
}

int ledger_status(const struct config *c, json_t **ret, struct err *err)
{
	CLEANUP_STRV struct strv owed = { 0 };
	CLEANUP_FREE char *url = config_ledger_shown(c);
	CLEANUP_JSON json_t *state = home_state(c);
	struct stat st;
	int r = id_list(c->home, "undelivered", &owed, err);
	if (r < 0)
		return r;
	json_t *time = json_object_get(state, "time"), *error = json_object_get(state, "error");
	json_t *o = json_pack("{s:o,s:o,s:b,s:O?,s:O?}", "url", json_text(url), "owed",
			      json_u64(owed.n), "delivering", home_is_locked(c), "last_try", time,
			      "last_error", error);
	if (c->ledger_url || stat(c->home, &st) == 0)
		add_reach(c, o);
	*ret = o;
	return 0;
}

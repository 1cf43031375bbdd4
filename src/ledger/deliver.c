/* What is owed to the ledger becomes rows, a batch in a transaction, and the marks go after the commit. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/path.h"
#include "ledger/chain_parts.h"
#include "spec/id.h"

#define BATCH 100
/* To load the library, open the database and sync it costs as much as a short run; ten of these go into it as easily as one. */
#define MOMENT_NS (100 * NS_PER_MS)

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
	return home_is_chained(d->config, id) ? 1 : 0; /* else the mark is still needed */
}

static int deliver_batch(struct delivering *d, char *const *ids, size_t n, struct err *err)
{
	CLEANUP_TRANSACTION struct transaction t = { 0 };
	bool settled[BATCH] = { false };
	struct ledger_delivery before = *d->report;
	int r = transaction_begin(&t, d->ledger, LEDGER_SHARED, err);
	if (r >= 0)
		r = totals_lock(d->ledger, d->home, err);
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

/* Each by itself: names in a record are an analysis's, and what the database does not take of one holds up nobody else. */
static int deliver_singly(struct delivering *d, char *const *ids, size_t n, struct err *err)
{
	int r = 0;
	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct err why = { 0 };
		r = deliver_batch(d, ids + i, 1, &why);
		if (r == -EINVAL) {
			d->report->failed++;
			d->report->last_error = why;
			r = 0;
		} else if (r < 0) {
			*err = why;
		}
	}
	return r;
}

int deliver_ids(struct delivering *d, const struct strv *ids, struct err *err)
{
	int r = 0;
	for (size_t i = 0; r >= 0 && i < ids->n; i += BATCH) {
		size_t n = ids->n - i < BATCH ? ids->n - i : BATCH;
		r = deliver_batch(d, ids->v + i, n, err);
		if (r == -EINVAL)
			r = deliver_singly(d, ids->v + i, n, err);
	}
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
	return r < 0 ? r : put_reconciled(d->ledger, d->home, err);
}

/* Runs that have no mark and are not in the chain: of an older cupel, or the host crashed. Not if the ledger knows of more links than there
 * are: whoever cut the chain is not to be helped to hide it. */
static int chain_lacking(struct delivering *d, struct err *err)
{
	CLEANUP_CHAIN_KNOWN struct chain_known known = { 0 };
	CLEANUP_STRV struct strv all = { 0 };
	CLEANUP_STRV struct strv lacking = { 0 };
	int r = chain_known_read(d->config, &known, err);
	if (r >= 0)
		r = id_list(d->config->home, "runs", &all, err);
	for (size_t i = 0; r >= 0 && i < all.n; i++)
		if (!chain_known_has(&known, all.v[i], NULL))
			strv_add(&lacking, all.v[i]);
	return r < 0 ? r : chain_add(d->config, &lacking, CHAIN_WHOLE, err);
}

int deliver_chain(struct delivering *d, bool is_scanned, struct err *err)
{
	struct err why = { 0 };
	int r = chain_copy(d->ledger, d->config, d->home, &why);
	if (r == 0 && !is_scanned) {
		r = chain_lacking(d, &why);
		if (r >= 0)
			r = chain_copy(d->ledger, d->config, d->home, &why);
	}
	if (r == 0)
		return 0;
	if (r < 0 && why.code != EBADMSG) {
		*err = why;
		return r;
	}
	d->report->failed++; /* the chain is damaged: that holds up no run */
	d->report->last_error = why;
	return 0;
}

static int put_said(const struct delivering *d, struct err *err)
{
	CLEANUP_TRANSACTION struct transaction t = { 0 };
	int r = transaction_begin(&t, d->ledger, LEDGER_SHARED, err);
	if (r >= 0)
		r = put_health(d->ledger, d->config, d->home, err);
	if (r >= 0)
		r = put_checks(d->ledger, d->config, d->home, err);
	return r < 0 ? r : transaction_commit(&t, err);
}

/* What a check of a runtime said holds up no run either. */
static int put_shared(struct delivering *d, struct err *err)
{
	struct err why = { 0 };
	int r = put_home(d->ledger, d->config, d->home, err);
	if (r < 0)
		return r;
	r = put_said(d, &why);
	if (r == -EINVAL) {
		d->report->failed++;
		d->report->last_error = why;
		return 0;
	}
	if (r < 0)
		*err = why;
	return r;
}

/* What fails there is noted, and holds up nobody: a mark stays until its run is chained. */
void deliver_chain_owed(const struct config *c, const struct strv *owed, enum chain_scan scan,
			struct ledger_delivery *report)
{
	struct err why = { 0 };
	if (chain_add(c, owed, scan, &why) >= 0)
		return;
	report->failed++;
	report->last_error = why;
}

static int deliver_owed(struct delivering *d, const json_t *state, struct err *err)
{
	CLEANUP_STRV struct strv ids = { 0 };
	bool is_reconciled = home_is_reconciled(d->config, state);
	int r = home_id_make(d->config, d->home, err);
	if (r >= 0)
		r = put_shared(d, err);
	if (r >= 0)
		r = put_is_reconciled(d->ledger, d->home, err);
	is_reconciled = is_reconciled && r > 0;
	if (r >= 0 && !is_reconciled)
		r = reconcile(d, err);
	if (r >= 0)
		r = id_list(d->config->home, "undelivered", &ids, err);
	if (r < 0)
		return r;
	/* Marks that were made just now, or since we chained. */
	if (d->before)
		d->before(d->before_data, &ids);
	deliver_chain_owed(d->config, &ids, is_reconciled ? CHAIN_TAIL : CHAIN_WHOLE, d->report);
	r = deliver_ids(d, &ids, err);
	if (r >= 0)
		r = totals_settle(d->ledger, d->home, err);
	return r < 0 ? r : deliver_chain(d, is_reconciled && home_is_scanned(state), err);
}

static int deliver(const struct config *c, ledger_before *before, void *before_data,
		   struct ledger_delivery *report, struct err *err)
{
	CLEANUP_LEDGER struct ledger *l = NULL;
	CLEANUP_STRV struct strv owed = { 0 };
	CLEANUP_JSON json_t *state = home_state(c);
	bool is_reconciled = home_is_reconciled(c, state);
	int r = id_list(c->home, "undelivered", &owed, err);
	if (r < 0 || (is_reconciled && owed.n == 0))
		return r;
	/* Before the database is asked for anything: it may be down for long. */
	if (before)
		before(before_data, &owed);
	FAULT_PHASE("ledger-begun");
	deliver_chain_owed(c, &owed, home_is_scanned(state) ? CHAIN_TAIL : CHAIN_WHOLE, report);
	r = ledger_open(c, &l, err);
	struct delivering d = { .config = c,
				.ledger = l,
				.report = report,
				.before = before,
				.before_data = before_data };
	if (r >= 0)
		r = deliver_owed(&d, state, err);
	const char *error = r < 0 ? err->text : report->failed ? report->last_error.text : NULL;
	home_state_write(c, r < 0 ? HOME_AS_BEFORE : HOME_RECONCILED, error);
	return r;
}

int ledger_deliver(const struct config *c, enum ledger_wait wait, struct ledger_delivery *ret,
		   struct err *err)
{
	CLEANUP_FD int lock_fd = -1;
	struct ledger_delivery report = { 0 };
	int r = home_lock(c, wait, &lock_fd, err);
	if (r >= 0)
		r = deliver(c, NULL, NULL, &report, err);
	*ret = report;
	return r;
}

int ledger_deliver_soon(const struct config *c, ledger_before *before, void *data,
			struct ledger_delivery *ret, struct err *err)
{
	const struct timespec moment = { .tv_nsec = MOMENT_NS };
	CLEANUP_FD int lock_fd = -1;
	struct ledger_delivery report = { 0 };
	int r = home_lock(c, LEDGER_TRY, &lock_fd, err);
	if (r >= 0) {
		(void)nanosleep(&moment, NULL);
		FAULT_PHASE("ledger-awaited");
		r = deliver(c, before, data, &report, err);
	}
	*ret = report;
	return r;
}

static bool has_some(const struct config *c, const char *directory)
{
	CLEANUP_FREE char *path = path_join(c->home, directory);
	CLEANUP_DIR DIR *dir = opendir(path);
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (id_check(entry->d_name, NULL) >= 0)
			return true;
	return false;
}

bool ledger_owes(const struct config *c)
{
	CLEANUP_JSON json_t *state = NULL;
	if (!has_some(c, "undelivered")) {
		state = home_state(c);
		if (home_is_reconciled(c, state) || !has_some(c, "runs"))
			return false;
	}
	return !home_is_locked(c);
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

/* The ledger against the run directories: compared, or made again from them. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#include "base/fs.h"
#include "base/path.h"
#include "ledger/chain_parts.h"
#include "ledger/submissions.h"
#include "spec/id.h"

#define NAMES_MAX 20

void ledger_audit_release(struct ledger_audit *a)
{
	strv_release(&a->names);
}

static int list_both(const struct delivering *d, struct strv *all, struct strv *extra,
		     struct err *err)
{
	CLEANUP_STRV struct strv known = { 0 };
	int r = put_ids(d->ledger, d->home, &known, err);
	if (r >= 0)
		r = id_list(d->config->home, "runs", all, err);
	if (r >= 0)
		ids_minus(&known, all, extra);
	return r;
}

static void name_it(struct ledger_audit *a, const char *id, const char *what)
{
	if (a->names.n < NAMES_MAX)
		strv_addf(&a->names, "%s: %s", id, what);
}

static int check_one(const struct delivering *d, const char *id, struct ledger_audit *a,
		     struct err *err)
{
	static const char empty[] =
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
	CLEANUP_POSTING struct posting e = { 0 };
	struct err why = { 0 };
	char found[HASH_HEX];
	int r = posting_read(d->config, id, &e, &why);
	if (r == -EAGAIN || r == -ENOENT)
		return 0; /* not complete, or removed meanwhile */
	a->runs++;
	if (r < 0) {
		a->unreadable++;
		name_it(a, id, why.text);
		return 0;
	}
	r = put_digest(d->ledger, d->home, id, found, err);
	bool is_same = r >= 0 && str_eq(found, e.record);
	if (is_same)
		is_same = (r = put_has_submitter(d->ledger, d->home, &e, err)) > 0;
	if (r < 0 || is_same)
		return r < 0 ? r : 0;
	bool missing = str_eq(found, empty); /* the digest of no rows */
	a->missing += missing;
	a->different += !missing;
	name_it(a, id, missing ? "not in the ledger" : "the ledger has something else");
	return 0;
}

int ledger_check(const struct config *c, struct ledger_audit *ret, struct err *err)
{
	CLEANUP_LEDGER struct ledger *l = NULL;
	CLEANUP_STRV struct strv all = { 0 };
	CLEANUP_STRV struct strv extra = { 0 };
	CLEANUP_LEDGER_AUDIT struct ledger_audit a = { 0 };
	struct delivering d = { .config = c };
	int r = ledger_open(c, &l, err);
	d.ledger = l;
	if (r >= 0)
		r = l->ops->verify(l, err);
	if (r >= 0)
		r = home_id(c, d.home, err);
	if (r >= 0)
		r = list_both(&d, &all, &extra, err);
	for (size_t i = 0; r >= 0 && i < all.n; i++)
		r = check_one(&d, all.v[i], &a, err);
	if (r >= 0)
		r = totals_compare(l, d.home, &a.totals, err);
	if (r < 0)
		return r;
	a.extra = extra.n;
	for (size_t i = 0; i < extra.n; i++)
		name_it(&a, extra.v[i], "in the ledger, but its directory is gone");
	*ret = a;
	a = (struct ledger_audit){ 0 };
	return 0;
}

static int remove_extra(const struct delivering *d, const struct strv *extra, struct err *err)
{
	CLEANUP_TRANSACTION struct transaction t = { 0 };
	if (extra->n == 0)
		return 0;
	int r = transaction_begin(&t, d->ledger, LEDGER_SHARED, err);
	if (r >= 0)
		r = totals_lock(d->ledger, d->home, err);
	for (size_t i = 0; r >= 0 && i < extra->n; i++)
		r = put_removal(d->ledger, d->home, extra->v[i], err);
	return r < 0 ? r : transaction_commit(&t, err);
}

/* A service has it open, and would go on writing into the file that was set aside. */
static int check_service(const struct config *c, struct err *err)
{
	CLEANUP_FREE char *path = path_join(c->home, "service.lock");
	CLEANUP_FD int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0)
		return 0;
	return err_set(err, ERR_CALLER, EBUSY,
		       "the ledger is damaged, and a service uses it; stop the service first");
}

/* Only our own file: a database that is named elsewhere is somebody's to mend. */
static int set_aside(const struct config *c, struct err *err)
{
	static const char *const suffixes[] = { "-wal", "-shm", "" };
	for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
		CLEANUP_FREE char *from = xasprintf("%s/cupel.db%s", c->home, suffixes[i]);
		CLEANUP_FREE char *to = xasprintf("%s/cupel.db.broken%s", c->home, suffixes[i]);
		if (rename(from, to) < 0 && errno != ENOENT)
			return err_errno(err, "set %s aside", from);
	}
	return 0;
}

/* The queue of a service is nowhere else: what can be read of it is taken over. */
static void salvage(const struct config *c, struct ledger *to)
{
	CLEANUP_LEDGER struct ledger *from = NULL;
	CLEANUP_FREE char *path = path_join(c->home, "cupel.db.broken");
	struct err why = { 0 };
	if (ledger_sqlite_read(path, &from, &why) >= 0)
		(void)submissions_salvage(from, to, &why);
}

static int open_whole(const struct config *c, struct ledger **ret, bool *ret_aside, struct err *err)
{
	CLEANUP_LEDGER struct ledger *l = NULL;
	int r = ledger_open(c, &l, err);
	if (r >= 0)
		r = l->ops->verify(l, err);
	if (r == -EBADMSG && !c->ledger_url) {
		ledger_closep(&l);
		r = check_service(c, err);
		if (r >= 0)
			r = set_aside(c, err);
		*ret_aside = r >= 0;
		if (r >= 0)
			r = ledger_open(c, &l, err);
		if (r >= 0)
			salvage(c, l);
	}
	if (r >= 0)
		*ret = take_ptr(l);
	return r;
}

int ledger_rebuild(const struct config *c, struct ledger_delivery *ret, bool *ret_aside,
		   struct err *err)
{
	CLEANUP_LEDGER struct ledger *l = NULL;
	CLEANUP_STRV struct strv all = { 0 };
	CLEANUP_STRV struct strv extra = { 0 };
	CLEANUP_STRV struct strv owed = { 0 };
	CLEANUP_FD int lock_fd = -1;
	struct ledger_delivery report = { 0 };
	struct delivering d = { .config = c, .compare = PUT_ROWS, .report = &report };
	*ret_aside = false;
	int r = home_lock(c, LEDGER_WAIT, &lock_fd, err);
	if (r >= 0)
		r = open_whole(c, &l, ret_aside, err);
	d.ledger = l;
	if (r >= 0)
		r = home_id_make(c, d.home, err);
	if (r >= 0)
		r = put_home(l, c, d.home, err);
	if (r >= 0)
		r = list_both(&d, &all, &extra, err);
	if (r >= 0)
		r = remove_extra(&d, &extra, err);
	if (r >= 0)
		r = id_list(c->home, "undelivered", &owed, err);
	if (r >= 0)
		deliver_chain_owed(c, &owed, CHAIN_WHOLE, &report);
	if (r >= 0)
		r = chain_uncopy(l, d.home, err);
	if (r >= 0)
		r = deliver_chain(&d, false, err);
	if (r >= 0)
		r = deliver_ids(&d, &all, err);
	if (r >= 0)
		r = totals_rebuild(l, d.home, err);
	if (r >= 0 && !report.failed) /* what failed may have no mark */
		r = put_reconciled(l, d.home, err);
	if (r >= 0)
		home_state_write(c, report.failed ? HOME_AS_BEFORE : HOME_RECONCILED,
				 report.failed ? report.last_error.text : NULL);
	report.gone += extra.n;
	*ret = report;
	return r;
}

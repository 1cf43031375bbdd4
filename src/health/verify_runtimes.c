/* Runtimes against their locks. Those without one were never pinned, and have nothing to differ from. */
#include <errno.h>

#include "base/cleanup.h"
#include "health/verify_parts.h"
#include "runtime/catalog.h"
#include "runtime/fingerprint.h"

#define NAMED_MAX 20 /* of one runtime: the rest is in `cupel runtime check` */

static void name_drifts(struct verifying *v, const struct runtime *r, const struct drifts *d)
{
	static const char *const kinds[] = { "changed", "missing", "added", "package" };
	CLEANUP_FREE char *remedy = xasprintf(
		"mend it (cupel runtime create --replace %s), or if it is right: cupel runtime lock %s",
		r->name, r->name);
	for (size_t i = 0; i < d->n && i < NAMED_MAX; i++) {
		const struct drift *one = &d->v[i];
		CLEANUP_FREE char *where = xasprintf("runtime %s: %s", r->name, one->what);
		verify_found(v, &(struct verify_finding){ kinds[one->kind], where, remedy },
			     "not as it was locked%s%s%s", one->detail ? " (" : "",
			     one->detail ? one->detail : "", one->detail ? ")" : "");
	}
	if (d->n_all > NAMED_MAX)
		verify_found(v, &(struct verify_finding){ "changed", r->name, remedy },
			     "and %llu more: cupel runtime check %s names them",
			     (unsigned long long)(d->n_all - NAMED_MAX), r->name);
}

static void unreadable(struct verifying *v, const char *where, const char *text)
{
	CLEANUP_FREE char *remedy = xasprintf("cupel runtime check %s", where);
	verify_found(v, &(struct verify_finding){ "unreadable", where, remedy }, "%s", text);
}

/* 1 if it is locked. */
static int verify_lock(struct verifying *v, struct runtime *r)
{
	CLEANUP_LOCK struct lock lock = { 0 };
	CLEANUP_DRIFTS struct drifts drifts = { 0 };
	struct fingerprint now = { 0 };
	struct err err = { 0 };
	const struct verify_viewer *viewer = v->q->viewer;
	const struct fingerprint_progress progress = { viewer ? viewer->data : NULL,
						       viewer ? viewer->files : NULL };
	int e = lock_read(r, &lock, &err);
	if (e < 0) {
		unreadable(v, r->name, err.text);
		return 1;
	}
	if (!lock.exists)
		return 0;
	e = runtime_find_root(v->q->config, r, &err);
	if (e == 0) {
		verify_note(v, "an image that is not unpacked here was passed over");
		return 0;
	}
	if (e > 0)
		e = lock_compare(r, v->q->deep ? DEPTH_CONTENT : DEPTH_STAT, &progress, &drifts,
				 &now, &err);
	if (e < 0)
		unreadable(v, r->name, err.text);
	else
		name_drifts(v, r, &drifts);
	return 1;
}

static bool is_shadowed(const struct catalog *c, const char *name)
{
	for (size_t i = 0; i < c->n_faults; i++)
		if (str_eq(c->faults[i].name, name))
			return true;
	return false;
}

void verify_runtimes(struct verifying *v)
{
	CLEANUP_CATALOG struct catalog catalog = { 0 };
	struct err err = { 0 };
	uint64_t locked = 0;
	if (catalog_read(v->q->config, &catalog, &err) < 0) {
		verify_unchecked(v, err.text);
		verify_say(v, "the catalog could not be read: %s", err.text);
		return;
	}
	for (size_t i = 0; i < catalog.n_faults; i++)
		unreadable(v, catalog.faults[i].name, catalog.faults[i].err.text);
	for (size_t i = 0; i < catalog.n; i++)
		if (!is_shadowed(&catalog, catalog.v[i].name))
			locked += (uint64_t)verify_lock(v, &catalog.v[i]);
	unsigned long long known = catalog.n + catalog.n_faults;
	verify_number(v, "runtimes", known);
	verify_number(v, "locked", locked);
	verify_say(v, "%llu runtimes, %llu of them locked%s: %llu differences", known,
		   (unsigned long long)locked, v->q->deep ? ", by content" : "",
		   (unsigned long long)v->found);
}

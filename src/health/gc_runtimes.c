#include "health/gc_runtimes.h"

#include <errno.h>
#include <fcntl.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/str.h"
#include "health/use.h"
#include "runtime/made.h"
#include "runtime/oci.h"

/* The new one is alive: the others are of no use, once nobody runs in them. 0: not yet. */
static int clear_replaced(const struct config *c, const struct making *m, struct err *err)
{
	char id[ID_MAX + 1];
	int used = runtime_in_use(c, m->name, id, err);
	if (used != 0)
		return used < 0 ? used : 0;
	int r = made_clear(m, m->generation, err);
	return r < 0 ? r : 1;
}

/* It never came to an entry: nobody can have used it. */
static int clear_unfinished(const struct making *m, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/%s", m->path, m->generation);
	int r = fs_remove_tree(AT_FDCWD, path, NULL, err);
	return r < 0 ? r : 1;
}

/* 1: nothing is left to do; 0: later. */
static int sweep_one(const struct config *c, const struct making *m, struct err *err)
{
	switch (m->act) {
	case MAKING_CREATE:
		if (!m->generation)
			return 1;
		return made_is_named(m, m->generation, m->entry) ? clear_replaced(c, m, err)
								 : clear_unfinished(m, err);
	case MAKING_REMOVE:
		if (m->entry && access(m->entry, F_OK) == 0)
			return 1; /* it had not begun */
		return fs_remove_tree(AT_FDCWD, m->path, NULL, err) < 0 ? -err->code : 1;
	case MAKING_NOTHING:
		break;
	}
	return 1;
}

void gc_runtimes(const struct config *c, struct gc_report *report)
{
	CLEANUP_STRV struct strv names = { 0 };
	making_names(c->home, &names);
	for (size_t i = 0; i < names.n; i++) {
		CLEANUP_MAKING struct making m = MAKING_INIT;
		struct err err = { 0 };
		int r = making_lock(c->home, names.v[i], &m, &err);
		if (r == -EAGAIN)
			continue;
		if (r >= 0)
			r = sweep_one(c, &m, &err);
		if (r > 0)
			making_done(&m);
		if (r < 0) {
			report->failed++;
			report->last_error = err;
		}
	}
	oci_sweep(c->home);
}

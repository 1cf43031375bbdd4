/* What a runtime brings along: a prefix over the host's /usr, devices, or a tree of its own in place of it. */
#include <errno.h>
#include <string.h>

#include "base/path.h"
#include "box/plan_parts.h"
#include "runtime/rootfs.h"

#define IMAGE_PLACE "/run/cupel/root"

/* The places of a box that are made for it: nothing of the host's is put there. */
static const char *const own_places[] = { "/etc", "/dev", "/proc", "/sys", "/run", "/var/run" };
/* The places of a runtime that has a tree of its own. */
static const char *const tree_places[] = { "/usr",   "/bin",   "/sbin",  "/lib",
					   "/lib32", "/lib64", "/libx32" };

/* Neither what is protected nor cupel's own records, but for what it keeps runtimes in. */
static int check_source(const struct plan_request *q, const char *source, struct err *err)
{
	const struct config *c = q->config;
	const struct runtime *r = q->runtime;
	CLEANUP_FREE char *made = path_join(c->home, "runtimes");
	CLEANUP_FREE char *cache = path_join(c->home, "cache");
	for (size_t i = 0; i < c->protect.n; i++)
		if (path_within(source, c->protect.v[i]) || path_within(c->protect.v[i], source))
			return err_set(
				err, ERR_CALLER, EPERM,
				"runtime '%s' (%s): %s would show the protected path %s; give a narrower one",
				r->name, r->origin, source, c->protect.v[i]);
	if (path_within(c->home, source) ||
	    (path_within(source, c->home) && !path_within(source, made) &&
	     !path_within(source, cache)))
		return err_set(
			err, ERR_CALLER, EPERM,
			"runtime '%s' (%s): %s would show cupel's own records in %s; give a narrower one",
			r->name, r->origin, source, c->home);
	return 0;
}

static int check_target(const struct plan_request *q, const struct plan *p, const char *target,
			struct err *err)
{
	const struct runtime *r = q->runtime;
	bool taken = path_within(p->work_dir, target);
	for (size_t i = 0; i < sizeof own_places / sizeof *own_places; i++)
		taken |= path_within(target, own_places[i]) || str_eq(target, "/var");
	for (size_t i = 0; r->tree && i < sizeof tree_places / sizeof *tree_places; i++)
		taken |= path_within(target, tree_places[i]);
	if (!taken)
		return 0;
	return err_set(
		err, ERR_CALLER, EINVAL,
		"runtime '%s' (%s): %s can't be shown there: that place of a box is made for "
		"it; name another path",
		r->name, r->origin, target);
}

int plan_shown(const struct plan_request *q, struct plan *p, struct err *err)
{
	const struct runtime *r = q->runtime;
	int e = r->root ? check_source(q, r->root, err) : 0;
	for (size_t i = 0; e >= 0 && i < r->shown.n; i++) {
		e = check_source(q, r->shown.v[i].value, err);
		if (e >= 0)
			e = check_target(q, p, r->shown.v[i].key, err);
		if (e >= 0) /* too large to be searched before each run */
			plan_data_bind(q, p, r->shown.v[i].key, r->shown.v[i].value)->is_searched =
				false;
	}
	for (size_t i = 0; e >= 0 && i < r->devices.n; i++) {
		plan_step(p, STEP_DEVICE, r->devices.v[i], r->devices.v[i])->any_kind = true;
		plan_rule(p, r->devices.v[i], ACCESS_DEVICE);
	}
	return e;
}

/* Something of ours is at this place or below it. */
static bool is_taken(const struct plan *p, const char *place)
{
	for (size_t i = 0; i < p->n_steps; i++)
		if (path_within(p->steps[i].target, place))
			return true;
	return false;
}

/* Each entry at its place, unless the box has something of its own there. No path leads through an entry of the tree: the directory is
 * the box's own, and each name in it is new. */
static void plan_list(const struct plan_request *q, struct plan *p, const char *directory,
		      const struct rootfs_list *list)
{
	const struct runtime *r = q->runtime;
	const char *from = r->tree->is_mounted ? IMAGE_PLACE : r->root;
	for (size_t i = 0; i < list->n; i++) {
		const struct rootfs_entry *entry = &list->v[i];
		CLEANUP_FREE char *place = xasprintf("%s/%s", directory, entry->name);
		CLEANUP_FREE char *source = xasprintf("%s%s", from, place);
		if (is_taken(p, place) || str_eq(place, "/lost+found"))
			continue;
		struct step *s = entry->target ? plan_step(p, STEP_LINK, place, entry->target)
					       : plan_step(p, STEP_BIND, place, source);
		s->inside = !entry->target && r->tree->is_mounted;
		if (!entry->target && !s->inside && q->host->is_root)
			s->ids = IDS_UNMAPPED;
	}
}

void plan_tree(const struct plan_request *q, struct plan *p)
{
	const struct rootfs *tree = q->runtime->tree;
	if (!tree)
		return;
	if (tree->is_mounted)
		plan_step(p, STEP_IMAGE, IMAGE_PLACE, q->runtime->prefix);
	plan_list(q, p, "", &tree->top);
	plan_list(q, p, "/etc", &tree->etc);
	plan_list(q, p, "/var", &tree->var);
	if (tree->is_mounted)
		plan_step(p, STEP_DROP, IMAGE_PLACE, NULL);
}

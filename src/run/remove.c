/* Removes a runtime: its catalog entry, and what cupel made for it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/path.h"
#include "health/use.h"
#include "run/check.h"
#include "run/create_parts.h"
#include "run/run.h"
#include "runtime/catalog.h"
#include "spec/id.h"

#define ENTRY_MAX (1 << 20)

void remove_result_release(struct remove_result *r)
{
	free(r->entry);
	free(r->entry_text);
	free(r->lock);
	free(r->place);
	free(r->remaining);
	json_decref(r->said);
	*r = (struct remove_result){ 0 };
}

static int refuse_in_use(const struct config *c, const char *name, struct err *err)
{
	char id[ID_MAX + 1];
	int used = runtime_in_use(c, name, id, err);
	return used <= 0 ? used
			 : err_set(err, ERR_CALLER, EBUSY,
				   "the run '%s' is going on in '%s'; wait for its end or stop it",
				   id, name);
}

/* Where its entry was put when it was made; the usual place otherwise. */
static char *find_entry(const struct making *m, json_t **ret_said, struct err *err)
{
	CLEANUP_STRV struct strv all = { 0 };
	made_generations(m, &all);
	for (size_t i = 0; i < all.n; i++) {
		CLEANUP_JSON json_t *created = NULL;
		if (made_read(m, all.v[i], &created, NULL) < 0)
			continue;
		const char *entry = json_string_value(json_object_get(created, "entry"));
		if (!made_is_named(m, all.v[i], entry))
			continue;
		*ret_said = json_incref(json_object_get(created, "command"));
		return xstrdup(entry);
	}
	return create_entry_path(NULL, m->name, err);
}

/* Is it what the catalog has from this file? */
static bool is_from(const struct runtime *r, const char *entry)
{
	size_t length = strlen(entry);
	return strncmp(r->origin, entry, length) == 0 && r->origin[length] == ':';
}

/* The lock goes with the entry that says where it is: it would speak of another runtime that gets the name. */
static void look_at_lock(const struct runtime *r, struct remove_result *ret)
{
	struct stat st = { 0 };
	if (ret->entry && is_from(r, ret->entry) && lstat(r->lock, &st) == 0)
		ret->lock = xstrdup(r->lock);
}

static int look(const struct making *m, struct remove_result *ret, struct err *err)
{
	struct stat st = { 0 };
	CLEANUP_FREE char *entry = find_entry(m, &ret->said, err);
	if (!entry)
		return -err->code;
	if (lstat(entry, &st) == 0) {
		int r = fs_read_capped(AT_FDCWD, entry, ENTRY_MAX, &ret->entry_text, NULL, err);
		if (r < 0)
			return r;
		ret->entry = take_ptr(entry);
	}
	if (lstat(m->path, &st) == 0)
		ret->place = xstrdup(m->path);
	if (!ret->entry && !ret->place)
		return err_set(
			err, ERR_CALLER, ENOENT,
			"there is nothing to remove of a runtime '%s': neither %s nor %s is there",
			m->name, entry, m->path);
	return 0;
}

static int drop_entry(const char *entry, struct err *err)
{
	const char *last = NULL;
	CLEANUP_FD int dir_fd = fs_open_parent(AT_FDCWD, entry, &last);
	if (dir_fd < 0 || (unlinkat(dir_fd, last, 0) < 0 && errno != ENOENT))
		return err_errno(err, "remove %s", entry);
	return fsync(dir_fd) < 0 ? err_errno(err, "sync the directory of %s", entry) : 0;
}

/* The entry first, so that no run begins; one that began meanwhile gets it back. */
static int drop(const struct config *c, struct making *m, const struct runtime *runtime,
		struct remove_result *found, struct err *err)
{
	struct fs_removed removed = { 0 };
	int r = making_note(m, MAKING_REMOVE, NULL, found->entry, err);
	if (r >= 0 && found->entry)
		r = drop_entry(found->entry, err);
	if (r < 0)
		return r;
	r = refuse_in_use(c, m->name, err);
	if (r < 0) {
		if (found->entry)
			(void)fs_write_atomic(AT_FDCWD, found->entry, found->entry_text,
					      strlen(found->entry_text), 0644, NULL);
		return r;
	}
	if (found->lock)
		r = runtime_unpin(runtime, err);
	if (r >= 0 && found->place)
		r = fs_remove_tree(AT_FDCWD, found->place, &removed, err);
	found->files = removed.files;
	found->bytes = removed.bytes;
	if (r >= 0)
		making_done(m);
	return r;
}

/* What would go, for a dry run. */
static void measure(struct remove_result *found)
{
	CLEANUP_FD int fd = found->place ? open(found->place, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
					 : -1;
	if (fd >= 0)
		(void)fs_tree_usage(fd, 0, 0, &found->bytes, &found->files);
}

/* An entry that this one overrode, a shipped one or one that is built in stays, which whoever removes the name should hear. */
static void look_beneath(const struct config *c, const char *name, struct remove_result *ret)
{
	CLEANUP_RUNTIME struct runtime r = { 0 };
	if (catalog_find(c, name, &r, NULL) >= 0 && !(ret->entry && is_from(&r, ret->entry)))
		ret->remaining = xstrdup(r.origin);
}

int runtime_remove(const struct config *config, const char *name, enum remove_how how,
		   struct remove_result *ret, struct err *err)
{
	CLEANUP_MAKING struct making m = MAKING_INIT;
	CLEANUP(remove_result_release) struct remove_result found = { 0 };
	CLEANUP_RUNTIME struct runtime runtime = { 0 };
	struct gc_report ignored = { 0 };
	int r = id_check_runtime(name, err);
	if (r >= 0)
		r = run_sweep(config, &ignored, err); /* a dead run uses nothing */
	if (r >= 0)
		r = making_lock(config->home, name, &m, err);
	if (r == -EAGAIN)
		return err_set(err, ERR_CALLER, EBUSY,
			       "'%s' is being made or removed by another process", name);
	if (r < 0)
		return r;
	r = look(&m, &found, err);
	if (r >= 0 && catalog_find(config, name, &runtime, NULL) >= 0)
		look_at_lock(&runtime, &found);
	if (r >= 0)
		r = refuse_in_use(config, name, err);
	if (r >= 0 && how == REMOVE_REALLY)
		r = drop(config, &m, &runtime, &found, err);
	else if (r >= 0)
		measure(&found);
	if ((r < 0 || how == REMOVE_DRY_RUN) && m.lock_fd >= 0 && m.act == MAKING_NOTHING)
		making_done(&m);
	if (r < 0)
		return r;
	look_beneath(config, name, &found);
	*ret = found;
	found = (struct remove_result){ 0 };
	return 0;
}

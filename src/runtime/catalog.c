/* The directories of the catalog. A run reads one file: the name's in the directory that counts most. */
#include "runtime/catalog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "runtime/catalog_parts.h"
#include "runtime/kinds.h"
#include "spec/id.h"
#include "spec/show.h"

#define ENDING ".yaml"

void catalog_release(struct catalog *c)
{
	for (size_t i = 0; i < c->n; i++)
		runtime_release(&c->v[i]);
	for (size_t i = 0; i < c->n_faults; i++) {
		free(c->faults[i].file);
		free(c->faults[i].name);
	}
	free(c->v);
	free(c->faults);
	*c = (struct catalog){ 0 };
}

void catalog_dirs(const struct config *config, struct strv *ret)
{
	const char *shipped = getenv("CUPEL_DATA"); /* where it is not installed */
	strv_addf(ret, "%s/runtimes.d", shipped && shipped[0] == '/' ? shipped : CUPEL_DATADIR);
	strv_copy(ret, &config->runtime_dirs);
}

static bool is_project(const struct config *c, const struct strv *dirs, size_t i)
{
	return c->has_project_runtimes && i == dirs->n - 1;
}

/* The first directory is the shipped one: what is there is not for its users to write beside. */
static void move_lock(const struct config *c, size_t i, struct runtime *r)
{
	if (i > 0)
		return;
	free(r->lock);
	r->lock = xasprintf("%s/runtimes/%s/%s.lock", c->home, r->name, r->name);
}

/* 1 if there is such a file and it was read, 0 if there is none. */
static int file_read(const char *directory, const char *name, bool from_project,
		     struct runtime *ret, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/%s" ENDING, directory, name);
	CLEANUP_FREE char *project = from_project ? path_parent(directory) : NULL;
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	int r = config_text(path, from_project ? CONFIG_PROJECT : CONFIG_SYSTEM, &text, &length,
			    err);
	if (r <= 0)
		return r;
	r = entry_parse(path, text, length, project, ret, err);
	if (r < 0)
		return r;
	runtime_settle(ret);
	return 1;
}

static void add_name(struct strv *names, const char *name)
{
	if (!strv_has(names, name))
		strv_add(names, name);
}

/* The names of the entries in one directory. One that is not there has none. */
static int list_names(const char *directory, struct strv *ret, struct err *err)
{
	CLEANUP_DIR DIR *dir = opendir(directory);
	if (!dir)
		return errno == ENOENT || errno == ENOTDIR
			       ? 0
			       : err_errno(err, "read the catalog %s", directory);
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (!str_ends(entry->d_name, ENDING) || entry->d_name[0] == '.')
			continue;
		CLEANUP_FREE char *name =
			xstrndup(entry->d_name, strlen(entry->d_name) - strlen(ENDING));
		add_name(ret, name);
	}
	return 0;
}

static int all_names(const struct strv *dirs, struct strv *ret, struct err *err)
{
	int r = 0;
	strv_add(ret, "base");
	for (size_t i = 0; r >= 0 && i < dirs->n; i++)
		r = list_names(dirs->v[i], ret, err);
	strv_sort(ret);
	return r;
}

static int not_found(const struct strv *dirs, const char *name, struct err *err)
{
	CLEANUP_STRV struct strv names = { 0 };
	CLEANUP_STR struct str known = { 0 };
	char shown[SHOW_ROOM];
	(void)all_names(dirs, &names, NULL);
	for (size_t i = 0; i < names.n; i++)
		str_addf(&known, "%s%s", i ? ", " : "", names.v[i]);
	const char *nearest = str_nearest(name, (const char *const *)names.v, names.n);
	if (access(dirs->v[0], F_OK) < 0)
		str_addf(
			&known,
			"; those that come with cupel are not in %s: `make install` puts them there, CUPEL_DATA names another place",
			dirs->v[0]);
	return err_set(err, ERR_CALLER, ENOENT, "there is no runtime '%s'%s%s%s This host has: %s",
		       show_text(name, shown), nearest ? "; did you mean '" : ".",
		       nearest ? nearest : "", nearest ? "'?" : "", str_text(&known));
}

static int find(const struct config *config, const struct strv *dirs, const char *name,
		struct runtime *ret, struct err *err)
{
	if (id_check(name, NULL) < 0)
		return not_found(dirs, name, err);
	for (size_t i = dirs->n; i-- > 0;) {
		int r = file_read(dirs->v[i], name, is_project(config, dirs, i), ret, err);
		if (r > 0)
			move_lock(config, i, ret);
		if (r != 0)
			return r < 0 ? r : 0;
	}
	if (!str_eq(name, "base"))
		return not_found(dirs, name, err);
	runtime_system(config, ret);
	return 0;
}

int catalog_find(const struct config *config, const char *name, struct runtime *ret,
		 struct err *err)
{
	CLEANUP_STRV struct strv dirs = { 0 };
	catalog_dirs(config, &dirs);
	return find(config, &dirs, name, ret, err);
}

static void add_fault(struct catalog *c, const struct strv *dirs, const char *name,
		      const struct err *err)
{
	c->faults = xreallocarray(c->faults, c->n_faults + 1, sizeof *c->faults);
	struct catalog_fault *fault = &c->faults[c->n_faults++];
	*fault = (struct catalog_fault){ .name = xstrdup(name), .err = *err };
	for (size_t i = dirs->n; i-- > 0 && !fault->file;) {
		CLEANUP_FREE char *path = xasprintf("%s/%s" ENDING, dirs->v[i], name);
		if (access(path, F_OK) == 0)
			fault->file = take_ptr(path);
	}
	if (!fault->file)
		fault->file = xstrdup(name);
}

int catalog_read(const struct config *config, struct catalog *ret, struct err *err)
{
	CLEANUP_CATALOG struct catalog c = { 0 };
	CLEANUP_STRV struct strv dirs = { 0 };
	CLEANUP_STRV struct strv names = { 0 };
	catalog_dirs(config, &dirs);
	int r = all_names(&dirs, &names, err);
	if (r < 0)
		return r;
	c.v = xcalloc(names.n, sizeof *c.v);
	for (size_t i = 0; i < names.n; i++) {
		struct err why = { 0 };
		if (id_check_runtime(names.v[i], &why) >= 0 &&
		    find(config, &dirs, names.v[i], &c.v[c.n], &why) >= 0)
			c.n++;
		else
			add_fault(&c, &dirs, names.v[i], &why);
	}
	*ret = c;
	c = (struct catalog){ 0 };
	return 0;
}

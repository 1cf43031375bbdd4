/* What an entry means on this host, and whether what it names is there. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"
#include "runtime/kinds.h"

/* A path with links in it is shown by both names: programs have the one written into them that they were installed by. */
static void show(struct runtime *r, const char *path)
{
	CLEANUP_FREE char *real = path_real(path);
	const char *source = real ? real : path;
	if (!path_within(path, "/usr") || !path_within(source, "/usr"))
		pairs_set(&r->shown, path, source);
	if (!str_eq(path, source) && !path_within(source, "/usr"))
		pairs_set(&r->shown, source, source);
}

static void resolve(char **path)
{
	char *real = *path ? path_real(*path) : NULL;
	if (!real)
		return;
	free(*path);
	*path = real;
}

void runtime_settle(struct runtime *r)
{
	bool has_prefix = r->kind == RUNTIME_CONDA || r->kind == RUNTIME_VENV;
	if (has_prefix)
		show(r, r->prefix);
	resolve(&r->prefix);
	CLEANUP_FREE char *base = r->kind == RUNTIME_VENV ? venv_base(r->prefix) : NULL;
	if (base)
		show(r, base);
	if (r->kind == RUNTIME_VENV)
		pairs_set(&r->env, "VIRTUAL_ENV", r->prefix);
	for (size_t i = 0; i < r->read_only.n; i++)
		show(r, r->read_only.v[i]);
	if (has_prefix) {
		char *path = xasprintf("%s/bin:%s", r->prefix, r->path);
		free(r->path);
		r->path = path;
	}
	interpreters_complete(r);
}

/* As root the analysis has a uid of its own. */
static int check_readable(const struct runtime *r, const char *path, struct err *err)
{
	struct stat st = { 0 };
	if (stat(path, &st) < 0)
		return err_set(err, ERR_HOST, errno, "%s: %s", path, strerrordesc_np(errno));
	mode_t need = S_ISDIR(st.st_mode) ? 0005 : 0004;
	if (geteuid() != 0 || (st.st_mode & need) == need)
		return 0;
	return err_set(
		err, ERR_HOST, EACCES,
		"analyses run as users of their own and could not read %s (mode %04o). Remedy: install the runtime where "
		"all users may read it (/opt), or run cupel as its owner",
		path, (unsigned)st.st_mode & 07777);
}

/* The text of the entry was looked at when it was read; links may still lead out of the project. */
static int check_project(const struct runtime *r, const char *path, struct err *err)
{
	CLEANUP_FREE char *directory = path_parent(r->origin); /* FILE:LINE */
	CLEANUP_FREE char *said = path_parent(directory);
	CLEANUP_FREE char *project = path_real(said);
	if (!r->from_project || path_within(path, "/usr") ||
	    (project && path_within(path, project)))
		return 0;
	return err_set(
		err, ERR_HOST, EPERM,
		"%s: it would show %s, which is outside the project. Remedy: put the entry into your own runtimes.d, "
		"~/.config/cupel/runtimes.d",
		r->origin, path);
}

static int check_devices(const struct runtime *r, struct err *err)
{
	for (size_t i = 0; i < r->devices.n; i++) {
		struct stat st = { 0 };
		if (lstat(r->devices.v[i], &st) < 0)
			return err_set(err, ERR_HOST, errno, "its device %s: %s", r->devices.v[i],
				       strerrordesc_np(errno));
		if (!S_ISCHR(st.st_mode))
			return err_set(err, ERR_HOST, ENODEV,
				       "its device %s is not a character device", r->devices.v[i]);
	}
	return 0;
}

static int open_parts(const struct config *config, struct runtime *r, struct err *err)
{
	static int (*const by_kind[])(const struct config *, struct runtime *, struct err *) = {
		[RUNTIME_CONDA] = conda_open,
		[RUNTIME_VENV] = venv_open,
		[RUNTIME_ROOTFS] = rootfs_open,
		[RUNTIME_IMAGE] = image_open,
	};
	int e = r->kind == RUNTIME_SYSTEM ? 0 : by_kind[r->kind](config, r, err);
	if (e >= 0 && r->prefix)
		e = check_project(r, r->prefix, err);
	for (size_t i = 0; e >= 0 && i < r->shown.n; i++) {
		e = check_readable(r, r->shown.v[i].value, err);
		if (e >= 0)
			e = check_project(r, r->shown.v[i].value, err);
	}
	return e < 0 ? e : check_devices(r, err);
}

int runtime_open(const struct config *config, struct runtime *r, struct err *err)
{
	int e = r->tree ? 0 : open_parts(config, r, err);
	return e < 0 ? err_wrap(err, "runtime '%s' (%s)", r->name, r->origin) : 0;
}

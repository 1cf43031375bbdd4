/* A conda prefix by the first of micromamba, mamba and conda that is installed. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/path.h"
#include "run/create_parts.h"

#define FILE_MAX_ (16 << 20)

static const char *const programs[] = { "micromamba", "mamba", "conda" };

static int find_program(char **ret_path, const char **ret_name, struct err *err)
{
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		char *path = tool_find(programs[i]);
		if (!path)
			continue;
		*ret_path = path;
		*ret_name = programs[i];
		return 0;
	}
	return err_set(
		err, ERR_HOST, ENOENT,
		"none of micromamba, mamba and conda is on PATH, and Debian has none of them; install one (micromamba is a single file), "
		"or name an existing prefix in a catalog entry of kind conda");
}

/* A list of exact packages, as `conda list --explicit` writes it, has a line of its own that says so. */
static int is_explicit(const char *file, bool *ret, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	int r = fs_read_capped(AT_FDCWD, file, FILE_MAX_, &text, NULL, err);
	if (r < 0)
		return r;
	const char *mark = strstr(text, "@EXPLICIT");
	*ret = mark && (mark == text || mark[-1] == '\n');
	return 0;
}

/* conda and mamba read an environment.yml by `env create`, micromamba by `create`; explicit lists all three by `create`. */
static int add_arguments(const struct creation *c, const char *program, struct strv *argv,
			 struct err *err)
{
	CLEANUP_FREE char *cwd = path_cwd();
	CLEANUP_FREE char *file = c->q->file ? path_normal(cwd, c->q->file) : NULL;
	bool explicit = false;
	int r = file ? is_explicit(file, &explicit, err) : 0;
	if (r < 0)
		return r;
	bool env_create = file && !explicit && !str_eq(program, "micromamba");
	if (env_create)
		strv_add(argv, "env");
	strv_add(argv, "create");
	if (!env_create)
		strv_add(argv, "--yes");
	strv_add(argv, "--prefix");
	strv_add(argv, c->place);
	if (file) {
		strv_add(argv, "--file");
		strv_add(argv, file);
	}
	for (size_t i = 0; i < c->q->channels.n; i++) {
		strv_add(argv, "--channel");
		strv_add(argv, c->q->channels.v[i]);
	}
	strv_copy(argv, &c->q->packages);
	return 0;
}

int create_conda(struct creation *c, struct err *err)
{
	CLEANUP_TOOL struct tool t = { .phase = "install packages" };
	char *path = NULL;
	const char *name = NULL;
	c->place = xasprintf("%s/env", c->dir);
	int r = find_program(&path, &name, err);
	if (r < 0)
		return r;
	strv_take(&t.argv, path);
	r = add_arguments(c, name, &t.argv, err);
	if (r >= 0)
		r = tool_run(c, &t, err);
	if (r < 0)
		return r;
	json_object_set_new(c->notes, "made_by", json_text(name));
	CLEANUP_FREE char *meta = xasprintf("%s/conda-meta", c->place);
	return access(meta, F_OK) < 0 ? err_set(err, ERR_HOST, ENOENT,
						"%s reported success, but made no %s", name, meta)
				      : 0;
}

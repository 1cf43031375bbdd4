/* The catalog entry of a runtime that was made: where it goes and what it says. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/path.h"
#include "run/create_parts.h"
#include "runtime/catalog.h"
#include "runtime/rootfs.h"

#define SYSTEM_FILE "/etc/cupel/cupel.yaml"

/* runtimes.d beside the configuration that is the caller's own: root's is the system's. */
static char *own_dir(const char *cwd)
{
	const char *named = getenv("CUPEL_CONFIG"), *base = getenv("XDG_CONFIG_HOME"),
		   *home = getenv("HOME");
	CLEANUP_FREE char *file = NULL;
	if (geteuid() == 0)
		file = path_normal(cwd, named && *named ? named : SYSTEM_FILE);
	else if (base && *base == '/')
		file = path_join(base, "cupel/cupel.yaml");
	else if (home && *home == '/')
		file = path_join(home, ".config/cupel/cupel.yaml");
	CLEANUP_FREE char *parent = file ? path_parent(file) : NULL;
	return parent ? path_join(parent, "runtimes.d") : NULL;
}

char *create_entry_path(const struct create_request *q, const char *name, struct err *err)
{
	CLEANUP_FREE char *cwd = path_cwd();
	CLEANUP_FREE char *dir = q && q->to ? path_normal(cwd, q->to) : own_dir(cwd);
	if (!dir) {
		(void)err_caller(
			err,
			"neither HOME nor XDG_CONFIG_HOME says where catalog entries go; say --to DIR");
		return NULL;
	}
	return xasprintf("%s/%s.yaml", dir, name);
}

char *create_entry_own(const struct config *c, const char *entry, const char *name)
{
	CLEANUP_STRV struct strv dirs = { 0 };
	CLEANUP_FREE char *parent = path_parent(entry);
	CLEANUP_FREE char *real = path_real(parent);
	struct err unused = { 0 };
	catalog_dirs(c, &dirs);
	for (size_t i = 0; i < dirs.n; i++) {
		CLEANUP_FREE char *one = path_real(dirs.v[i]);
		if (one && str_eq(one, real))
			return NULL;
	}
	return create_entry_path(NULL, name, &unused);
}

/* A JSON string is a YAML string, whatever is in it. */
static void add_text(struct str *s, const char *key, const char *value)
{
	CLEANUP_JSON json_t *text = json_text(value);
	CLEANUP_FREE char *quoted = json_dumps(text, JSON_ENCODE_ANY);
	str_addf(s, "%s: %s\n", key, quoted);
}

static char *summary(const struct create_request *q)
{
	const char *from = q->requirements ? q->requirements
			   : q->wheels     ? q->wheels
			   : q->file       ? q->file
					   : q->layout;
	CLEANUP_STR struct str s = { 0 };
	str_addf(&s, "%s made by cupel", runtime_kind_names[q->kind]);
	if (from)
		str_addf(&s, " from %s", path_base(from));
	for (size_t i = 0; i < q->packages.n && s.length < 100; i++)
		str_addf(&s, "%s%s", i ? ", " : from ? ", " : " of ", q->packages.v[i]);
	return str_visible(s.text);
}

/* An image may have nothing but one program: then only people know what to run. */
static bool image_has_shell(const struct creation *c)
{
	const char *root = json_string_value(json_object_get(c->notes, "unpacked"));
	CLEANUP_FD int fd = root ? open(root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	struct rootfs *tree = NULL;
	struct err unused = { 0 };
	bool has = fd >= 0 && rootfs_read(take_fd(&fd), root, false, &tree, &unused) >= 0 &&
		   rootfs_has_program(tree, "/bin/sh");
	rootfs_free(tree);
	return has;
}

/* The least that shows it is alive; people add what theirs is for. */
static void add_checks(const struct creation *c, struct str *s)
{
	CLEANUP_FREE char *python = xasprintf("%s/bin/python3", c->place);
	const char *head = "checks:\n  - run:\n      name: starts\n      command: ";
	if (c->q->kind == RUNTIME_VENV)
		str_addf(s,
			 "%s[python3, -c, \"import sys; assert sys.prefix != sys.base_prefix\"]\n",
			 head);
	else if (c->q->kind == RUNTIME_ROOTFS || image_has_shell(c))
		str_addf(s, "%s[/bin/sh, -c, \"true\"]\n", head);
	else if (c->q->kind == RUNTIME_CONDA && access(python, X_OK) == 0)
		str_addf(s, "%s[python3, -c, \"import sys\"]\n", head);
}

int entry_write(const struct creation *c, const char *path, struct err *err)
{
	const struct create_request *q = c->q;
	bool prefix = q->kind == RUNTIME_VENV || q->kind == RUNTIME_CONDA;
	CLEANUP_STR struct str s = { 0 };
	CLEANUP_FREE char *made = q->summary ? NULL : summary(q);
	CLEANUP_FREE char *dir = path_parent(path);
	str_addf(&s, "# Made by `cupel runtime create`; `cupel runtime remove %s` removes it.\n",
		 q->name);
	add_text(&s, "name", q->name);
	add_text(&s, "version", q->version ? q->version : "1");
	str_addf(&s, "kind: %s\n", runtime_kind_names[q->kind]);
	add_text(&s, "summary", made ? made : q->summary);
	add_text(&s, prefix ? "prefix" : "root", c->place);
	add_checks(c, &s);
	int r = fs_make_dirs(dir, 0755, err);
	return r < 0 ? r : fs_write_atomic(AT_FDCWD, path, s.text, s.length, 0644, err);
}

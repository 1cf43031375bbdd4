/* Which runtime an analysis gets: the reading around the rules, which are in select_rules.c. */
#include "runtime/select.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/path.h"
#include "runtime/select_parts.h"
#include "spec/caller.h"

/* As much of the file as is looked at. */
static int read_head(const char *path, size_t max, char **ret, size_t *ret_length, struct err *err)
{
	struct stat st = { 0 };
	/* O_NONBLOCK so that a FIFO without a writer does not hold us. */
	CLEANUP_FD int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, ERR_CALLER, errno, "the script %s: %s", path,
			       strerrordesc_np(errno));
	if (!S_ISREG(st.st_mode))
		return runtime_script_odd(path, st.st_mode, err);
	size_t room = (uint64_t)st.st_size < max ? (size_t)st.st_size : max;
	CLEANUP_FREE char *text = xmalloc(room + 1);
	size_t length = 0;
	while (length < room) {
		ssize_t n = read(fd, text + length, room - length);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "read the script %s", path);
		if (n == 0)
			break;
		length += (size_t)n;
	}
	text[length] = '\0';
	*ret = take_ptr(text);
	*ret_length = length;
	return 0;
}

static int read_whole(const char *path, char **ret, size_t *ret_length, struct err *err)
{
	int r = fs_read_capped(AT_FDCWD, path, NOTEBOOK_READ_MAX, ret, ret_length, err);
	return r == -EFBIG ? err_wrap(err, "name a runtime with -r, so that it need not be read")
			   : r;
}

/* What comes with the analysis is imported from beside the script: helper.py, or a directory. */
static void local_names(const struct analysis *a, struct strv *ret)
{
	for (size_t i = 0; i < a->code.n; i++) {
		const char *name = path_base(a->code.v[i]);
		size_t n = strlen(name);
		bool is_module = str_ends(name, ".py");
		strv_take(ret, xstrndup(name, is_module ? n - 3 : n));
	}
}

/* With the rights of whom it is for: what was checked before may be another file by now. */
static int read_text(const struct config *c, const char *path, char **ret, size_t *ret_length,
		     struct err *err)
{
	CLEANUP(caller_leave) struct caller_before before = { 0 };
	int r = caller_enter(c, &before);
	if (r < 0)
		return err_set(err, ERR_CALLER, -r, "the script %s: %s", path, strerrordesc_np(-r));
	return str_ends(path, ".ipynb") ? read_whole(path, ret, ret_length, err)
					: read_head(path, SCRIPT_READ_MAX, ret, ret_length, err);
}

/* The text is not needed once it was read: what a script keeps of it are copies. */
static int read_script(const struct config *c, const struct analysis *a, struct script *ret,
		       struct err *err)
{
	CLEANUP_STRV struct strv local = { 0 };
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	const char *path = a->code.v[0];
	int r = read_text(c, path, &text, &length, err);
	if (r < 0)
		return r;
	local_names(a, &local);
	return script_read(path, text, length, &local, ret, err);
}

static bool in_directory(const char *directory, size_t length, const char *program)
{
	CLEANUP_FREE char *path = xasprintf("%.*s/%s", (int)length, directory, program);
	return access(path, X_OK) == 0;
}

/* Inside a root of its own names are not looked up: links in it would lead astray here. */
static bool has_program(const struct runtime *r, const struct interpreter *i)
{
	if (!i->argv.n || r->kind == RUNTIME_ROOTFS || r->kind == RUNTIME_IMAGE)
		return true;
	const char *program = i->argv.v[0];
	if (strchr(program, '/'))
		return access(program, X_OK) == 0;
	if (r->prefix) {
		CLEANUP_FREE char *bin = path_join(r->prefix, "bin");
		if (in_directory(bin, strlen(bin), program))
			return true;
	}
	for (const char *p = r->path ? r->path : ""; *p;) {
		size_t n = strcspn(p, ":");
		if (n > 0 && in_directory(p, n, program))
			return true;
		p += n + (p[n] == ':');
	}
	return false;
}

static int select_among(const struct config *config, const struct catalog *catalog,
			const struct script *s, struct selection *ret, struct err *err)
{
	struct select_by by = { catalog, config->default_runtime, has_program };
	return select_from(&by, s, ret, err);
}

static int select_all(const struct config *config, const struct script *s, struct selection *ret,
		      struct err *err)
{
	CLEANUP_CATALOG struct catalog catalog = { 0 };
	int r = catalog_read(config, &catalog, err);
	return r < 0 ? r : select_among(config, &catalog, s, ret, err);
}

/* The one that the script names, or else the default, with nothing but its own entry read. */
static int select_one(const struct config *config, const struct script *s, struct selection *ret,
		      struct err *err)
{
	CLEANUP_RUNTIME struct runtime runtime = { 0 };
	const char *named = s->meta.runtime;
	int r = catalog_find(config, named ? named : config->default_runtime, &runtime, err);
	if (r < 0)
		return named ? err_wrap(err, "%s:%d", s->file, s->meta.runtime_line) : r;
	const struct interpreter *i = select_interpreter(&runtime, s);
	if (!named && *s->extension && (!i || !has_program(&runtime, i)))
		return select_all(config, s, ret, err);
	struct catalog one = { .v = &runtime, .n = 1 };
	return select_among(config, &one, s, ret, err);
}

/* Named by the caller: nothing may stand in the way of that, least of all the script's own words. */
static void select_named(const struct config *config, const struct analysis *a,
			 struct selection *ret)
{
	CLEANUP_SCRIPT struct script s = { 0 };
	CLEANUP_RUNTIME struct runtime runtime = { 0 };
	CLEANUP_STR struct str why = { 0 };
	struct err err = { 0 };
	bool by_option = a->runtime_origin ? a->runtime_origin[0] == '-' : !a->file;
	ret->rule = by_option ? RULE_OPTION : RULE_ANALYSIS;
	ret->name = xstrdup(a->runtime);
	str_addf(&why, "%s names it", a->runtime_origin ? a->runtime_origin : "the caller");
	if (!by_option && a->code.n > 0) {
		if (read_script(config, a, &s, &err) < 0)
			str_addf(&why, "; warning: %s", err.text);
		selection_requires(ret, &s.meta);
		if (s.meta.dependencies.n && catalog_find(config, a->runtime, &runtime, NULL) >= 0)
			select_warn(&runtime, &s.meta, &why);
	}
	ret->why = str_visible(str_text(&why));
}

static void select_for_command(const struct config *config, struct selection *ret)
{
	ret->rule = RULE_DEFAULT;
	ret->name = xstrdup(config->default_runtime);
	ret->why = xstrdup("the default; a command is not looked into");
}

int runtime_select(const struct config *config, const struct analysis *a, struct selection *ret,
		   struct err *err)
{
	CLEANUP_SELECTION struct selection sel = { 0 };
	CLEANUP_SCRIPT struct script s = { 0 };
	int r = 0;
	if (a->runtime) {
		select_named(config, a, &sel);
	} else if (!a->code.n) {
		select_for_command(config, &sel);
	} else {
		r = read_script(config, a, &s, err);
		bool open = !s.meta.runtime && (s.needs.n || s.is_notebook);
		if (r >= 0)
			r = open ? select_all(config, &s, &sel, err)
				 : select_one(config, &s, &sel, err);
	}
	if (r < 0)
		return r;
	*ret = sel;
	sel = (struct selection){ 0 };
	return 0;
}

int runtime_suggest(const struct config *config, const struct analysis *a, struct selection *ret,
		    struct err *err)
{
	CLEANUP_SCRIPT struct script s = { 0 };
	if (a->runtime || !a->code.n)
		return runtime_select(config, a, ret, err);
	int r = read_script(config, a, &s, err);
	return r < 0 ? r : select_all(config, &s, ret, err);
}

/* One entry of the catalog from its YAML: a row a key, the first mistake with its place. */
#include <string.h>

#include "base/path.h"
#include "runtime/catalog_parts.h"
#include "runtime/kinds.h"
#include "spec/analysis_reading.h"
#include "spec/id.h"
#include "spec/show.h"

#define GIB (1024ULL * 1024 * 1024)

int entry_path(const struct document *d, const struct node *n, const struct entry *e,
	       const char *key, char **ret, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	char shown[SHOW_ROOM];
	int r = node_string(d, n, &text, err);
	if (r < 0)
		return r;
	CLEANUP_FREE char *path = strlen(text) < 4096 ? path_normal(e->directory, text) : NULL;
	if (!path || strpbrk(path, "\n\r"))
		return node_error(d, n, err, "'%s' is not a usable path; correct it",
				  show_text(text, shown));
	if (e->project && !path_within(path, e->project))
		return node_error(
			d, n, err,
			"%s: %s is outside the project, which a project's entry may not show; put the entry into your own "
			"runtimes.d, ~/.config/cupel/runtimes.d",
			key, show_text(path, shown));
	free(*ret);
	*ret = take_ptr(path);
	return 0;
}

static int paths_read(const struct document *d, const struct node *n, const struct entry *e,
		      const char *key, struct strv *ret, struct err *err)
{
	CLEANUP_STRV struct strv said = { 0 };
	int r = node_strings(d, n, CATALOG_LIST_MAX, &said, err);
	for (size_t i = 0; r >= 0 && i < said.n; i++) {
		char *path = NULL;
		r = entry_path(d, n->values[i], e, key, &path, err);
		if (r >= 0)
			strv_take(ret, path);
	}
	return r;
}

static int label_read(const struct document *d, const struct node *n, char **ret, struct err *err)
{
	char *text = NULL;
	int r = reading_label(d, n, &text, err);
	if (r < 0)
		return r;
	free(*ret);
	*ret = text;
	return 0;
}

READER(read_name)
{
	struct entry *e = target;
	struct err why = { 0 };
	int r = label_read(d, n, &e->r.name, err);
	if (r < 0)
		return r;
	if (id_check(e->r.name, &why) < 0)
		return node_error(
			d, n, err,
			"'%s' is not a name for a runtime; use 1 to %d of A-Z a-z 0-9 . _ -, beginning with a letter or digit",
			e->r.name, ID_MAX);
	CLEANUP_FREE char *file = xasprintf("%s.yaml", e->r.name);
	if (!str_eq(path_base(document_file(d)), file))
		return node_error(
			d, n, err,
			"the runtime '%s' must be in a file of its name; rename the file to %s",
			e->r.name, file);
	return 0;
}

READER(read_version)
{
	return label_read(d, n, &((struct entry *)target)->r.version, err);
}

READER(read_summary)
{
	return label_read(d, n, &((struct entry *)target)->r.summary, err);
}

READER(read_kind)
{
	int word = node_word(d, n, runtime_kind_names, RUNTIME_KIND_COUNT_, err);
	if (word < 0)
		return word;
	((struct entry *)target)->r.kind = (enum runtime_kind)word;
	return 0;
}

READER(read_prefix)
{
	struct entry *e = target;
	return entry_path(d, n, e, "prefix", &e->r.prefix, err);
}

READER(read_root)
{
	struct entry *e = target;
	return entry_path(d, n, e, "root", &e->r.prefix, err);
}

READER(read_path)
{
	struct entry *e = target;
	CLEANUP_STRV struct strv words = { 0 };
	CLEANUP_STR struct str path = { 0 };
	char shown[SHOW_ROOM];
	int r = node_strings(d, n, CATALOG_LIST_MAX, &words, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < words.n; i++) {
		if (words.v[i][0] != '/' || strpbrk(words.v[i], ":\n\r"))
			return node_error(d, n->values[i], err,
					  "'%s' is not an absolute directory without ':'",
					  show_text(words.v[i], shown));
		str_addf(&path, "%s%s", i ? ":" : "", words.v[i]);
	}
	free(e->r.path);
	e->r.path = xstrdup(str_text(&path));
	return 0;
}

READER(read_env)
{
	struct entry *e = target;
	if (n->kind != NODE_MAP || n->n > ANALYSIS_ENV_MAX)
		return node_error(d, n, err, "expected a map of at most %d 'NAME: VALUE'",
				  ANALYSIS_ENV_MAX);
	for (size_t i = 0; i < n->n; i++) {
		CLEANUP_FREE char *value = NULL;
		struct err why = { 0 };
		if (env_name_check(n->keys[i]->text, &why) < 0)
			return node_error(d, n->keys[i], err, "%s", why.text);
		if (str_eq(n->keys[i]->text, "PATH"))
			return node_error(d, n->keys[i], err, "PATH is said as 'path: [...]'");
		int r = node_string(d, n->values[i], &value, err);
		if (r < 0)
			return r;
		pairs_set(&e->r.env, n->keys[i]->text, value);
	}
	return 0;
}

READER(read_limits)
{
	return limits_read(d, n, &((struct entry *)target)->r.limits, err);
}

READER(read_check_limits)
{
	return limits_read(d, n, &((struct entry *)target)->r.check_limits, err);
}

READER(read_read_only)
{
	struct entry *e = target;
	return paths_read(d, n, e, "read_only", &e->r.read_only, err);
}

READER(read_devices)
{
	struct entry *e = target;
	char shown[SHOW_ROOM];
	int r = paths_read(d, n, e, "devices", &e->r.devices, err);
	for (size_t i = 0; r >= 0 && i < e->r.devices.n; i++)
		if (!path_within(e->r.devices.v[i], "/dev"))
			return node_error(d, n->values[i], err, "'%s' is not below /dev",
					  show_text(e->r.devices.v[i], shown));
	return r;
}

READER(read_packages)
{
	return node_strings(d, n, CATALOG_LIST_MAX, &((struct entry *)target)->r.packages, err);
}

READER(read_provides)
{
	return node_strings(d, n, CATALOG_LIST_MAX, &((struct entry *)target)->r.provides, err);
}

READER(read_lock)
{
	struct entry *e = target;
	return entry_path(d, n, e, "lock", &e->r.lock, err);
}

READER(read_executor)
{
	struct entry *e = target;
	int r = node_string(d, n, &e->r.executor, err);
	if (r >= 0 && (!path_name_ok(e->r.executor) || !text_is_label(e->r.executor, 255)))
		return node_error(d, n, err,
				  "not the name of an executor; see cupel executor list");
	return r;
}

static const struct key_row entry_rows[] = {
	{ "name", read_name },
	{ "version", read_version },
	{ "kind", read_kind },
	{ "summary", read_summary },
	{ "prefix", read_prefix },
	{ "root", read_root },
	{ "path", read_path },
	{ "interpreters", entry_interpreters },
	{ "env", read_env },
	{ "limits", read_limits },
	{ "read_only", read_read_only },
	{ "devices", read_devices },
	{ "packages", read_packages },
	{ "provides", read_provides },
	{ "checks", entry_checks },
	{ "check_limits", read_check_limits },
	{ "lock", read_lock },
	{ "executor", read_executor },
};

/* Which of prefix and root a kind has. */
static int place_check(const struct document *d, const struct node *root, enum runtime_kind kind,
		       struct err *err)
{
	static const char *const keys[] = { "prefix", "root" };
	const char *wants = kind == RUNTIME_SYSTEM                          ? NULL
			    : kind == RUNTIME_CONDA || kind == RUNTIME_VENV ? "prefix"
									    : "root";
	for (size_t i = 0; i < 2; i++) {
		const struct node *said = map_get(root, keys[i]);
		if (said && !str_eq(keys[i], wants))
			return node_error(d, said, err, "a runtime of kind %s has no '%s'%s%s%s",
					  runtime_kind_names[kind], keys[i],
					  wants ? "; say it as '" : "", wants ? wants : "",
					  wants ? "'" : "");
	}
	if (wants && !map_get(root, wants))
		return node_error(d, root, err, "a runtime of kind %s needs '%s: PATH'",
				  runtime_kind_names[kind], wants);
	if (kind != RUNTIME_SYSTEM && map_get(root, "packages"))
		return node_error(d, map_get(root, "packages"), err,
				  "packages are those of the host; only a runtime of kind system "
				  "has them");
	return 0;
}

static void complete(const struct document *d, const struct node *root, struct entry *e)
{
	struct runtime *r = &e->r;
	struct limits limits = { 0 };
	limits_set(&limits, LIMIT_MEMORY, GIB, "built-in");
	limits_set(&limits, LIMIT_CPUS, 1000, "built-in");
	limits_set(&limits, LIMIT_TIME, 60 * 1000000000ULL, "built-in");
	limits_merge(&limits, &r->check_limits);
	r->check_limits = limits;
	r->origin = node_origin(d, map_get(root, "name"));
	r->from_project = e->project != NULL;
	if (!r->version)
		r->version = r->kind == RUNTIME_SYSTEM ? system_version() : xstrdup("0");
	if (!r->path)
		r->path = xstrdup(RUNTIME_PATH);
	if (!r->lock)
		r->lock = xasprintf("%s/%s.lock", e->directory, r->name);
	if (!pairs_get(&r->env, "PYTHONUNBUFFERED"))
		pairs_set(&r->env, "PYTHONUNBUFFERED", "1");
}

static void entry_release(struct entry *e)
{
	runtime_release(&e->r);
}

int entry_parse(const char *file, const char *text, size_t length, const char *project,
		struct runtime *ret, struct err *err)
{
	CLEANUP_DOCUMENT struct document *d = NULL;
	CLEANUP_FREE char *cwd = file[0] == '/' ? xstrdup("/") : path_cwd();
	CLEANUP_FREE char *full = cwd ? path_normal(cwd, file) : NULL;
	CLEANUP_FREE char *directory = full ? path_parent(full) : NULL;
	CLEANUP(entry_release) struct entry e = { .directory = directory, .project = project };
	if (!directory)
		return err_caller(err, "%s: not a usable path of a file", file);
	int r = document_parse(file, text, length, &d, err);
	if (r < 0)
		return r;
	const struct node *root = document_root(d);
	if (!root)
		return err_caller(err, "%s: the file is empty; say at least name and kind", file);
	r = map_read(d, root, ROWS(entry_rows), &e, err);
	if (r < 0)
		return r;
	if (!e.r.name)
		return node_error(d, root, err, "a runtime needs 'name: NAME'");
	if (!map_get(root, "kind"))
		return node_error(
			d, root, err,
			"a runtime needs 'kind: KIND', one of system, conda, venv, rootfs, image");
	r = place_check(d, root, e.r.kind, err);
	if (r < 0)
		return r;
	complete(d, root, &e);
	*ret = e.r;
	e.r = (struct runtime){ 0 };
	return 0;
}

int runtime_parse(const char *file, const char *text, size_t length, struct runtime *ret,
		  struct err *err)
{
	return entry_parse(file, text, length, NULL, ret, err);
}

/* The keys of a configuration file: one row each, into the configuration with its origin. */
#include <string.h>

#include "base/path.h"
#include "spec/config_layer.h"
#include "spec/dburl.h"
#include "spec/show.h"

#define PROTECT_MAX 1000
#define PROFILE_MAX 100

void config_say(struct config_layer *layer, const struct document *d, const struct node *n,
		const char *key)
{
	CLEANUP_FREE char *origin = node_origin(d, n);

	pairs_set(layer->origins, key, origin);
}

int config_string(struct config_layer *layer, const struct document *d, const struct node *n,
		  const char *key, char **owned)
{
	char *text = xstrdup(n->text);

	free(*owned);
	*owned = text;
	config_say(layer, d, n, key);
	return 0;
}

void config_list(struct config_layer *layer, const struct document *d, const struct node *n,
		 const char *key, struct strv *said, struct strv *owned)
{
	struct strv old = *owned;

	*owned = *said;
	*said = old;
	config_say(layer, d, n, key);
}

/* A scalar that is one path component: the name of a thing. */
int config_name_check(const struct document *d, const struct node *n, const char *what,
		      struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	char shown[SHOW_ROOM];
	int r = node_string(d, n, &text, err);

	if (r < 0)
		return r;
	if (!path_name_ok(text) || !text_is_label(text, ANALYSIS_LABEL_MAX))
		return node_error(d, n, err, "'%s' is not a usable %s; write one path component",
				  show_text(text, shown), what);
	return 0;
}

/* A path made absolute against the file's directory. */
int config_path_value(const struct document *d, const struct node *n, const char *base, char **ret,
		      struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	char shown[SHOW_ROOM];
	int r = node_string(d, n, &text, err);

	if (r < 0)
		return r;
	CLEANUP_FREE char *path = strlen(text) < 4096 ? path_normal(base, text) : NULL;
	if (!path || strpbrk(path, "\n\r") || (!base && text[0] != '/'))
		return node_error(d, n, err, "'%s' is not a usable path%s", show_text(text, shown),
				  base ? "; correct it" : "; write an absolute one");
	free(*ret);
	*ret = take_ptr(path);
	return 0;
}

static int absolute_path(const struct document *d, const struct node *n, struct config_layer *layer,
			 const char *key, char **owned, struct err *err)
{
	int r = config_path_value(d, n, NULL, owned, err);

	if (r < 0)
		return r;
	config_say(layer, d, n, key);
	return 0;
}

READER(read_home)
{
	struct config_layer *layer = target;

	return absolute_path(d, n, layer, "home", &layer->config->home, err);
}

/* The project's three paths are settled when the whole file is read. */
READER(read_project_root)
{
	struct config_layer *layer = target;

	config_say(layer, d, n, "project.root");
	return config_path_value(d, n, layer->directory, &layer->project_root, err);
}

READER(read_project_data)
{
	struct config_layer *layer = target;

	config_say(layer, d, n, "project.data");
	return node_string(d, n, &layer->project_data, err);
}

READER(read_project_docs)
{
	struct config_layer *layer = target;

	config_say(layer, d, n, "project.docs");
	return node_string(d, n, &layer->project_docs, err);
}

READER(read_project)
{
	static const struct key_row rows[] = { { "root", read_project_root },
					       { "data", read_project_data },
					       { "docs", read_project_docs } };

	return map_read(d, n, ROWS(rows), target, err);
}

static const char *const watch_words[] = { "schema", "rows", "content" };

struct protected
{
	char *what, *level; /* owned */
};

static void protected_release(struct protected *p)
{
	free(p->what);
	free(p->level);
}

READER(read_protected_database)
{
	struct protected *p = target;
	int r = node_string(d, n, &p->what, err);
	if (r >= 0 && !dburl_is(p->what))
		r = node_error(
			d, n, err,
			"expected a database: sqlite:/PATH or postgresql://...; name a path without 'database:'");
	return r;
}

READER(read_protected_watch)
{
	struct protected *p = target;
	int r = node_word(d, n, watch_words, sizeof watch_words / sizeof *watch_words, err);
	if (r < 0)
		return r;
	free(p->level);
	p->level = xstrdup(watch_words[r]);
	return 0;
}

static int read_one_protected(const struct document *d, const struct node *n,
			      struct config_layer *layer, struct err *err)
{
	static const struct key_row rows[] = { { "database", read_protected_database },
					       { "watch", read_protected_watch } };
	CLEANUP(protected_release) struct protected p = { .level = xstrdup("content") };
	int r = n->kind == NODE_MAP ? map_read(d, n, ROWS(rows), &p, err)
				    : node_string(d, n, &p.what, err);
	if (r < 0)
		return r;
	if (!p.what)
		return node_error(d, n, err, "'database' is missing: the database to watch");
	if (layer->source == CONFIG_PROJECT && dburl_is(p.what))
		return node_error(
			d, n, err,
			"a database is the host's to protect, not a project's; move it to "
			"/etc/cupel/cupel.yaml or to your own ~/.config/cupel/cupel.yaml");
	if (str_starts(p.what, "sqlite:") && p.what[strlen("sqlite:")] != '/')
		return node_error(d, n, err, "write an absolute path: sqlite:/PATH");
	strv_take(&layer->protect_at, node_origin(d, n));
	strv_take(&layer->protect, take_ptr(p.what));
	strv_take(&layer->protect_levels, take_ptr(p.level));
	return 0;
}

READER(read_protect)
{
	int r = 0;

	if (n->kind != NODE_LIST)
		return node_error(d, n, err, "expected a list ([a, b])");
	if (n->n > PROTECT_MAX)
		return node_error(d, n, err, "a list of %zu; at most %d are allowed", n->n,
				  PROTECT_MAX);
	for (size_t i = 0; r >= 0 && i < n->n; i++)
		r = read_one_protected(d, n->values[i], target, err);
	return r;
}

static struct profile *profile_get(struct config *c, const char *name)
{
	for (size_t i = 0; i < c->n_profiles; i++) {
		if (str_eq(c->profiles[i].name, name))
			return &c->profiles[i];
	}
	c->profiles = xreallocarray(c->profiles, c->n_profiles + 1, sizeof(c->profiles[0]));
	c->profiles[c->n_profiles] = (struct profile){ .name = xstrdup(name) };
	return &c->profiles[c->n_profiles++];
}

READER(read_profiles)
{
	struct config_layer *layer = target;

	if (n->kind != NODE_MAP)
		return node_error(d, n, err,
				  "expected a map of profiles, such as {NAME: {time: 1h}}");
	for (size_t i = 0; i < n->n; i++) {
		struct limits limits = { 0 };
		int r = config_name_check(d, n->keys[i], "name of a profile", err);
		if (r < 0)
			return r;
		if (layer->config->n_profiles >= PROFILE_MAX)
			return node_error(d, n->keys[i], err, "more than %d profiles", PROFILE_MAX);
		r = limits_read(d, n->values[i], &limits, err);
		if (r < 0)
			return r;
		limits_merge(&profile_get(layer->config, n->keys[i]->text)->limits, &limits);
	}
	return 0;
}

READER(read_work_root)
{
	struct config_layer *layer = target;

	return absolute_path(d, n, layer, "work.root", &layer->config->work_root, err);
}

READER(read_work_template)
{
	struct config_layer *layer = target;
	int r = config_name_check(d, n, "template", err);

	if (r < 0)
		return r;
	const char *first = strstr(n->text, "{id}");
	if (!first || strstr(first + 1, "{id}"))
		return node_error(d, n, err,
				  "the template must have {id} exactly once, such as "
				  "scidex-analysis-{id}");
	/* a name has at most 255 bytes, and an id 64 */
	if (strlen(n->text) - strlen("{id}") + 64 > 255)
		return node_error(d, n, err, "the template is too long; shorten it");
	return config_string(layer, d, n, "work.template", &layer->config->work_template);
}

READER(read_work)
{
	static const struct key_row rows[] = { { "root", read_work_root },
					       { "template", read_work_template } };

	return map_read(d, n, ROWS(rows), target, err);
}

READER(read_defaults_runtime)
{
	struct config_layer *layer = target;
	int r = config_name_check(d, n, "name of a runtime", err);

	if (r < 0)
		return r;
	return config_string(layer, d, n, "defaults.runtime", &layer->config->default_runtime);
}

READER(read_defaults_executor)
{
	struct config_layer *layer = target;
	int r = config_name_check(d, n, "name of an executor", err);

	if (r < 0)
		return r;
	return config_string(layer, d, n, "defaults.executor", &layer->config->default_executor);
}

READER(read_defaults_profile)
{
	struct config_layer *layer = target;
	int r = config_name_check(d, n, "name of a profile", err);

	if (r < 0)
		return r;
	return config_string(layer, d, n, "defaults.profile", &layer->config->default_profile);
}

READER(read_defaults_keep)
{
	struct config_layer *layer = target;
	int word = node_word(d, n, keep_names, KEEP_ALWAYS + 1, err);

	if (word < 0)
		return word;
	layer->config->keep = (enum keep)word;
	config_say(layer, d, n, "defaults.keep");
	return 0;
}

READER(read_defaults_scratch)
{
	struct config_layer *layer = target;
	int word = node_word(d, n, scratch_names, SCRATCH_MEMORY + 1, err);

	if (word < 0)
		return word;
	layer->config->scratch = (enum scratch_place)word;
	config_say(layer, d, n, "defaults.scratch");
	return 0;
}

READER(read_defaults_env_pass)
{
	struct config_layer *layer = target;
	CLEANUP_STRV struct strv names = { 0 };
	int r = node_strings(d, n, ANALYSIS_ENV_MAX, &names, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < names.n; i++) {
		struct err why = { 0 };
		if (env_name_check(names.v[i], &why) < 0)
			return node_error(d, n->values[i], err, "%s", why.text);
	}
	config_list(layer, d, n, "defaults.env_pass", &names, &layer->config->env_pass);
	return 0;
}

READER(read_defaults_limits)
{
	return limits_read(d, n, &((struct config_layer *)target)->config->defaults, err);
}

READER(read_defaults)
{
	static const struct key_row rows[] = {
		{ "runtime", read_defaults_runtime }, { "executor", read_defaults_executor },
		{ "profile", read_defaults_profile }, { "keep", read_defaults_keep },
		{ "scratch", read_defaults_scratch }, { "env_pass", read_defaults_env_pass },
		{ "limits", read_defaults_limits }
	};

	return map_read(d, n, ROWS(rows), target, err);
}

static const struct key_row config_rows[] = {
	{ "home", read_home },
	{ "project", read_project },
	{ "protect", read_protect },
	{ "profiles", read_profiles },
	{ "ceilings", config_read_ceilings },
	{ "aggregate", config_read_aggregate },
	{ "cpu_weight", config_read_cpu_weight },
	{ "work", read_work },
	{ "uids", config_read_uids },
	{ "defaults", read_defaults },
	{ "policy", config_read_policy },
	{ "cgroup", config_read_cgroup },
	{ "disk", config_read_disk },
	{ "ledger", config_read_ledger },
	{ "post_processes", config_read_post_processes },
	{ "gc", config_read_gc },
	{ "quests", config_read_quests },
	{ "service", config_read_service },
	{ "executors", config_read_executors },
};

static int not_a_projects(const struct document *d, const struct node *key, struct err *err)
{
	return node_error(
		d, key, err,
		"'%s' is the host's to say, not a project's; move it to /etc/cupel/cupel.yaml or to your own "
		"~/.config/cupel/cupel.yaml",
		key->text);
}

/* What is the host's to say: a project could otherwise loosen the box that holds its own code, or have the caller's variables passed
 * into it. */
static int host_keys_check(const struct document *d, const struct node *root, struct err *err)
{
	static const char *const host_keys[] = { "home",      "aggregate",      "cpu_weight",
						 "uids",      "policy",         "cgroup",
						 "disk",      "work",           "ledger",
						 "gc",        "post_processes", "service",
						 "executors", "quests" };

	for (size_t i = 0; root && root->kind == NODE_MAP && i < root->n; i++) {
		for (size_t k = 0; k < sizeof(host_keys) / sizeof(host_keys[0]); k++)
			if (str_eq(root->keys[i]->text, host_keys[k]))
				return not_a_projects(d, root->keys[i], err);
		const struct node *defaults = root->values[i];
		if (!str_eq(root->keys[i]->text, "defaults") || defaults->kind != NODE_MAP)
			continue;
		for (size_t k = 0; k < defaults->n; k++)
			if (str_eq(defaults->keys[k]->text, "env_pass"))
				return not_a_projects(d, defaults->keys[k], err);
	}
	return 0;
}

int config_layer_read(struct config_layer *layer, struct err *err)
{
	CLEANUP_DOCUMENT struct document *d = NULL;
	int r = document_parse(layer->file, layer->text, layer->length, &d, err);

	if (r < 0)
		return r;
	const struct node *root = document_root(d);
	r = layer->source == CONFIG_PROJECT ? host_keys_check(d, root, err) : 0;
	if (r < 0)
		return r;
	return map_read(d, root, ROWS(config_rows), layer, err);
}

/* `executors`: where runs may be carried out beside this host. */
#include <string.h>

#include "base/num.h"
#include "spec/config_layer.h"
#include "spec/show.h"

#define EXECUTORS_MAX 100
#define WORDS_MAX     64
#define PATIENCE_NS   (10 * 60 * 1000000000ULL)

const char *const executor_kind_names[] = { [EXECUTOR_LOCAL] = "local",
					    [EXECUTOR_OCI] = "oci",
					    [EXECUTOR_ENGINE] = "engine",
					    [EXECUTOR_SLURM] = "slurm",
					    [EXECUTOR_PROGRAM] = "program" };

enum option_form { FORM_TEXT, FORM_PATH, FORM_WORDS };

/* What each kind can be told. */
static const struct option {
	enum executor_kind kind;
	const char *key;
	enum option_form form;
	bool needed;
} options[] = {
	{ EXECUTOR_OCI, "program", FORM_PATH, true },
	{ EXECUTOR_OCI, "flags", FORM_WORDS, false },
	{ EXECUTOR_ENGINE, "socket", FORM_PATH, true },
	{ EXECUTOR_SLURM, "stage", FORM_PATH, true },
	{ EXECUTOR_SLURM, "partition", FORM_TEXT, false },
	{ EXECUTOR_SLURM, "account", FORM_TEXT, false },
	{ EXECUTOR_SLURM, "qos", FORM_TEXT, false },
	{ EXECUTOR_SLURM, "conf", FORM_PATH, false },
	{ EXECUTOR_SLURM, "commands", FORM_PATH, false },
	{ EXECUTOR_SLURM, "program", FORM_PATH, false },
	{ EXECUTOR_SLURM, "flags", FORM_WORDS, false },
	{ EXECUTOR_PROGRAM, "command", FORM_WORDS, true },
};
#define N_OPTIONS (sizeof options / sizeof options[0])

void executor_settings_release(struct executor_settings *s)
{
	free(s->name);
	free(s->origin);
	pairs_release(&s->options);
	strv_release(&s->words);
	strv_release(&s->allow_missing);
	*s = (struct executor_settings){ 0 };
}
#define CLEANUP_SETTINGS CLEANUP(executor_settings_release)

const struct executor_settings *config_executor(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->n_executors; i++)
		if (str_eq(c->executors[i].name, name))
			return &c->executors[i];
	return NULL;
}

bool config_executor_is_elsewhere(const struct config *c, const char *name)
{
	const struct executor_settings *s = config_executor(c, name ? name : c->default_executor);
	return s && (s->kind == EXECUTOR_SLURM || s->kind == EXECUTOR_PROGRAM);
}

bool config_executor_is_here(const struct config *c, const char *name)
{
	const struct executor_settings *s = config_executor(c, name ? name : c->default_executor);
	return !s || s->kind == EXECUTOR_OCI;
}

static int read_patience(const struct document *d, const struct node *n, uint64_t *ret,
			 struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	struct err why = { 0 };
	int r = node_string(d, n, &text, err);
	if (r >= 0 && num_duration(text, ret, &why) < 0)
		return node_error(d, n, err, "%s", why.text);
	return r;
}

static int read_missing(const struct document *d, const struct node *n, struct strv *ret,
			struct err *err)
{
	struct err why = { 0 };
	int r = node_strings(d, n, layer_count, ret, err);
	for (size_t i = 0; r >= 0 && i < ret->n; i++)
		if (layer_check(ret->v[i], &why) < 0)
			return node_error(d, n->values[i], err, "%s", why.text);
	return r;
}

static int read_option(const struct document *d, const struct node *n, const struct option *o,
		       const char *directory, struct executor_settings *to, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	int r;
	if (o->form == FORM_WORDS) {
		r = node_strings(d, n, WORDS_MAX, &to->words, err);
		return r >= 0 && o->needed && !to->words.n
			       ? node_error(d, n, err, "the list is empty; name a program")
			       : r;
	}
	r = o->form == FORM_PATH ? config_path_value(d, n, directory, &text, err)
				 : node_string(d, n, &text, err);
	if (r >= 0 && (!text[0] || strpbrk(text, "\n\r")))
		return node_error(d, n, err, "'%s' is empty or has several lines; correct it",
				  o->key);
	if (r >= 0)
		pairs_set(&to->options, o->key, text);
	return r;
}

static const struct option *find_option(enum executor_kind kind, const char *key)
{
	for (size_t i = 0; i < N_OPTIONS; i++)
		if (options[i].kind == kind && str_eq(options[i].key, key))
			return &options[i];
	return NULL;
}

static int unknown_option(const struct document *d, const struct node *key, enum executor_kind kind,
			  struct err *err)
{
	CLEANUP_STR struct str known = { 0 };
	char shown[SHOW_ROOM];
	str_add(&known, "kind, allow_missing, patience");
	for (size_t i = 0; i < N_OPTIONS; i++)
		if (options[i].kind == kind)
			str_addf(&known, ", %s", options[i].key);
	return node_error(d, key, err, "an executor of kind %s has no '%s'; it has: %s",
			  executor_kind_names[kind], show_text(key->text, shown), str_text(&known));
}

static int read_keys(const struct document *d, const struct node *n, const char *directory,
		     struct executor_settings *to, struct err *err)
{
	int r = 0;
	for (size_t i = 0; r >= 0 && i < n->n; i++) {
		const char *key = n->keys[i]->text;
		const struct option *o = find_option(to->kind, key);
		if (str_eq(key, "kind"))
			continue;
		if (str_eq(key, "patience"))
			r = read_patience(d, n->values[i], &to->patience_ns, err);
		else if (str_eq(key, "allow_missing"))
			r = read_missing(d, n->values[i], &to->allow_missing, err);
		else if (o)
			r = read_option(d, n->values[i], o, directory, to, err);
		else
			r = unknown_option(d, n->keys[i], to->kind, err);
	}
	for (size_t i = 0; r >= 0 && i < N_OPTIONS; i++)
		if (options[i].kind == to->kind && options[i].needed && !map_get(n, options[i].key))
			return node_error(d, n, err, "an executor of kind %s needs '%s: %s'",
					  executor_kind_names[to->kind], options[i].key,
					  options[i].form == FORM_WORDS ? "[PROGRAM, ...]"
									: "PATH");
	return r;
}

/* A later file's takes the place of an earlier one of that name, as a whole. */
static void add(struct config *c, struct executor_settings *s)
{
	size_t at = 0;
	while (at < c->n_executors && !str_eq(c->executors[at].name, s->name))
		at++;
	if (at == c->n_executors) {
		c->executors =
			xreallocarray(c->executors, c->n_executors + 1, sizeof(c->executors[0]));
		c->executors[c->n_executors++] = (struct executor_settings){ 0 };
	}
	executor_settings_release(&c->executors[at]);
	c->executors[at] = *s;
	*s = (struct executor_settings){ 0 };
}

static int read_executor(const struct document *d, const struct node *name, const struct node *n,
			 struct config_layer *layer, struct err *err)
{
	CLEANUP_SETTINGS struct executor_settings to = { .patience_ns = PATIENCE_NS };
	int r = config_name_check(d, name, "name of an executor", err);
	if (r < 0)
		return r;
	if (str_eq(name->text, "local"))
		return node_error(d, name, err, "'local' is cupel's own; choose another name");
	const struct node *kind = n->kind == NODE_MAP ? map_get(n, "kind") : NULL;
	if (!kind)
		return node_error(d, n, err,
				  "an executor needs 'kind:', one of oci, engine, slurm, program");
	int word = node_word(d, kind, executor_kind_names + 1, EXECUTOR_KIND_COUNT_ - 1, err);
	if (word < 0)
		return word;
	to.kind = (enum executor_kind)(word + 1);
	to.name = xstrdup(name->text);
	to.origin = node_origin(d, name);
	r = read_keys(d, n, layer->directory, &to, err);
	if (r >= 0)
		add(layer->config, &to);
	return r;
}

int config_read_executors(const struct document *d, const struct node *n, void *target,
			  struct err *err)
{
	struct config_layer *layer = target;
	int r = 0;
	if (n->kind != NODE_MAP)
		return node_error(
			d, n, err,
			"expected a map of executors, such as {podman: {kind: engine, socket: /run/podman/podman.sock}}");
	for (size_t i = 0; r >= 0 && i < n->n; i++) {
		if (layer->config->n_executors >= EXECUTORS_MAX)
			return node_error(d, n->keys[i], err, "more than %d executors",
					  EXECUTORS_MAX);
		r = read_executor(d, n->keys[i], n->values[i], layer, err);
	}
	return r;
}

/* A pipeline from its file: all steps are named first, then their shards, then each task is read as an analysis with its own values. */
#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "base/path.h"
#include "flow/parts.h"
#include "spec/parameters.h"
#include "spec/show.h"

#define TOO_LONG                                                                                   \
	"the texts of all runs come to more than 256 MiB; put what is long into a file of code"

struct reader {
	const struct document *d;
	const struct node *steps;
	struct flow *f;
	struct shards *shards; /* owned; one a step */
	json_t *top;           /* owned; parameters of the file with the caller's over them */
	json_t *said;          /* owned; the caller's */
	json_t *used;          /* owned; names of the caller's that mean something */
	size_t n_shards;       /* of all steps so far */
	size_t n_bytes;        /* of all tasks so far */
};

static void reader_release(struct reader *r)
{
	for (size_t i = 0; r->shards && i < r->f->n_steps; i++)
		shards_release(&r->shards[i]);
	free(r->shards);
	json_decref(r->top);
	json_decref(r->said);
	json_decref(r->used);
}

static bool step_name_ok(const char *name)
{
	size_t n = strlen(name);
	for (const char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '_' && *c != '-')
			return false;
	return n > 0 && n <= FLOW_NAME_MAX && isalnum((unsigned char)name[0]);
}

static struct flow_place place_of(const struct node *map, const char *key, struct flow_place other)
{
	const struct node *n = map_get(map, key);
	return n ? (struct flow_place){ n->line, n->column } : other;
}

static int name_steps(struct reader *r, struct err *err)
{
	const struct node *steps = r->steps, *root = document_root(r->d);
	char shown[SHOW_ROOM];
	if (steps->kind != NODE_MAP || steps->n == 0)
		return node_error(r->d, steps, err, "expected a map of steps (NAME: {...})");
	if (steps->n > FLOW_STEPS_MAX)
		return node_error(r->d, steps, err,
				  "%zu steps; at most %d are allowed: scatter one over many values",
				  steps->n, FLOW_STEPS_MAX);
	r->f->steps = xcalloc(steps->n, sizeof *r->f->steps);
	r->f->n_steps = steps->n;
	r->shards = xcalloc(steps->n, sizeof *r->shards);
	for (size_t i = 0; i < steps->n; i++) {
		const struct node *key = steps->keys[i], *map = steps->values[i];
		struct flow_step *s = &r->f->steps[i];
		if (!step_name_ok(key->text))
			return node_error(
				r->d, key, err,
				"'%s' can't be the name of a step: 1 to %d of A-Z a-z 0-9 _ -, a letter or digit first",
				show_text(key->text, shown), FLOW_NAME_MAX);
		if (map->kind != NODE_MAP)
			return node_error(
				r->d, map, err,
				"expected the keys of the step (command: ...), indented below its name");
		s->name = xstrdup(key->text);
		s->of = i;
		s->cache = true;
		s->at[FLOW_AT_NAME] = (struct flow_place){ key->line, key->column };
		s->at[FLOW_AT_RUNTIME] =
			place_of(map, "runtime", place_of(root, "runtime", s->at[FLOW_AT_NAME]));
		s->at[FLOW_AT_LIMITS] =
			place_of(map, "limits", place_of(root, "limits", s->at[FLOW_AT_NAME]));
		s->at[FLOW_AT_COMMAND] =
			place_of(map, "command", place_of(map, "code", s->at[FLOW_AT_NAME]));
	}
	return 0;
}

/* Counted as they come, not once all of them are there. */
static int count_shards(struct reader *r, size_t n, struct err *err)
{
	r->n_shards += n;
	return r->n_shards > FLOW_TASKS_MAX
		       ? node_error(r->d, r->steps, err, "more than %d runs in all", FLOW_TASKS_MAX)
		       : 0;
}

/* What a step says once for all of its shards. */
static int read_step(struct reader *r, size_t i, struct err *err)
{
	const struct node *map = r->steps->values[i];
	struct flow_step *s = &r->f->steps[i];
	const struct node *summary = map_get(map, "summary"), *cache = map_get(map, "cache");
	const struct node *retries = map_get(map, "retries"), *scatter = map_get(map, "scatter");
	const struct node *given = map_get(map, "parameters");
	int e = summary ? node_string(r->d, summary, &s->summary, err) : 0;
	if (e >= 0 && cache)
		e = step_read_cache(r->d, cache, &s->cache, err);
	if (e >= 0 && retries)
		e = flow_retries_read(r->d, retries, s->retries, err);
	if (e >= 0 && given && given->kind == NODE_LIST)
		e = node_strings(r->d, given, ANALYSIS_ENV_MAX, &s->given, err);
	for (size_t k = 0; e >= 0 && given && k < s->given.n; k++)
		if (!json_object_get(r->top, s->given.v[k]))
			e = node_error(r->d, given->values[k], err,
				       "there is no parameter '%.60s' at the top of the file",
				       s->given.v[k]);
	if (e >= 0 && scatter) {
		assert(r->shards); /* name_steps has made them */
		s->scattered = true;
		e = scatter_read(r->d, scatter, r->f->base, r->top, &r->shards[i], err);
		if (e >= 0 && r->shards[i].of)
			e = step_named(r->d, r->shards[i].of, r->f, &s->of, err);
	}
	return e < 0 ? e : count_shards(r, s->scattered ? r->shards[i].n : 1, err);
}

/* The shards of another step, under a name of one's own. */
static void take_shards(struct reader *r, size_t to, size_t from)
{
	struct shards *mine = &r->shards[to];
	const struct shards *other = &r->shards[from];
	const char *variable = mine->variables.v[0];
	mine->v = xcalloc(other->n, sizeof *mine->v);
	mine->n = other->n;
	for (size_t i = 0; i < other->n; i++) {
		json_t *only = other->variables.n == 1
				       ? json_object_get(other->v[i].values, other->variables.v[0])
				       : NULL;
		mine->v[i].name = xstrdup(other->v[i].name);
		mine->v[i].values = json_copy(other->v[i].values);
		if (only)
			json_object_set(mine->v[i].values, variable, only);
		else
			json_object_set_new(mine->v[i].values, variable,
					    json_text(other->v[i].name));
	}
}

static int follow_shards(struct reader *r, struct err *err)
{
	struct flow *f = r->f;
	for (size_t round = 0, left = 1; left; round++) {
		left = 0;
		for (size_t i = 0; i < f->n_steps; i++) {
			size_t of = f->steps[i].of;
			if (!r->shards[i].of || r->shards[i].n)
				continue;
			if (!f->steps[of].scattered || of == i)
				return node_error(
					r->d, r->shards[i].of, err,
					"the step '%s' has no 'scatter', so there are no shards of it to "
					"follow; leave out this 'scatter' and name its output under "
					"'inputs', or give '%s' a 'scatter'",
					f->steps[of].name, f->steps[of].name);
			int e = count_shards(r, r->shards[of].n, err);
			if (e < 0)
				return e;
			if (r->shards[of].n)
				take_shards(r, i, of);
			else
				left++;
			if (round > f->n_steps)
				return node_error(r->d, r->shards[i].of, err,
						  "the steps take their shards from each other");
		}
	}
	return 0;
}

/* What the file says for all steps, where the step itself does not. */
static void lay_under(struct analysis *a, const struct analysis *all)
{
	struct limits limits = all->limits;
	if (!a->runtime && all->runtime) {
		a->runtime = xstrdup(all->runtime);
		a->runtime_origin = xstrdup(all->runtime_origin);
	}
	if (!a->profile && all->profile)
		a->profile = xstrdup(all->profile);
	if (!a->executor && all->executor)
		a->executor = xstrdup(all->executor);
	if (a->command_is_text && !a->shell.n)
		strv_copy(&a->shell, &all->shell);
	if (all->quest)
		a->quest = xstrdup(all->quest);
	limits_merge(&limits, &a->limits);
	a->limits = limits;
	for (size_t i = 0; i < all->env.n; i++)
		if (!pairs_get(&a->env, all->env.v[i].key))
			pairs_set(&a->env, all->env.v[i].key, all->env.v[i].value);
	for (size_t i = 0; i < all->labels.n; i++)
		if (!pairs_get(&a->labels, all->labels.v[i].key))
			pairs_set(&a->labels, all->labels.v[i].key, all->labels.v[i].value);
	strv_copy(&a->allow_missing, &all->allow_missing);
	a->allow_drift |= all->allow_drift;
	if (!a->network_said && all->network_said)
		a->network = all->network;
	a->network_said |= all->network_said;
	if (!a->keep_said && all->keep_said)
		a->keep = all->keep;
	a->keep_said |= all->keep_said;
	if (!a->scratch_said && all->scratch_said)
		a->scratch = all->scratch;
	a->scratch_said |= all->scratch_said;
	if (!a->warn_signal)
		a->warn_signal = all->warn_signal;
}

static void lay_over(struct reader *r, json_t *values, const json_t *own)
{
	const char *name;
	json_t *value;
	json_object_foreach(r->said, name, value) if (json_object_get(own, name))
	{
		json_object_set(values, name, value);
		json_object_set_new(r->used, name, json_true());
	}
}

/* The parameters that a task is given: those it names, its own, and its place in the scatter. */
static void give_parameters(struct reader *r, const struct flow_step *s, const struct shard *shard,
			    struct analysis *a)
{
	CLEANUP_JSON json_t *given = json_object();
	CLEANUP_JSON json_t *own = parameters_json(a->parameters);
	for (size_t i = 0; i < s->given.n; i++)
		json_object_set(given, s->given.v[i], json_object_get(r->top, s->given.v[i]));
	json_object_update(given, own);
	lay_over(r, given, own);
	if (shard)
		json_object_update(given, shard->values);
	free(a->parameters);
	a->parameters = json_object_size(given) ? parameters_text(given) : NULL;
}

static int read_task(struct reader *r, size_t step, const struct shard *shard, const json_t *own,
		     struct flow_task *task, struct err *err)
{
	CLEANUP_CLONES struct clones clones = { 0 };
	CLEANUP_JSON json_t *values = json_copy(r->top);
	const struct flow_step *s = &r->f->steps[step];
	const struct node *map = NULL;
	json_object_update(values, (json_t *)own);
	lay_over(r, values, own);
	if (shard)
		json_object_update(values, shard->values);
	task->step = step;
	task->shard = shard ? xstrdup(shard->name) : NULL;
	task->label = shard ? xasprintf("%s[%s]", s->name, shard->name) : xstrdup(s->name);
	int e = template_node(&clones, r->d, r->steps->values[step], values, &map, err);
	if (e >= 0)
		e = analysis_read_map(r->d, map, r->f->base, ANALYSIS_STEP, &task->analysis, err);
	if (e >= 0)
		e = sources_read(r->d, map_get(map, "inputs"), r->f, task, err);
	if (e < 0)
		return e;
	lay_under(&task->analysis, &r->f->defaults);
	give_parameters(r, s, shard, &task->analysis);
	task->analysis.name = xstrdup(task->label);
	r->n_bytes += flow_task_bytes(task);
	return r->n_bytes > FLOW_TEXTS_MAX ? node_error(r->d, r->steps->keys[step], err, TOO_LONG)
					   : 0;
}

static int own_parameters(struct reader *r, size_t step, json_t **ret, struct err *err)
{
	const struct node *map = map_get(r->steps->values[step], "parameters");
	if (map && map->kind == NODE_MAP)
		return node_json(r->d, map, ret, err);
	*ret = json_object();
	return 0;
}

static int read_tasks(struct reader *r, struct err *err)
{
	struct flow *f = r->f;
	size_t total = 0;
	for (size_t i = 0; i < f->n_steps; i++)
		total += f->steps[i].scattered ? r->shards[i].n : 1;
	f->tasks = xcalloc(total, sizeof *f->tasks);
	for (size_t i = 0; i < f->n_steps; i++) {
		struct flow_step *s = &f->steps[i];
		CLEANUP_JSON json_t *own = NULL;
		int e = own_parameters(r, i, &own, err);
		if (e < 0)
			return e;
		s->first = f->n_tasks;
		s->n_tasks = s->scattered ? r->shards[i].n : 1;
		strv_copy(&s->variables, &r->shards[i].variables);
		for (size_t k = 0; k < s->n_tasks; k++) {
			f->n_tasks++; /* also if it fails half-way: it is released */
			e = read_task(r, i, s->scattered ? &r->shards[i].v[k] : NULL, own,
				      &f->tasks[s->first + k], err);
			if (e < 0)
				return e;
		}
	}
	return 0;
}

/* A parameter that nothing has is a typing mistake. */
static int check_said(struct reader *r, struct err *err)
{
	const char *name;
	json_t *value;
	json_object_foreach(r->said, name, value)
	{
		if (!json_object_get(r->top, name) && !json_object_get(r->used, name))
			return err_caller(err, "--param %s: %s has no parameter of that name", name,
					  r->f->file);
	}
	return 0;
}

static int read_all(struct reader *r, struct err *err)
{
	struct flow *f = r->f;
	int e = analysis_read_map(r->d, document_root(r->d), f->base, ANALYSIS_PIPELINE,
				  &f->defaults, err);
	if (e < 0)
		return e;
	r->top = parameters_json(f->defaults.parameters);
	lay_over(r, r->top, r->top);
	free(f->defaults.parameters);
	f->defaults.parameters = json_object_size(r->top) ? parameters_text(r->top) : NULL;
	e = name_steps(r, err);
	if (e < 0 || !r->shards)
		return e;
	for (size_t i = 0; e >= 0 && i < f->n_steps; i++)
		e = read_step(r, i, err);
	if (e >= 0)
		e = follow_shards(r, err);
	if (e >= 0)
		e = read_tasks(r, err);
	if (e >= 0)
		e = check_said(r, err);
	return e < 0 ? e : graph_link(r->d, r->steps, f, err);
}

int flow_parse(const char *path, const char *text, size_t length, const char *parameters,
	       struct flow *ret, struct err *err)
{
	CLEANUP_DOCUMENT struct document *d = NULL;
	CLEANUP_FLOW struct flow f = { 0 };
	CLEANUP(reader_release)
	struct reader r = { .f = &f, .said = parameters_json(parameters), .used = json_object() };
	int e = document_parse(path, text, length, &d, err);
	if (e < 0)
		return e;
	const struct node *root = document_root(d);
	f.file = xstrdup(path);
	f.base = analysis_base(path);
	f.said = parameters ? xstrdup(parameters) : NULL;
	hash_bytes(text, length, f.sha256);
	r.d = d;
	r.steps = root && root->kind == NODE_MAP ? map_get(root, "steps") : NULL;
	if (!f.base || !r.steps)
		return err_caller(err, "%s: not the file of a pipeline: it has no 'steps'", path);
	e = read_all(&r, err);
	if (e < 0)
		return e;
	reader_release(&r);
	r = (struct reader){ .f = ret };
	*ret = f;
	f = (struct flow){ 0 };
	return 0;
}

bool flow_is(const char *path)
{
	CLEANUP_FREE char *text = NULL;
	CLEANUP_DOCUMENT struct document *d = NULL;
	struct err unused = { 0 };
	size_t length = 0;
	/* Most files are none: the word alone tells, before anything is parsed. */
	if (analysis_text(path, &text, &length, &unused) < 0 || !strstr(text, "steps"))
		return false;
	return document_parse(path, text, length, &d, &unused) >= 0 && document_root(d) &&
	       document_root(d)->kind == NODE_MAP && map_get(document_root(d), "steps");
}

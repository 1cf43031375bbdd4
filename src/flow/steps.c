/* The keys of a step that only pipelines have: retries, and inputs that other steps make. */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "base/path.h"
#include "flow/parts.h"
#include "spec/parameters.h"
#include "spec/show.h"

/* Causes that another attempt may not meet, and the limit that was reached if it was one. */
static const struct {
	enum cause cause;
	int limit; /* -1: none */
} retried[] = {
	{ CAUSE_OOM, LIMIT_MEMORY },   { CAUSE_DEADLINE, LIMIT_TIME },
	{ CAUSE_CPU, LIMIT_CPU_TIME }, { CAUSE_DISK, LIMIT_DISK },
	{ CAUSE_PIDS, LIMIT_PIDS },    { CAUSE_EXIT, -1 },
	{ CAUSE_SIGNAL, -1 },          { CAUSE_LOST, -1 },
	{ CAUSE_INPUT_CHANGED, -1 },   { CAUSE_OUTPUT_MISSING, -1 },
	{ CAUSE_OUTPUT_INVALID, -1 },
};
#define RETRIED    (sizeof retried / sizeof *retried)
#define TIMES_MAX  100
#define FACTOR_MAX 1000
#define NAMES_ROOM 256

static int times_read(const struct document *d, const struct node *n, unsigned *ret,
		      struct err *err)
{
	CLEANUP_JSON json_t *value = NULL;
	int r = node_json(d, n, &value, err);
	if (r < 0)
		return r;
	json_int_t times = json_integer_value(value);
	if (!json_is_integer(value) || times < 0 || times > TIMES_MAX)
		return node_error(d, n, err, "expected how often to try again: 0 to %d", TIMES_MAX);
	*ret = (unsigned)times;
	return 0;
}

static int factor_read(const struct document *d, const struct node *n, double *ret, struct err *err)
{
	CLEANUP_JSON json_t *value = NULL;
	int r = node_json(d, n, &value, err);
	if (r < 0)
		return r;
	double factor = json_number_value(value);
	if (!json_is_number(value) || !(factor >= 1) || factor > FACTOR_MAX)
		return node_error(d, n, err,
				  "expected by how much the limit grows: 1 to %d, such as 2 or 1.5",
				  FACTOR_MAX);
	*ret = factor;
	return 0;
}

struct retry_map {
	struct flow_retry *retry;
	int limit;
};

static int read_times(const struct document *d, const struct node *n, void *target, struct err *err)
{
	return times_read(d, n, &((struct retry_map *)target)->retry->times, err);
}

static int read_factor(const struct document *d, const struct node *n, void *target,
		       struct err *err)
{
	struct retry_map *to = target;
	if (to->limit < 0)
		return node_error(d, n, err,
				  "no limit is reached by this cause: leave the factor out");
	return factor_read(d, n, &to->retry->factor, err);
}

static int read_max(const struct document *d, const struct node *n, void *target, struct err *err)
{
	struct retry_map *to = target;
	CLEANUP_FREE char *text = NULL;
	struct err why = { 0 };
	if (to->limit < 0)
		return node_error(d, n, err, "no limit is reached by this cause: leave max out");
	int r = node_string(d, n, &text, err);
	if (r >= 0 && limit_parse((enum limit_id)to->limit, text, &to->retry->max, &why) < 0)
		r = node_error(d, n, err, "%s", why.text);
	return r;
}

static int retry_read(const struct document *d, const struct node *n, int limit,
		      struct flow_retry *ret, struct err *err)
{
	static const struct key_row rows[] = { { "times", read_times },
					       { "factor", read_factor },
					       { "max", read_max } };
	struct flow_retry retry = { .times = 1, .factor = limit >= 0 ? 2 : 1 };
	struct retry_map to = { .retry = &retry, .limit = limit };
	int r = n->kind == NODE_MAP ? map_read(d, n, rows, sizeof rows / sizeof *rows, &to, err)
				    : times_read(d, n, &retry.times, err);
	if (r >= 0)
		*ret = retry;
	return r;
}

int step_read_retries(const struct document *d, const struct node *map,
		      struct flow_retry ret[CAUSE_COUNT_], struct err *err)
{
	char shown[SHOW_ROOM];
	if (map->kind != NODE_MAP)
		return node_error(
			d, map, err,
			"expected {CAUSE: TIMES} or {CAUSE: {times: N, factor: F, max: LIMIT}}");
	for (size_t i = 0; i < map->n; i++) {
		size_t k = 0;
		while (k < RETRIED && !str_eq(cause_name(retried[k].cause), map->keys[i]->text))
			k++;
		if (k == RETRIED) {
			CLEANUP_STR struct str known = { 0 };
			for (size_t j = 0; j < RETRIED; j++)
				str_addf(&known, "%s%s", j ? ", " : "",
					 cause_name(retried[j].cause));
			return node_error(d, map->keys[i], err,
					  "'%s' is no cause to try again for; there are %s",
					  show_text(map->keys[i]->text, shown), known.text);
		}
		int r = retry_read(d, map->values[i], retried[k].limit, &ret[retried[k].cause],
				   err);
		if (r < 0)
			return r;
	}
	return 0;
}

int step_read_cache(const struct document *d, const struct node *n, bool *ret, struct err *err)
{
	static const char *const words[] = { "off", "on" };
	int word = node_word(d, n, words, 2, err);
	if (word < 0)
		return word;
	*ret = word == 1;
	return 0;
}

int flow_retry_limit(enum cause cause)
{
	for (size_t i = 0; i < RETRIED; i++)
		if (retried[i].cause == cause)
			return retried[i].limit;
	return -1;
}

int step_named(const struct document *d, const struct node *n, const struct flow *f, size_t *ret,
	       struct err *err)
{
	CLEANUP_FREE char *name = NULL;
	char shown[SHOW_ROOM];
	int r = node_string(d, n, &name, err);
	if (r < 0)
		return r;
	ssize_t index = flow_find(f, name);
	if (index >= 0) {
		*ret = (size_t)index;
		return 0;
	}
	CLEANUP_FREE const char **names = xcalloc(f->n_steps, sizeof *names);
	for (size_t i = 0; i < f->n_steps; i++)
		names[i] = f->steps[i].name;
	const char *near = str_nearest(name, names, f->n_steps);
	return node_error(d, n, err, "there is no step '%s'%s%s%s", show_text(name, shown),
			  near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

struct source_map {
	const struct flow *f;
	struct flow_source source;
	bool has_step, gather;
};

static int read_source_step(const struct document *d, const struct node *n, void *target,
			    struct err *err)
{
	struct source_map *to = target;
	to->has_step = true;
	return step_named(d, n, to->f, &to->source.step, err);
}

static int read_source_path(const struct document *d, const struct node *n, void *target,
			    struct err *err)
{
	struct source_map *to = target;
	struct err why = { 0 };
	int r = node_string(d, n, &to->source.path, err);
	if (r >= 0 && output_pattern_check(to->source.path, &why) < 0)
		r = node_error(d, n, err, "%s", why.text);
	return r;
}

static int read_source_name(const struct document *d, const struct node *n, void *target,
			    struct err *err)
{
	struct source_map *to = target;
	char shown[SHOW_ROOM];
	int r = node_string(d, n, &to->source.name, err);
	if (r >= 0 && !path_name_ok(to->source.name))
		r = node_error(d, n, err, "'%s' is not a name of one path component",
			       show_text(to->source.name, shown));
	return r;
}

static int read_source_gather(const struct document *d, const struct node *n, void *target,
			      struct err *err)
{
	return node_bool(d, n, &((struct source_map *)target)->gather, err);
}

static int source_read(const struct document *d, const struct node *n, const struct flow *f,
		       struct flow_task *task, struct err *err)
{
	static const struct key_row rows[] = { { "step", read_source_step },
					       { "path", read_source_path },
					       { "name", read_source_name },
					       { "gather", read_source_gather } };
	struct source_map map = { .f = f };
	int r = map_read(d, n, rows, sizeof rows / sizeof *rows, &map, err);
	if (r < 0) {
		free(map.source.path);
		free(map.source.name);
		return r;
	}
	const struct flow_step *own = &f->steps[task->step];
	map.source.matched = own->scattered && own->of == map.source.step &&
			     own->of != task->step && !map.gather;
	map.source.origin = xasprintf("%s:%d:%d", document_file(d), n->line, n->column);
	task->sources = xreallocarray(task->sources, task->n_sources + 1, sizeof *task->sources);
	task->sources[task->n_sources++] = map.source;
	return 0;
}

int sources_read(const struct document *d, const struct node *inputs, const struct flow *f,
		 struct flow_task *task, struct err *err)
{
	int r = 0;
	for (size_t i = 0; r >= 0 && inputs && i < inputs->n; i++)
		if (inputs->values[i]->kind == NODE_MAP && map_get(inputs->values[i], "step"))
			r = source_read(d, inputs->values[i], f, task, err);
	return r;
}

/* The keys of a step that only pipelines have: whether it is kept, and inputs that other steps make. */
#include <string.h>

#include "base/num.h"
#include "base/path.h"
#include "flow/parts.h"
#include "spec/parameters.h"
#include "spec/show.h"

int step_read_cache(const struct document *d, const struct node *n, bool *ret, struct err *err)
{
	static const char *const words[] = { "off", "on" };
	int word = node_word(d, n, words, 2, err);
	if (word < 0)
		return word;
	*ret = word == 1;
	return 0;
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

#include "flow/link.h"

#include <string.h>

#include "collect/outputs.h"

struct linking {
	const struct flow *f;
	const char *home;
	const struct flow_made *made;
	struct flow_task *task;
	const struct flow_source *source;
	size_t found;
};

static void drop_links(struct analysis *a)
{
	size_t kept = 0;
	for (size_t i = 0; i < a->n_inputs; i++) {
		struct input *in = &a->inputs[i];
		if (!in->step) {
			a->inputs[kept++] = *in;
			continue;
		}
		free(in->path);
		free(in->name);
		free(in->origin);
		free(in->step);
	}
	a->n_inputs = kept;
}

/* One file, or all outputs of a run if `path` is NULL. */
static void add(struct linking *l, size_t from, const char *path, char *name)
{
	struct input in = { .path = xasprintf("%s/runs/%s/outputs%s%s", l->home, l->made[from].run,
					      path ? "/" : "", path ? path : ""),
			    .name = name,
			    .origin = xstrdup(l->source->origin),
			    .step = xstrdup(l->f->tasks[from].label),
			    .is_own = true };
	analysis_add_input(&l->task->analysis, &in);
	l->found++;
}

static void add_of(struct linking *l, size_t from, bool alone)
{
	const struct flow_source *s = l->source;
	const char *base = flow_source_name(l->f, s), *shard = l->f->tasks[from].shard;
	const struct strv *outputs = &l->made[from].outputs;
	CLEANUP_FREE char *below = alone ? xstrdup(base) : xasprintf("%s/%s", base, shard);
	if (!s->path && outputs->n)
		add(l, from, NULL, xstrdup(below));
	size_t n = s->path ? strlen(s->path) : 0;
	for (size_t i = 0; s->path && i < outputs->n; i++) {
		const char *rest = str_starts(outputs->v[i], s->path) ? outputs->v[i] + n : "";
		if (alone && *rest == '/') { /* a directory, as a whole */
			add(l, from, s->path, xstrdup(base));
			break;
		}
		if (alone && str_eq(s->path, outputs->v[i]))
			add(l, from, s->path, xstrdup(base));
		else if (outputs_match(s->path, outputs->v[i]))
			add(l, from, outputs->v[i], xasprintf("%s/%s", below, outputs->v[i]));
	}
}

static int link_source(struct linking *l, struct err *err)
{
	const struct flow_source *s = l->source;
	const struct flow_step *from = &l->f->steps[s->step];
	if (s->matched) {
		size_t own = (size_t)(l->task - l->f->tasks) - l->f->steps[l->task->step].first;
		add_of(l, from->first + own, true);
	} else {
		for (size_t i = 0; i < from->n_tasks; i++)
			add_of(l, from->first + i, !from->scattered);
	}
	if (!l->found)
		return err_caller(err, "%s: the step %s made nothing that is '%s'", s->origin,
				  from->name, s->path ? s->path : "an output");
	if (l->task->analysis.n_inputs > ANALYSIS_INPUTS_MAX)
		return err_caller(err, "%s: more than %d inputs; gather them in two levels",
				  s->origin, ANALYSIS_INPUTS_MAX);
	return 0;
}

int flow_link(const struct flow *f, const char *home, const struct flow_made *made,
	      struct flow_task *t, struct err *err)
{
	int r = 0;
	drop_links(&t->analysis);
	for (size_t i = 0; r >= 0 && i < t->n_sources; i++) {
		struct linking l = {
			.f = f, .home = home, .made = made, .task = t, .source = &t->sources[i]
		};
		r = link_source(&l, err);
	}
	return r;
}

void flow_unlink(struct flow_task *t)
{
	struct analysis *a = &t->analysis;
	drop_links(a);
	pairs_release(&a->key.parts);
	a->key = (struct analysis_key){ 0 };
	free(a->code_contents);
	a->code_contents = NULL;
}

/* What needs what, and what can be said of it before anything runs. */
#include <string.h>

#include "collect/outputs.h"
#include "flow/parts.h"
#include "spec/show.h"

static void add_edge(struct flow_step *s, size_t step, bool matched)
{
	for (size_t i = 0; i < s->n_needs; i++)
		if (s->needs[i].step == step) {
			s->needs[i].matched &= matched; /* all of it, if anything needs all */
			return;
		}
	s->needs = xreallocarray(s->needs, s->n_needs + 1, sizeof *s->needs);
	s->needs[s->n_needs++] = (struct flow_edge){ .step = step, .matched = matched };
}

static int link_needs(const struct document *d, const struct node *map, struct flow *f, size_t i,
		      struct err *err)
{
	const struct node *needs = map_get(map, "needs");
	if (needs && needs->kind != NODE_LIST)
		return node_error(d, needs, err, "expected a list of steps ([a, b])");
	for (size_t k = 0; needs && k < needs->n; k++) {
		size_t step = 0;
		int r = step_named(d, needs->values[k], f, &step, err);
		if (r < 0)
			return r;
		add_edge(&f->steps[i], step, false);
	}
	for (size_t t = f->steps[i].first; t < f->steps[i].first + f->steps[i].n_tasks; t++)
		for (size_t k = 0; k < f->tasks[t].n_sources; k++)
			add_edge(&f->steps[i], f->tasks[t].sources[k].step,
				 f->tasks[t].sources[k].matched);
	return 0;
}

/* Depth first; a step that is met again while its own needs are followed closes a cycle. */
static bool find_cycle(const struct flow *f, size_t i, unsigned char *state, struct str *path)
{
	state[i] = 1;
	for (size_t k = 0; k < f->steps[i].n_needs; k++) {
		size_t next = f->steps[i].needs[k].step;
		if (state[next] == 1) {
			str_addf(path, "%s needs %s", f->steps[i].name, f->steps[next].name);
			return true;
		}
		if (state[next] == 0 && find_cycle(f, next, state, path)) {
			CLEANUP_FREE char *rest = str_take(path);
			str_addf(path, "%s needs %s, ", f->steps[i].name, f->steps[next].name);
			str_add(path, rest);
			return true;
		}
	}
	state[i] = 2;
	return false;
}

static int check_cycles(const struct document *d, const struct node *steps, const struct flow *f,
			struct err *err)
{
	CLEANUP_FREE unsigned char *state = xcalloc(f->n_steps, 1);
	for (size_t i = 0; i < f->n_steps; i++) {
		CLEANUP_STR struct str path = { 0 };
		if (state[i] == 0 && find_cycle(f, i, state, &path))
			return node_error(
				d, steps->keys[i], err,
				"the steps wait for each other, so that none could begin: %.600s",
				path.text);
	}
	return 0;
}

/* Two patterns can have something in common only if what stands before their first wildcard agrees as far as both go. */
static bool may_meet(const char *a, const char *b)
{
	size_t n = strcspn(a, "*?["), m = strcspn(b, "*?[");
	return strncmp(a, b, n < m ? n : m) == 0;
}

static bool is_declared(const struct analysis *from, const char *path)
{
	bool is_pattern = strpbrk(path, "*?[");
	/* A notebook's own outputs need not be declared: runtime/driver.h. */
	if (from->code.n && str_ends(from->code.v[0], ".ipynb") && outputs_match("out/*", path))
		return true;
	if (from->n_outputs == 0)
		return is_pattern ? may_meet("out/**", path) : outputs_match("out/**", path);
	for (size_t i = 0; i < from->n_outputs; i++) {
		const char *output = from->outputs[i].pattern;
		if (is_pattern ? may_meet(output, path) : outputs_match(output, path))
			return true;
	}
	return false;
}

static int check_source(const struct flow *f, const struct flow_source *s, struct err *err)
{
	const struct flow_step *step = &f->steps[s->step];
	CLEANUP_STR struct str declared = { 0 };
	if (!s->path)
		return 0;
	/* Patterns may hold a shard's own values: one that declares it will do. */
	for (size_t i = step->first; i < step->first + step->n_tasks; i++)
		if (is_declared(&f->tasks[i].analysis, s->path))
			return 0;
	const struct analysis *first = &f->tasks[step->first].analysis;
	for (size_t i = 0; i < first->n_outputs; i++)
		str_addf(&declared, "%s%s", i ? ", " : "", first->outputs[i].pattern);
	return err_caller(err, "%s: the step %s makes no '%s'; its outputs are %.300s", s->origin,
			  step->name, s->path, declared.length ? declared.text : "out/**");
}

int graph_link(const struct document *d, const struct node *steps, struct flow *f, struct err *err)
{
	int r = 0;
	for (size_t i = 0; r >= 0 && i < f->n_steps; i++)
		r = link_needs(d, steps->values[i], f, i, err);
	if (r >= 0)
		r = check_cycles(d, steps, f, err);
	for (size_t t = 0; r >= 0 && t < f->n_tasks; t++)
		for (size_t k = 0; r >= 0 && k < f->tasks[t].n_sources; k++)
			r = check_source(f, &f->tasks[t].sources[k], err);
	return r;
}

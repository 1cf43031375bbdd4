/* The value that a pipeline is. */
#include "flow/parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "spec/caller.h"

static void step_release(struct flow_step *s)
{
	free(s->name);
	free(s->summary);
	free(s->needs);
	strv_release(&s->variables);
	strv_release(&s->given);
}

static void task_release(struct flow_task *t)
{
	free(t->shard);
	free(t->label);
	analysis_release(&t->analysis);
	for (size_t i = 0; i < t->n_sources; i++) {
		free(t->sources[i].path);
		free(t->sources[i].name);
		free(t->sources[i].origin);
	}
	free(t->sources);
}

static size_t length_of(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static size_t strv_bytes(const struct strv *list)
{
	size_t n = 0;
	for (size_t i = 0; i < list->n; i++)
		n += length_of(list->v[i]);
	return n;
}

static size_t pairs_bytes(const struct pairs *pairs)
{
	size_t n = 0;
	for (size_t i = 0; i < pairs->n; i++)
		n += length_of(pairs->v[i].key) + length_of(pairs->v[i].value);
	return n;
}

size_t flow_task_bytes(const struct flow_task *t)
{
	const struct analysis *a = &t->analysis;
	size_t n = strv_bytes(&a->command) + strv_bytes(&a->shell) + strv_bytes(&a->args) +
		   strv_bytes(&a->code) + strv_bytes(&a->allow_missing) + pairs_bytes(&a->env) +
		   pairs_bytes(&a->labels) + length_of(a->parameters) + length_of(a->quest);
	for (size_t i = 0; i < a->n_inputs; i++)
		n += sizeof *a->inputs + length_of(a->inputs[i].path) +
		     length_of(a->inputs[i].name);
	for (size_t i = 0; i < a->n_outputs; i++)
		n += sizeof *a->outputs + length_of(a->outputs[i].pattern);
	for (size_t i = 0; i < t->n_sources; i++)
		n += sizeof *t->sources + length_of(t->sources[i].path);
	return n;
}

void flow_release(struct flow *f)
{
	for (size_t i = 0; i < f->n_steps; i++)
		step_release(&f->steps[i]);
	for (size_t i = 0; i < f->n_tasks; i++)
		task_release(&f->tasks[i]);
	free(f->steps);
	free(f->tasks);
	free(f->file);
	free(f->real);
	free(f->base);
	free(f->said);
	json_decref(f->options);
	analysis_release(&f->defaults);
	*f = (struct flow){ 0 };
}

ssize_t flow_find(const struct flow *f, const char *name)
{
	for (size_t i = 0; i < f->n_steps; i++)
		if (str_eq(f->steps[i].name, name))
			return (ssize_t)i;
	return -1;
}

int flow_error(const struct flow *f, const struct flow_step *s, enum flow_place_of place,
	       struct err *err, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	CLEANUP_FREE char *text = xvasprintf(format, args);
	va_end(args);
	return err_caller(err, "%s:%d:%d: step %s: %s", f->file, s->at[place].line,
			  s->at[place].column, s->name, text);
}

int flow_read(const struct config *config, const char *path, const char *parameters,
	      struct flow *ret, struct err *err)
{
	CLEANUP(caller_leave) struct caller_before before = { 0 };
	CLEANUP_FREE char *text = NULL;
	CLEANUP_FREE char *real = path_real(path);
	size_t length = 0;
	int e = analysis_text(path, &text, &length, err);
	if (e >= 0 && !real)
		e = err_errno(err, "%s", path);
	if (e >= 0 && (e = caller_enter(config, &before)) < 0)
		return err_set(err, ERR_CALLER, -e, "%s: we can't act for its submitter", path);
	if (e >= 0)
		e = flow_parse(path, text, length, parameters, ret, err);
	if (e >= 0)
		ret->real = take_ptr(real);
	return e;
}

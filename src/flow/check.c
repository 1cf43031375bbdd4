/* What a pipeline asks of the host, looked at before the first step runs: a pipeline that must fail in its last step should not begin. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "flow/flow.h"
#include "runtime/catalog.h"
#include "runtime/select.h"
#include "spec/caller.h"

/* access() would ask for the real user, whoever it is for. */
static bool is_there(const char *path)
{
	return faccessat(AT_FDCWD, path, F_OK, AT_EACCESS) == 0;
}

static int check_files(const struct flow *f, const struct flow_task *t, struct err *err)
{
	const struct flow_step *s = &f->steps[t->step];
	const struct analysis *a = &t->analysis;
	for (size_t i = 0; i < a->code.n; i++)
		if (!is_there(a->code.v[i]))
			return flow_error(f, s, FLOW_AT_COMMAND, err, "code %s: %s", a->code.v[i],
					  strerrordesc_np(errno));
	for (size_t i = 0; i < a->n_inputs; i++)
		if (!is_there(a->inputs[i].path))
			return err_caller(
				err,
				"%s: %s: %s; what another step makes is named by '{step: STEP, path: PATH}'",
				a->inputs[i].origin, a->inputs[i].path, strerrordesc_np(errno));
	return 0;
}

/* Chooses the runtime as the run will, and gives its limits. */
static int check_runtime(const struct config *c, const struct flow *f, struct flow_step *s,
			 struct err *err)
{
	CLEANUP_SELECTION struct selection selection = { 0 };
	CLEANUP(runtime_release) struct runtime runtime = { 0 };
	const struct analysis *a = &f->tasks[s->first].analysis;
	struct analysis said = *a; /* borrowed, but for the limits */
	struct err why = { 0 };
	int r = runtime_select(c, a, &selection, &why);
	if (r >= 0)
		r = catalog_find(c, selection.name, &runtime, &why);
	if (r < 0)
		return flow_error(f, s, FLOW_AT_RUNTIME, err, "%s", why.text);
	CLEANUP_STRV struct strv argv = { 0 };
	if (runtime_argv(&runtime, a, a->code.n ? a->code.v[0] : "", &argv, &why) < 0)
		return flow_error(f, s, FLOW_AT_COMMAND, err, "%s", why.text);
	said.limits = selection.limits;
	limits_merge(&said.limits, &a->limits);
	r = config_limits(c, &runtime.limits, &said, &s->limits, &why);
	if (r >= 0)
		r = config_limits_fit(c, a->executor ? a->executor : runtime.executor, &s->limits,
				      &why);
	return r < 0 ? flow_error(f, s, FLOW_AT_LIMITS, err, "%s", why.text) : 0;
}

/* Where the file that is called so is, if it is what several shards made; NULL otherwise. */
static char *place_of_shards(const struct flow *f, const struct flow_task *t, const char *name,
			     size_t n)
{
	for (size_t i = 0; i < t->n_sources; i++) {
		const struct flow_source *s = &t->sources[i];
		const char *base = s->path ? path_base(s->path) : "";
		if (f->steps[s->step].scattered && !s->matched && strlen(base) == n &&
		    memcmp(base, name, n) == 0)
			return xasprintf("data/%s/SHARD/%s", flow_source_name(f, s), s->path);
	}
	return NULL;
}

static bool is_shown(const struct config *c, const struct flow_task *t, const struct flow *f,
		     const char *name, size_t n)
{
	const struct analysis *a = &t->analysis;
	for (size_t i = 0; i < a->n_inputs; i++)
		if (strlen(a->inputs[i].name) == n && memcmp(a->inputs[i].name, name, n) == 0)
			return true;
	for (size_t i = 0; i < t->n_sources; i++) {
		const struct flow_source *s = &t->sources[i];
		const char *made = flow_source_name(f, s);
		if (strlen(made) == n && memcmp(made, name, n) == 0)
			return true;
	}
	if (!c->project_data)
		return false;
	CLEANUP_FREE char *one = xstrndup(name, n);
	CLEANUP_FREE char *path = path_join(c->project_data, one);
	return access(path, F_OK) == 0;
}

/* data/NAME in a command that nothing shows: the step would not find it. What can't be told from the text is passed over. */
static int check_words(const struct config *c, const struct flow *f, const struct flow_task *t,
		       const struct strv *words, struct err *err)
{
	const struct flow_step *s = &f->steps[t->step];
	for (size_t i = 0; i < words->n; i++) {
		const char *text = words->v[i];
		for (const char *at = text; (at = strstr(at, "data/")); at += 5) {
			const char *name = at + 5;
			size_t n = strcspn(name, " \t\n'\"/;|&()<>,{}[]:`");
			bool begins = at == text || strchr(" \t\n'\"=(<>|&;,[", at[-1]);
			if (!begins || n == 0 || n != strcspn(name, "*?$\\ \t\n'\"/;|&()<>,{}[]:`"))
				continue;
			if (is_shown(c, t, f, name, n))
				continue;
			CLEANUP_FREE char *place = place_of_shards(f, t, name, n);
			return flow_error(f, s, FLOW_AT_COMMAND, err,
					  "it uses data/%.*s, which none of its inputs shows; %s%s",
					  (int)n, name,
					  place ? "what the shards made is " : "add it to 'inputs'",
					  place ? place : "");
		}
	}
	return 0;
}

static int check_names(const struct flow *f, const struct flow_task *t, struct err *err)
{
	const struct analysis *a = &t->analysis;
	for (size_t i = 0; i < t->n_sources; i++) {
		const char *name = flow_source_name(f, &t->sources[i]);
		bool taken = false;
		for (size_t k = 0; k < a->n_inputs; k++)
			taken |= str_eq(a->inputs[k].name, name);
		for (size_t k = 0; k < i; k++)
			taken |= str_eq(flow_source_name(f, &t->sources[k]), name);
		if (taken)
			return err_caller(
				err,
				"%s: the input name '%s' is taken already; give another: 'name: NAME'",
				t->sources[i].origin, name);
	}
	return 0;
}

const char *flow_source_name(const struct flow *f, const struct flow_source *s)
{
	if (s->name)
		return s->name;
	/* One file of one run has its own name; everything else lies below the step's. */
	if (s->path && !strpbrk(s->path, "*?[") && (s->matched || !f->steps[s->step].scattered))
		return path_base(s->path);
	return f->steps[s->step].name;
}

static int check_all_files(const struct config *c, const struct flow *f, struct err *err)
{
	CLEANUP(caller_leave) struct caller_before before = { 0 };
	int r = caller_enter(c, &before);
	if (r < 0)
		return err_set(err, ERR_CALLER, -r, "%s: we can't act for its submitter", f->file);
	for (size_t t = 0; r >= 0 && t < f->n_tasks; t++)
		r = check_files(f, &f->tasks[t], err);
	return r;
}

int flow_check(const struct config *config, struct flow *f, struct err *err)
{
	int r = check_all_files(config, f, err);
	for (size_t i = 0; r >= 0 && i < f->n_steps; i++) {
		struct flow_step *s = &f->steps[i];
		for (size_t t = s->first; r >= 0 && t < s->first + s->n_tasks; t++)
			r = check_names(f, &f->tasks[t], err);
		const struct flow_task *first = &f->tasks[s->first];
		if (r >= 0)
			r = check_words(config, f, first, &first->analysis.command, err);
		if (r >= 0)
			r = check_words(config, f, first, &first->analysis.args, err);
		if (r >= 0)
			r = check_runtime(config, f, s, err);
	}
	return r;
}

/* `post_processes`: the steps that outputs may be given to. */
#include <string.h>

#include "base/path.h"
#include "spec/config_layer.h"
#include "spec/dburl.h"
#include "spec/show.h"

#define STEPS_MAX      100
#define SUBMITTERS_MAX 1000

/* One step while it is read. */
struct step_reading {
	struct post_process step;
	const char *directory; /* borrowed; of the file */
};

void post_process_release(struct post_process *p)
{
	free(p->name);
	free(p->origin);
	free(p->script);
	strv_release(&p->args);
	strv_release(&p->command);
	free(p->runtime);
	free(p->database);
	free(p->database_origin);
	free(p->user);
	pairs_release(&p->env);
	strv_release(&p->submitters);
	*p = (struct post_process){ 0 };
}

static void reading_release(struct step_reading *r)
{
	post_process_release(&r->step);
}

const struct post_process *config_post_process(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->n_post_processes; i++)
		if (str_eq(c->post_processes[i].name, name))
			return &c->post_processes[i];
	return NULL;
}

static char *place_of(const struct document *d, const struct node *n)
{
	return xasprintf("%s:%d:%d", document_file(d), n->line, n->column);
}

READER(read_script)
{
	struct step_reading *to = target;

	return config_path_value(d, n, to->directory, &to->step.script, err);
}

READER(read_args)
{
	return node_strings(d, n, ANALYSIS_ARGS_MAX, &((struct step_reading *)target)->step.args,
			    err);
}

READER(read_command)
{
	if (n->kind == NODE_LIST && n->n == 0)
		return node_error(d, n, err, "the list is empty; name a program");
	return node_strings(d, n, ANALYSIS_ARGS_MAX, &((struct step_reading *)target)->step.command,
			    err);
}

READER(read_runtime)
{
	int r = config_name_check(d, n, "name of a runtime", err);

	return r < 0 ? r : node_string(d, n, &((struct step_reading *)target)->step.runtime, err);
}

READER(read_user)
{
	int r = config_name_check(d, n, "name of a user", err);

	return r < 0 ? r : node_string(d, n, &((struct step_reading *)target)->step.user, err);
}

READER(read_database)
{
	struct step_reading *to = target;
	CLEANUP_DBURL struct dburl url = { 0 };
	struct err why = { 0 };
	int r = node_string(d, n, &to->step.database, err);

	if (r < 0)
		return r;
	if (dburl_parse(to->step.database, &url, &why) < 0)
		return node_error(d, n, err, "%s", why.text);
	to->step.database_origin = place_of(d, n);
	return 0;
}

READER(read_env)
{
	struct step_reading *to = target;

	if (n->kind != NODE_MAP || n->n > ANALYSIS_ENV_MAX)
		return node_error(d, n, err, "expected a map of variables, such as {NAME: value}");
	for (size_t i = 0; i < n->n; i++) {
		struct err why = { 0 };
		CLEANUP_FREE char *value = NULL;
		if (env_name_check(n->keys[i]->text, &why) < 0)
			return node_error(d, n->keys[i], err, "%s", why.text);
		int r = node_string(d, n->values[i], &value, err);
		if (r < 0)
			return r;
		pairs_set(&to->step.env, n->keys[i]->text, value);
	}
	return 0;
}

READER(read_submitters)
{
	struct step_reading *to = target;

	return node_strings(d, n, SUBMITTERS_MAX, &to->step.submitters, err);
}

READER(read_limits)
{
	return limits_read(d, n, &((struct step_reading *)target)->step.limits, err);
}

static int step_check(const struct document *d, const struct node *name,
		      const struct post_process *p, struct err *err)
{
	if (!p->script == !p->command.n)
		return node_error(
			d, name, err,
			"the step '%s' needs either 'script: FILE' or 'command: [PROGRAM, ...]'",
			p->name);
	if (p->args.n && !p->script)
		return node_error(
			d, name, err,
			"the args of the step '%s' are those of a script; put those of a command into the command",
			p->name);
	if (!p->database)
		return node_error(d, name, err,
				  "the step '%s' has no database; add 'database: sqlite:/PATH' or "
				  "'database: postgresql://USER@/DATABASE?host=/run/postgresql'",
				  p->name);
	return 0;
}

/* A later file's step takes the place of an earlier one of that name, as a whole. */
static void step_add(struct config *c, struct post_process *step)
{
	for (size_t i = 0; i < c->n_post_processes; i++) {
		if (!str_eq(c->post_processes[i].name, step->name))
			continue;
		post_process_release(&c->post_processes[i]);
		c->post_processes[i] = *step;
		*step = (struct post_process){ 0 };
		return;
	}
	c->post_processes = xreallocarray(c->post_processes, c->n_post_processes + 1,
					  sizeof(c->post_processes[0]));
	c->post_processes[c->n_post_processes++] = *step;
	*step = (struct post_process){ 0 };
}

static int read_step(const struct document *d, const struct node *name, const struct node *n,
		     struct config_layer *layer, struct err *err)
{
	static const struct key_row rows[] = { { "script", read_script },
					       { "args", read_args },
					       { "command", read_command },
					       { "runtime", read_runtime },
					       { "database", read_database },
					       { "user", read_user },
					       { "env", read_env },
					       { "limits", read_limits },
					       { "submitters", read_submitters } };
	CLEANUP(reading_release) struct step_reading to = { .directory = layer->directory };
	int r = config_name_check(d, name, "name of a step", err);

	if (r < 0)
		return r;
	to.step.name = xstrdup(name->text);
	to.step.origin = place_of(d, name);
	r = map_read(d, n, ROWS(rows), &to, err);
	if (r >= 0)
		r = step_check(d, name, &to.step, err);
	if (r >= 0)
		step_add(layer->config, &to.step);
	return r;
}

int config_read_post_processes(const struct document *d, const struct node *n, void *target,
			       struct err *err)
{
	struct config_layer *layer = target;

	if (n->kind != NODE_MAP)
		return node_error(
			d, n, err,
			"expected a map of steps, such as {NAME: {script: FILE, database: URL}}");
	for (size_t i = 0; i < n->n; i++) {
		if (layer->config->n_post_processes >= STEPS_MAX)
			return node_error(d, n->keys[i], err, "more than %d steps", STEPS_MAX);
		int r = read_step(d, n->keys[i], n->values[i], layer, err);
		if (r < 0)
			return r;
	}
	config_say(layer, d, n, "post_processes");
	return 0;
}

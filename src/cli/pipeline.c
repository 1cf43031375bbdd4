/* cupel run and cupel plan of a file with steps; cupel resume. */
#include <errno.h>
#include <stdio.h>

#include "base/json.h"
#include "cli/cli.h"
#include "flow/engine.h"
#include "flow/record.h"
#include "run/run.h"
#include "spec/parameters.h"
#include "view/crate.h"
#include "view/flow_view.h"
#include "view/status.h"

/* What is said of single analyses belongs to a step, not to all of them at once. */
static int check_said(const struct run_args *args, struct err *err)
{
	const struct analysis *a = &args->said;
	const char *odd = a->runtime        ? "runtime"
			  : a->profile      ? "profile"
			  : a->n_inputs     ? "data"
			  : a->n_outputs    ? "out"
			  : a->db_snapshot  ? "db-snapshot"
			  : a->post_process ? "post-process"
			  : a->env.n        ? "env"
			  : a->network_said ? "network"
			  : a->warn_signal  ? "warn-signal"
			  : args->timings   ? "timings"
					    : NULL;
	for (int i = 0; !odd && i < LIMIT_COUNT_; i++)
		if (a->limits.at[i].value)
			odd = limit_infos[i].key;
	return odd ? err_caller(
			     err,
			     "--%s: this is a pipeline, whose steps say that each for itself; write it into the file",
			     odd)
		   : 0;
}

/* What the caller says of the whole goes over what the file says. */
static void lay_over(struct analysis *all, struct analysis *said)
{
	char **const to[] = { &all->id, &all->name, &all->quest };
	char **const from[] = { &said->id, &said->name, &said->quest };
	for (size_t i = 0; i < 3; i++)
		if (*from[i]) {
			free(*to[i]);
			*to[i] = take_ptr(*from[i]);
		}
	for (size_t i = 0; i < said->labels.n; i++)
		pairs_set(&all->labels, said->labels.v[i].key, said->labels.v[i].value);
}

static void lay_over_steps(struct flow *f, const struct analysis *said, const struct analysis *all)
{
	for (size_t t = 0; t < f->n_tasks; t++) {
		struct analysis *a = &f->tasks[t].analysis;
		if (said->quest) {
			free(a->quest);
			a->quest = xstrdup(all->quest);
		}
		for (size_t i = 0; i < said->labels.n; i++)
			pairs_set(&a->labels, said->labels.v[i].key, said->labels.v[i].value);
		strv_copy(&a->allow_missing, &said->allow_missing);
		a->allow_drift |= said->allow_drift;
		if (said->keep_said) {
			a->keep = said->keep;
			a->keep_said = true;
		}
	}
}

static int check_force(const struct run_args *args, const struct flow *f, struct err *err)
{
	for (size_t i = 0; i < args->force.n; i++)
		if (flow_find(f, args->force.v[i]) < 0)
			return err_caller(err, "--force %.60s: %s has no step of that name",
					  args->force.v[i], f->file);
	return 0;
}

static int plan_it(const struct run_args *args, const struct flow_request *q, struct err *err)
{
	struct flow_foresight *all = NULL;
	int r = flow_foresee(q, &all, err);
	if (r < 0)
		return r;
	if (args->json) {
		CLEANUP_JSON json_t *plan = flow_plan_json(q->flow, all);
		json_print(plan);
	} else {
		flow_print_plan(q->flow, all);
	}
	for (size_t t = 0; t < q->flow->n_tasks; t++)
		free(all[t].why);
	free(all);
	return 0;
}

static int run_it(const struct run_args *args, const struct flow_request *asked, int *ret_status,
		  struct err *err)
{
	struct flow_request q = *asked;
	CLEANUP_FLOW_END struct flow_end end = { 0 };
	struct flow_progress progress = { .is_live = status_wanted(),
					  .is_quiet = args->quiet || args->json,
					  .home = q.config->home,
					  .flow = q.flow };
	struct flow_viewer viewer = { .data = &progress,
				      .news = flow_progress_news,
				      .tally = progress.is_live ? flow_progress_tally : NULL };
	q.viewer = &viewer;
	int r = flow_run(&q, &end, err);
	if (r >= 0) {
		flow_print_end(&progress, q.config, &end);
		if (args->json)
			json_print(end.result);
		*ret_status = end.exit_status;
	}
	run_deliver(q.config, crate_write);
	return r;
}

static int with_flow(struct run_args *args, struct flow *f, const char *resume, int *ret_status,
		     struct err *err)
{
	CLEANUP_CONFIG struct config config = { 0 };
	int r = config_read(&(struct config_where){ 0 }, &config, err);
	/* What a step reads it says: a project's data would be an input of every step, and in every key. */
	free(config.project_data);
	free(config.project_docs);
	config.project_data = config.project_docs = NULL;
	if (r >= 0)
		r = check_force(args, f, err);
	if (r >= 0)
		r = flow_check(&config, f, err);
	if (r < 0)
		return r;
	struct flow_request q = { .config = &config,
				  .flow = f,
				  .resume = resume,
				  .force = &args->force,
				  .jobs = (unsigned)args->jobs,
				  .keep_going = args->keep_going };
	*ret_status = 0;
	return args->is_plan ? plan_it(args, &q, err) : run_it(args, &q, ret_status, err);
}

int pipeline_main(struct run_args *args, int argc, char **argv, const struct operands *rest)
{
	CLEANUP_FLOW struct flow f = { 0 };
	struct err err = { 0 };
	int status = 125;
	const char *path = rest->first < argc && !rest->after_dashes ? argv[rest->first] : "";
	if ((!str_ends(path, ".yaml") && !str_ends(path, ".yml")) || !flow_is(path))
		return -1;
	int r = check_said(args, &err);
	if (r >= 0 && rest->first + 1 < argc)
		r = err_caller(&err, "'%.60s' after the pipeline's file: options stand before it",
			       argv[rest->first + 1]);
	if (r >= 0)
		r = flow_read(path, args->said.parameters, &f, &err);
	if (r >= 0) {
		struct analysis said = args->said;
		lay_over(&f.defaults, &args->said);
		lay_over_steps(&f, &said, &f.defaults);
		r = with_flow(args, &f, NULL, &status, &err);
	}
	return r < 0 ? cli_fail(&err) : status;
}

static int read_again(const char *id, struct flow *ret, struct err *err)
{
	CLEANUP_CONFIG struct config config = { 0 };
	CLEANUP_JSON json_t *asked = NULL;
	int r = config_read(&(struct config_where){ 0 }, &config, err);
	if (r >= 0)
		r = flow_record_read(&config, id, "pipeline.json", &asked, err);
	if (r < 0)
		return r;
	const char *file = json_string_value(json_object_get(asked, "file"));
	const char *sha256 = json_string_value(json_object_get(asked, "file_sha256"));
	const json_t *said = json_object_get(asked, "said");
	CLEANUP_FREE char *parameters = json_object_size(said) ? parameters_text(said) : NULL;
	if (!file || !sha256)
		return err_set(err, ERR_HOST, EINVAL, "the record of the pipeline '%s' is damaged",
			       id);
	r = flow_read(file, parameters, ret, err);
	if (r >= 0 && !str_eq(ret->sha256, sha256))
		return err_set(
			err, ERR_CALLER, ESTALE,
			"%s was changed since '%s' began; `cupel run %s` runs it as it is now, and reuses what still holds",
			file, id, file);
	return r;
}

static int main_resume(const struct command *self, int argc, char **argv)
{
	CLEANUP(run_args_release) struct run_args args = { 0 };
	CLEANUP_FLOW struct flow f = { 0 };
	struct operands rest;
	struct err err = { 0 };
	int status = 125;
	int r = cli_parse(self, argc, argv, &args, &rest, &err);
	if (r >= 0 && argc - rest.first != 1)
		r = err_caller(&err, "usage: cupel %s %s", self->name, self->usage);
	if (r < 0)
		return cli_stop(self, r, &err);
	r = read_again(argv[rest.first], &f, &err);
	if (r >= 0)
		r = with_flow(&args, &f, argv[rest.first], &status, &err);
	return r < 0 ? cli_fail(&err) : status;
}

const struct command command_resume = {
	.name = "resume",
	.usage = "[OPTION]... ID",
	.summary = "go on with a pipeline that was ended, killed or failed",
	.details =
		"Steps that are finished are not run again. The file must be what it was; after an edit `cupel run FILE`\n"
		"reuses what the edit did not touch.",
	.options = &resume_options,
	.main = main_resume,
};

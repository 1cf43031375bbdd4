/* cupel run and cupel plan of a file with steps; cupel resume. */
#include <stdio.h>

#include "base/json.h"
#include "cli/cli.h"
#include "flow/engine.h"
#include "run/run.h"
#include "spec/spec_json.h"
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
			  : a->scratch_said ? "scratch"
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

/* What flow_lay_over lays over them, for whoever goes on with it. */
static json_t *options_json(const struct analysis *said)
{
	static const char *const keys[] = { "quest", "labels", "allow_missing", "allow_drift",
					    "keep" };
	CLEANUP_JSON json_t *all = analysis_json(said);
	json_t *made = json_object();
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (json_object_get(all, keys[i]) && (said->keep_said || !str_eq(keys[i], "keep")))
			json_object_set(made, keys[i], json_object_get(all, keys[i]));
	return made;
}

static int check_force(const struct run_args *args, const struct flow *f, struct err *err)
{
	for (size_t i = 0; i < args->force.n; i++)
		if (flow_find(f, args->force.v[i]) < 0)
			return err_caller(err, "--force %.60s: %s has no step of that name",
					  args->force.v[i], f->file);
	return 0;
}

static int plan_it(const struct run_args *args, const struct flow_request *asked, struct err *err)
{
	struct flow_foresight *all = NULL;
	struct progress progress = { .shown = status_wanted() && !args->quiet, .about = "runtime" };
	struct fingerprint_progress tell = { &progress, progress_files };
	struct flow_request request = *asked, *q = &request;
	q->reading = &tell;
	int r = flow_foresee(q, &all, err);
	progress_clear(&progress);
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
	struct fingerprint_progress tell = { &progress.reading, progress_files };
	progress.reading = (struct progress){ .shown = progress.is_live && !progress.is_quiet,
					      .about = "runtime" };
	q.viewer = &viewer;
	q.reading = &tell;
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

static int with_flow(const struct run_args *args, struct config *config, struct flow *f,
		     const char *resume, int *ret_status, struct err *err)
{
	/* What a step reads it says: a project's data would be an input of every step, and in every key. */
	cleanup_free(&config->project_data);
	cleanup_free(&config->project_docs);
	int r = check_force(args, f, err);
	if (r >= 0)
		r = flow_check(config, f, err);
	if (r < 0)
		return r;
	struct flow_request q = { .config = config,
				  .flow = f,
				  .resume = resume,
				  .force = &args->force,
				  .jobs = (unsigned)args->jobs,
				  .keep_going = args->keep_going };
	*ret_status = 0;
	return args->is_plan ? plan_it(args, &q, err) : run_it(args, &q, ret_status, err);
}

bool pipeline_is_named(int argc, char **argv, const struct operands *rest)
{
	const char *path = rest->first < argc && !rest->after_dashes ? argv[rest->first] : "";
	return (str_ends(path, ".yaml") || str_ends(path, ".yml")) && flow_is(path);
}

int pipeline_check_args(const struct run_args *args, int argc, char **argv,
			const struct operands *rest, struct err *err)
{
	int r = check_said(args, err);
	if (r >= 0 && rest->first + 1 < argc)
		r = err_caller(err, "'%.60s' after the pipeline's file: options stand before it",
			       argv[rest->first + 1]);
	return r;
}

int pipeline_main(struct run_args *args, int argc, char **argv, const struct operands *rest)
{
	CLEANUP_CONFIG struct config config = { 0 };
	CLEANUP_FLOW struct flow f = { 0 };
	struct err err = { 0 };
	int status = 125;
	if (!pipeline_is_named(argc, argv, rest))
		return -1;
	const char *path = argv[rest->first];
	int r = pipeline_check_args(args, argc, argv, rest, &err);
	if (r >= 0)
		r = config_read(&(struct config_where){ 0 }, &config, &err);
	if (r >= 0)
		r = flow_read(&config, path, args->said.parameters, &f, &err);
	if (r >= 0) {
		f.options = options_json(&args->said);
		flow_lay_over(&f, &args->said);
		lay_over(&f.defaults, &args->said);
		r = with_flow(args, &config, &f, NULL, &status, &err);
	}
	return r < 0 ? cli_fail(&err) : status;
}

static int main_resume(const struct command *self, int argc, char **argv)
{
	CLEANUP(run_args_release) struct run_args args = { 0 };
	CLEANUP_CONFIG struct config config = { 0 };
	CLEANUP_FLOW struct flow f = { 0 };
	struct operands rest;
	struct err err = { 0 };
	int status = 125;
	int r = cli_parse(self, argc, argv, &args, &rest, &err);
	if (r >= 0 && argc - rest.first != 1)
		r = err_caller(&err, "usage: cupel %s %s", self->name, self->usage);
	if (r < 0)
		return cli_stop(self, r, &err);
	r = config_read(&(struct config_where){ 0 }, &config, &err);
	if (r >= 0) /* with the rights of whom it was begun for, whoever goes on with it */
		r = flow_read_again(&config, argv[rest.first], &f, &err);
	if (r >= 0)
		r = with_flow(&args, &config, &f, argv[rest.first], &status, &err);
	return r < 0 ? cli_fail(&err) : status;
}

const struct command command_resume = {
	.name = "resume",
	.usage = "[OPTION]... ID",
	.operands = COMPLETE_RUNS,
	.summary = "go on with a pipeline that was ended, killed or failed",
	.details =
		"Steps that are finished are not run again. The file must be what it was; after an edit `cupel run FILE`\n"
		"reuses what the edit did not touch.",
	.options = &resume_options,
	.main = main_resume,
};

/* cupel plan: everything `run` would do, without doing it. */
#include <stdio.h>

#include "base/json.h"
#include "cli/cli.h"
#include "run/run.h"
#include "spec/spec_json.h"
#include "view/plan_view.h"

static int show(const struct run_args *args, const struct analysis *analysis,
		const struct resolved *resolved, json_t *step, struct err *err)
{
	if (!args->json) {
		plan_print(analysis, &resolved->runtime, &resolved->chosen, &resolved->plan);
		plan_print_step(step);
		return 0;
	}
	json_t *a = analysis_json(analysis);
	json_object_set_new(a, "runtime", json_string(resolved->runtime.name));
	CLEANUP_JSON json_t *both = json_pack("{s:o,s:o,s:o,s:b}", "analysis", a, "plan",
					      plan_json(&resolved->plan), "runtime",
					      chosen_json(&resolved->chosen, &resolved->runtime),
					      "refused", chosen_refused(&resolved->chosen));
	if (step)
		json_object_set(both, "post_process", step);
	CLEANUP_FREE char *text = json_dumps(both, JSON_COMPACT);
	if (!text)
		return err_caller(err, "the plan can't be written as JSON");
	printf("%s\n", text);
	return 0;
}

static int main_plan(const struct command *self, int argc, char **argv)
{
	CLEANUP(run_args_release) struct run_args args = { 0 };
	CLEANUP_ANALYSIS struct analysis analysis = { 0 };
	CLEANUP_CONFIG struct config config = { 0 };
	CLEANUP_RESOLVED struct resolved resolved = { 0 };
	CLEANUP_JSON json_t *step = NULL;
	struct operands rest;
	struct err err = { 0 };
	int r = cli_parse(self, argc, argv, &args, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	args.is_plan = true;
	int ended = pipeline_main(&args, argc, argv, &rest);
	if (ended >= 0)
		return ended;
	r = run_args_analysis(&args, argc, argv, &rest, &analysis, &err);
	if (r >= 0)
		r = config_read(&(struct config_where){ 0 }, &config, &err);
	if (r >= 0)
		r = run_foresee(&config, &analysis, &resolved, &err);
	if (r >= 0)
		r = run_foresee_step(&config, &analysis, resolved.id, &step, &err);
	if (r >= 0)
		r = show(&args, &analysis, &resolved, step, &err);
	if (r >= 0 && chosen_refused(&resolved.chosen)) {
		err = resolved.chosen.unfit;
		r = err_wrap(&err, "a run would be refused as runtime-broken");
	}
	return r < 0 ? cli_fail(&err) : 0;
}

const struct command command_plan = {
	.name = "plan",
	.usage = "[OPTION]... (ANALYSIS.yaml | SCRIPT [ARG]... | -- COMMAND [ARG]...)",
	.summary = "print every mount, limit and variable of a run; runs nothing",
	.options = &run_options,
	.ends_options = true,
	.main = main_plan,
};

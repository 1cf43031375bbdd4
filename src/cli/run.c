/* cupel run */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "run/run.h"
#include "view/status.h"
#include "view/verdict_view.h"

static int show_end(const struct run_args *args, const struct config *config,
		    const struct resolved *resolved, struct err *err)
{
	CLEANUP_FREE char *directory = xasprintf("%s/runs/%s", config->home, resolved->id);
	if (args->json)
		return verdict_print_json(directory, err);
	return args->quiet ? 0 : verdict_print_summary(directory, err);
}

static int run_it(struct run_args *args, struct analysis *analysis, int *ret_status,
		  struct err *err)
{
	CLEANUP_CONFIG struct config config = { 0 };
	CLEANUP_RESOLVED struct resolved resolved = { 0 };
	int r = config_read(&(struct config_where){ 0 }, &config, err);
	if (r >= 0)
		r = run_resolve(&config, analysis, &resolved, err);
	if (r < 0)
		return r;
	struct status status = { .limit_bytes = resolved.limits.at[LIMIT_MEMORY].value,
				 .shown = status_wanted() && !args->quiet };
	struct run_viewer viewer = { .data = &status,
				     .sample = status_sample,
				     .clear = status_clear };
	struct run_request request = {
		.config = &config, .analysis = analysis, .resolved = &resolved, .viewer = &viewer
	};
	r = run_local(&request, ret_status, err);
	return r < 0 ? r : show_end(args, &config, &resolved, err);
}

static int main_run(const struct command *self, int argc, char **argv)
{
	CLEANUP(run_args_release) struct run_args args = { 0 };
	CLEANUP_ANALYSIS struct analysis analysis = { 0 };
	struct operands rest;
	struct err err = { 0 };
	int status = 125;
	int r = cli_parse(self, argc, argv, &args, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	r = run_args_analysis(&args, argc, argv, &rest, &analysis, &err);
	if (r >= 0)
		r = run_it(&args, &analysis, &status, &err);
	return r < 0 ? cli_fail(&err) : status;
}

const struct command command_run = {
	.name = "run",
	.usage = "[OPTION]... (ANALYSIS.yaml | SCRIPT [ARG]... | -- COMMAND [ARG]...)",
	.summary = "run an analysis in a box, on a budget, and record how it ended",
	.details =
		"The exit status is the analysis's own; 124 deadline, 137 out of memory or killed, 128+N signal N,\n"
		"126/127 not executable / not found, 125 cupel could not run it, 2 usage.",
	.options = &run_options,
	.main = main_run,
};

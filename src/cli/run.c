/* cupel run */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "run/run.h"
#include "view/crate.h"
#include "view/status.h"
#include "view/verdict_view.h"

static int show_end(const struct run_args *args, const struct config *config,
		    const struct resolved *resolved, struct err *err)
{
	CLEANUP_FREE char *directory = xasprintf("%s/runs/%s", config->home, resolved->id);
	if (args->json)
		return verdict_print_json(directory, err);
	return args->quiet ? verdict_print_failure(directory, err)
			   : verdict_print_summary(directory, err);
}

/* Outside the keeper: everything before it starts, and the rest of the wall time (starting it, hearing of the end). */
static void show_timings(const struct stages *stages, uint64_t began_ns, uint64_t resolved_ns)
{
	uint64_t now = clock_monotonic_ns(), kept = 0;
	fprintf(stderr, "%-10s %10.3f ms\n", "resolve", (double)(resolved_ns - began_ns) / 1e6);
	for (int i = 0; i < STAGE_COUNT_; i++) {
		fprintf(stderr, "%-10s %10.3f ms\n", stage_name(i), (double)stages->ns[i] / 1e6);
		kept += stages->ns[i];
	}
	fprintf(stderr, "%-10s %10.3f ms\n", "around", (double)(now - resolved_ns - kept) / 1e6);
	fprintf(stderr, "%-10s %10.3f ms\n", "total", (double)(now - began_ns) / 1e6);
}

static int run_it(struct run_args *args, struct analysis *analysis, int *ret_status,
		  struct err *err)
{
	CLEANUP_CONFIG struct config config = { 0 };
	CLEANUP_RESOLVED struct resolved resolved = { 0 };
	CLEANUP(run_reap) pid_t keeper = 0;
	struct stages stages = { 0 };
	uint64_t began_ns = clock_monotonic_ns();
	int r = config_read(&(struct config_where){ 0 }, &config, err);
	if (r >= 0)
		r = run_resolve(&config, analysis, &resolved, err);
	if (r < 0)
		return r;
	for (size_t i = 0; !args->quiet && i < resolved.notes.n; i++)
		log_warning("%s", resolved.notes.v[i]);
	struct status status = { .limit_bytes = resolved.limits.at[LIMIT_MEMORY].value,
				 .shown = status_wanted() && !args->quiet };
	struct run_viewer viewer = { .data = &status,
				     .sample = status_sample,
				     .clear = status_clear };
	struct run_request request = { .config = &config,
				       .analysis = analysis,
				       .resolved = &resolved,
				       .viewer = &viewer,
				       .bytes = args->raw ? TERMINAL_RAW : TERMINAL_SAFE,
				       .ret_stages = &stages,
				       .ret_keeper = &keeper };
	uint64_t resolved_ns = clock_monotonic_ns();
	r = run_local(&request, ret_status, err);
	if (r >= 0 && args->timings)
		show_timings(&stages, began_ns, resolved_ns);
	if (r >= 0)
		r = show_end(args, &config, &resolved, err);
	run_deliver(&config, crate_write);
	return r;
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
	int ended = pipeline_main(&args, argc, argv, &rest);
	if (ended >= 0)
		return ended;
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
	.ends_options = true,
	.main = main_run,
};

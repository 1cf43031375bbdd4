/* What the commands that look at records begin with, and the shortest of them: show. */
#include "cli/records.h"

#include <stdio.h>

#include "base/log.h"
#include "cli/simple.h"
#include "health/gc.h"
#include "run/run.h"
#include "view/crate.h"
#include "view/pipeline_view.h"
#include "view/runs_view.h"

int records_begin(const struct records_begin *b, struct config *config, struct operands *rest,
		  struct err *err)
{
	int r = cli_parse(b->self, b->argc, b->argv, b->args, rest, err);
	if (r >= 0 && b->argc - rest->first != b->n_operands)
		r = err_caller(err, "usage: cupel %s %s", b->self->name, b->self->usage);
	if (r >= 0)
		r = config_read(&(struct config_where){ 0 }, config, err);
	struct gc_report report;
	struct err ignored;
	if (r >= 0 && gc_sweep(config, &report, &ignored) < 0)
		log_warning("%s", ignored.text);
	if (r >= 0)
		run_deliver(config, crate_write);
	return r;
}

static int show_pipeline(const struct config *c, const char *id, bool json)
{
	CLEANUP_PIPELINE_DOSSIER struct pipeline_dossier d = PIPELINE_DOSSIER_INIT;
	struct err err = { 0 };
	int r = pipeline_dossier_read(c, id, &d, &err);
	if (r >= 0 && json) {
		CLEANUP_JSON json_t *o = pipeline_json(c, &d);
		json_print(o);
	} else if (r >= 0)
		r = pipeline_print(c, &d, &err);
	return r < 0 ? cli_fail(&err) : 0;
}

static int main_show(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_JSON json_t *run = NULL;
	struct simple_args args = { 0 };
	struct records_begin begin = { self, argc, argv, 1, &args };
	struct operands rest;
	struct err err = { 0 };
	int r = records_begin(&begin, &c, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	if (pipeline_is_there(&c, argv[rest.first]))
		return show_pipeline(&c, argv[rest.first], args.json);
	if (!args.json)
		return run_print(&c, argv[rest.first], &err) < 0 ? cli_fail(&err) : 0;
	if (run_json(&c, argv[rest.first], &run, &err) < 0)
		return cli_fail(&err);
	json_print(run);
	return 0;
}

const struct command command_show = {
	.name = "show",
	.usage = "[--json] ID",
	.summary = "how a run or pipeline ended, and where its record is",
	.options = &simple_options,
	.main = main_show,
};

/* What the commands that look at records begin with, and the shortest of them: show. */
#include "cli/records.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "cli/remote.h"
#include "cli/simple.h"
#include "health/gc.h"
#include "run/run.h"
#include "spec/id.h"
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
	if (r >= 0 && run_sweep(config, &report, &ignored) < 0)
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

/* What the record has, and what the service knows beside it; either may be all there is. */
static int told_of(const struct config *c, const struct remote *remote, const char *id,
		   json_t **ret, struct err *err)
{
	CLEANUP_JSON json_t *run = NULL;
	CLEANUP_JSON json_t *more = NULL;
	struct err of_service = { 0 };
	int r = remote_has_records(remote) ? run_json(c, id, &run, err) : -ENOENT;
	if (r < 0 && (r != -ENOENT || !remote->client))
		return r;
	int e = remote->client ? remote_show(remote->client, id, &more, &of_service) : 0;
	if (!run && e < 0) {
		if (e == -ENOENT && remote->is_here)
			return r; /* in the records' own words, which know of pipelines too */
		*err = of_service;
		return e;
	}
	*ret = json_incref(run ? run : more);
	json_object_update_missing(*ret, more);
	return 0;
}

static int print_told(const json_t *told, bool json)
{
	if (json ||
	    json_object_get(told, "steps")) /* a pipeline of which there is no record here */
		json_print(told);
	else
		run_print(told);
	return 0;
}

static int main_show(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_REMOTE struct remote remote = { 0 };
	CLEANUP_JSON json_t *told = NULL;
	struct simple_args args = { 0 };
	struct records_begin begin = { self, argc, argv, 1, &args };
	struct operands rest;
	struct err err = { 0 };
	int r = records_begin(&begin, &c, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	const char *id = argv[rest.first];
	r = remote_open(&c, &remote, &err);
	if (r >= 0 && remote_has_records(&remote) && pipeline_is_there(&c, id))
		return show_pipeline(&c, id, args.json);
	if (r >= 0)
		r = id_check(id, &err);
	if (r >= 0)
		r = told_of(&c, &remote, id, &told, &err);
	return r < 0 ? cli_fail(&err) : print_told(told, args.json);
}

const struct command command_show = {
	.name = "show",
	.usage = "[--json] ID",
	.operands = COMPLETE_RUNS,
	.summary = "how a run or pipeline ended, and where its record is",
	.options = &simple_options,
	.main = main_show,
};

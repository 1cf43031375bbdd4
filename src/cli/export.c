/* cupel export, cupel report: a run or pipeline for those who do not have its record. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/path.h"
#include "cli/cli.h"
#include "health/audit.h"
#include "run/run.h"
#include "view/crate.h"
#include "view/crate_pipeline.h"
#include "view/export.h"
#include "view/report.h"
#include "view/report_pipeline.h"

struct export_args {
	const char *to; /* borrowed from argv */
	bool json, metadata, with_inputs;
	bool vouches; /* a record that was changed is refused */
};

enum { SET_JSON, SET_TO, SET_METADATA, SET_WITH_INPUTS };

static int set(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct export_args *a = target;
	if (row->number == SET_TO && !value[0])
		return err_caller(err, "--to needs a name");
	if (row->number == SET_TO)
		a->to = value;
	a->json |= row->number == SET_JSON;
	a->metadata |= row->number == SET_METADATA;
	a->with_inputs |= row->number == SET_WITH_INPUTS;
	return 0;
}

static const struct option_row export_rows[] = {
	{ 0, "to", "PLACE", "a directory to make, or a file that ends in .zip; ID.zip otherwise",
	  set, SET_TO },
	{ 0, "with-inputs", NULL, "the input files too, those that are still what they were", set,
	  SET_WITH_INPUTS },
	{ 0, "metadata", NULL, "print " CRATE_METADATA " and make nothing", set, SET_METADATA },
	{ 0, "json", NULL, "print JSON", set, SET_JSON },
};
static const struct options export_options = { export_rows,
					       sizeof export_rows / sizeof *export_rows };
static const struct option_row report_rows[] = {
	{ 0, "to", "FILE", "the file to write, - for standard output; ID.html otherwise", set,
	  SET_TO },
	{ 0, "json", NULL, "print JSON", set, SET_JSON },
};
static const struct options report_options = { report_rows,
					       sizeof report_rows / sizeof *report_rows };

/* What is asked for: a run, or a pipeline. */
struct subject {
	struct config config; /* owned */
	struct dossier run;   /* owned; unless it is a pipeline */
	struct pipeline_dossier pipeline;
	const char *id; /* borrowed */
	bool is_pipeline;
};
#define SUBJECT_INIT                                                                               \
	{                                                                                          \
		.run = DOSSIER_INIT, .pipeline = PIPELINE_DOSSIER_INIT                             \
	}

static void subject_release(struct subject *s)
{
	config_release(&s->config);
	dossier_release(&s->run);
	pipeline_dossier_release(&s->pipeline);
}
#define CLEANUP_SUBJECT CLEANUP(subject_release)

/* A run that is gone is named in the crate; one that is there must be what was recorded. */
static int expect_whole_run(const struct subject *s, const char *run, struct err *err)
{
	struct stat st = { 0 };
	if (!run[0] || fstatat(s->pipeline.runs_fd, run, &st, 0) < 0)
		return 0;
	return audit_expect_whole(&s->config, run, AUDIT_RECORDS, err);
}

static int expect_whole(const struct subject *s, struct err *err)
{
	int r = 0;
	if (!s->is_pipeline)
		return audit_expect_whole(&s->config, s->id, AUDIT_RECORDS, err);
	for (size_t i = 0; r >= 0 && i < s->pipeline.n_steps; i++)
		for (size_t j = 0; r >= 0 && j < s->pipeline.steps[i].n_tasks; j++) {
			const struct dossier_task *t = &s->pipeline.steps[i].tasks[j];
			if (t->state == TASK_REUSED || !t->n_attempts)
				r = expect_whole_run(s, t->run, err);
			for (size_t k = 0; r >= 0 && k < t->n_attempts; k++)
				r = expect_whole_run(s, t->attempts[k].run, err);
		}
	return r;
}

static int begin(const struct command *self, int argc, char **argv, struct export_args *args,
		 struct subject *ret, struct err *err)
{
	struct operands rest = { 0 };
	struct gc_report report;
	struct err ignored;
	int r = cli_parse(self, argc, argv, args, &rest, err);
	if (r >= 0 && argc - rest.first != 1)
		r = err_caller(err, "usage: cupel %s %s", self->name, self->usage);
	if (r >= 0)
		r = config_read(&(struct config_where){ 0 }, &ret->config, err);
	if (r >= 0 && run_sweep(&ret->config, &report, &ignored) < 0)
		log_warning("%s", ignored.text);
	if (r < 0)
		return r;
	ret->id = argv[rest.first];
	ret->is_pipeline = pipeline_is_there(&ret->config, ret->id);
	r = ret->is_pipeline ? pipeline_dossier_read(&ret->config, ret->id, &ret->pipeline, err)
			     : dossier_read(&ret->config, ret->id, &ret->run, err);
	return r < 0 || !args->vouches ? r : expect_whole(ret, err);
}

static int print_metadata(const json_t *crate, struct err *err)
{
	CLEANUP_FREE char *text = json_dumps(crate, JSON_INDENT(2));
	if (!text || printf("%s\n", text) < 0 || fflush(stdout) != 0)
		return err_errno(err, "write " CRATE_METADATA);
	return 0;
}

static void print_result(const struct export_args *args, const char *path, uint64_t files,
			 uint64_t bytes)
{
	CLEANUP_JSON json_t *o = json_pack("{s:o,s:o,s:o}", "path", json_text(path), "files",
					   json_u64(files), "bytes", json_u64(bytes));
	CLEANUP_FREE char *text = json_dumps(o, JSON_COMPACT);
	CLEANUP_FREE char *shown = str_visible(path);
	printf("%s\n", args->json ? text : shown);
}

static int make_crate(const struct subject *s, enum crate_with with, struct crate_files *files,
		      json_t **ret, struct err *err)
{
	if (s->is_pipeline)
		return crate_pipeline(&s->config, &s->pipeline, with, files, ret, err);
	int r = crate_gather(&s->run, with, files, err);
	if (r >= 0)
		*ret = crate_json(&s->run, files);
	return r;
}

static void make_page(const struct subject *s, const json_t *crate, struct str *ret)
{
	if (s->is_pipeline)
		report_pipeline(&s->config, &s->pipeline, crate, ret);
	else
		report_html(&s->run, crate, ret);
}

static int main_export(const struct command *self, int argc, char **argv)
{
	CLEANUP_SUBJECT struct subject s = SUBJECT_INIT;
	CLEANUP_CRATE_FILES struct crate_files files = { 0 };
	CLEANUP_JSON json_t *crate = NULL;
	CLEANUP_EXPORTED struct exported done = { 0 };
	CLEANUP_STR struct str page = { 0 };
	struct export_args args = { .vouches = true };
	struct err err = { 0 };
	int r = begin(self, argc, argv, &args, &s, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	CLEANUP_FREE char *otherwise = xasprintf("%s.zip", s.id);
	r = make_crate(&s, args.with_inputs ? CRATE_WITH_INPUTS : CRATE_WITHOUT_INPUTS, &files,
		       &crate, &err);
	if (r >= 0 && args.metadata)
		r = print_metadata(crate, &err);
	else if (r >= 0) {
		struct export_what what = { &files, crate, &page,
					    s.is_pipeline ? dossier_text(s.pipeline.result, "ended")
							  : dossier_ended(&s.run) };
		make_page(&s, crate, &page);
		r = export_crate(&what, args.to ? args.to : otherwise, &done, &err);
	}
	if (r < 0)
		return cli_fail(&err);
	if (!args.metadata)
		print_result(&args, done.path, done.files, done.bytes);
	return 0;
}

const struct command command_export = {
	.name = "export",
	.usage = "ID [--to PLACE] [--with-inputs] [--metadata] [--json]",
	.operands = COMPLETE_RUNS,
	.summary = "a run or pipeline as an RO-Crate: a directory or a zip file",
	.options = &export_options,
	.main = main_export,
};

static int write_report(const char *to, const struct str *page, char **ret_path, struct err *err)
{
	CLEANUP_FREE char *cwd = path_cwd();
	CLEANUP_FREE char *path = cwd ? path_normal(cwd, to) : NULL;
	if (!path)
		return err_caller(err, "'%s' is no place for a file", to);
	CLEANUP_FREE char *parent = path_parent(path);
	CLEANUP_FD int dir_fd = open(parent, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (dir_fd < 0)
		return err_set(err, ERR_CALLER, errno, "open %s: %s", parent,
			       strerrordesc_np(errno));
	int r = fs_write_atomic(dir_fd, path_base(path), page->text, page->length, 0644, err);
	if (r >= 0)
		*ret_path = take_ptr(path);
	return r;
}

static int main_report(const struct command *self, int argc, char **argv)
{
	CLEANUP_SUBJECT struct subject s = SUBJECT_INIT;
	CLEANUP_STR struct str page = { 0 };
	CLEANUP_FREE char *path = NULL;
	struct export_args args = { 0 };
	struct err err = { 0 };
	int r = begin(self, argc, argv, &args, &s, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	CLEANUP_FREE char *otherwise = xasprintf("%s.html", s.id);
	make_page(&s, NULL, &page);
	if (str_eq(args.to, "-"))
		return fwrite(page.text, 1, page.length, stdout) < page.length ? 125 : 0;
	if (write_report(args.to ? args.to : otherwise, &page, &path, &err) < 0)
		return cli_fail(&err);
	print_result(&args, path, 1, page.length);
	return 0;
}

const struct command command_report = {
	.name = "report",
	.usage = "ID [--to FILE] [--json]",
	.operands = COMPLETE_RUNS,
	.summary = "a run or pipeline as one page for a browser",
	.options = &report_options,
	.main = main_report,
};

/* cupel rerun: the same analysis again, and whether the same came out. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "health/audit.h"
#include "run/rerun.h"
#include "run/run.h"
#include "view/compare.h"
#include "view/crate.h"
#include "view/status.h"
#include "view/verdict_view.h"

#define VERDICT_MAX (8 << 20)

struct rerun_args {
	char *id; /* owned or NULL */
	bool verify;
	bool json;
	bool quiet;
	bool raw;
	bool may_differ;
	struct pairs env;
	struct tolerance tolerance;
};

static void args_release(struct rerun_args *a)
{
	cleanup_free(&a->id);
	pairs_release(&a->env);
}

enum { FLAG_VERIFY, FLAG_JSON, FLAG_QUIET, FLAG_RAW, FLAG_CHANGED_SECRETS };

static int set_flag(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct rerun_args *a = target;
	bool *const flags[] = { &a->verify, &a->json, &a->quiet, &a->raw, &a->may_differ };
	*flags[row->number] = true;
	return 0;
}

static int set_id(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct rerun_args *a = target;
	free(a->id);
	a->id = xstrdup(value);
	return id_check(value, err);
}

static int set_env(void *target, const struct option_row *row, const char *value, struct err *err)
{
	return options_env(value, &((struct rerun_args *)target)->env, err);
}

static int set_tolerance(void *target, const struct option_row *row, const char *value,
			 struct err *err)
{
	return tolerance_parse(value, &((struct rerun_args *)target)->tolerance, err);
}

static const struct option_row rows[] = {
	{ 0, "id", "ID", "name the new run (default: one is made)", set_id, 0 },
	{ 0, "verify", NULL, "compare its outputs with those of the first run", set_flag,
	  FLAG_VERIFY },
	{ 0, "tolerance", "REL[,ABS]", "how far numbers in CSV, TSV and JSON may be apart: 1e-6",
	  set_tolerance, 0 },
	{ 'e', "env", "NAME[=VALUE]",
	  "give a secret variable again, which is not recorded; without a value: yours", set_env,
	  0 },
	{ 0, "allow-changed-secrets", NULL, "accept values that differ from those of the first run",
	  set_flag, FLAG_CHANGED_SECRETS },
	{ 0, "json", NULL, "print the result as JSON", set_flag, FLAG_JSON },
	{ 'q', "quiet", NULL, "no status line and no summary", set_flag, FLAG_QUIET },
	{ 0, "raw", NULL, "do not escape control characters on a terminal", set_flag, FLAG_RAW },
};
static const struct options rerun_options = { rows, sizeof rows / sizeof *rows };

static const char *cause_of(const json_t *verdict)
{
	const char *cause = json_string_value(json_object_get(verdict, "cause"));
	return cause ? cause : "?";
}

/* What the new run was shown of a database, beside what the first was: the keeper has refused it if they differ. NULL if it asked for none
 * or nothing is known of the first one. Owned by the caller. */
static json_t *snapshot_json(const struct config *c, const struct analysis *a, const char *id)
{
	CLEANUP_JSON json_t *record = NULL;
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s/analysis.json", c->home, id);
	if (!a->db_snapshot || !a->db_snapshot_sha256[0] ||
	    json_read_file(AT_FDCWD, path, VERDICT_MAX, &record, NULL) < 0)
		return NULL;
	json_t *now = json_object_get(json_object_get(record, "db_snapshot"), "sha256");
	return json_pack("{s:o,s:s,s:O,s:b}", "path", json_text(a->db_snapshot), "then",
			 a->db_snapshot_sha256, "now", now ? now : json_null(), "same",
			 str_eq(json_string_value(now), a->db_snapshot_sha256));
}

struct rerunning {
	const struct rerun_args *args;
	const char *first; /* borrowed; the id of the run that is run again */
	struct config config;
	struct rerun rerun;
	struct resolved resolved;
};

static void rerunning_release(struct rerunning *r)
{
	resolved_release(&r->resolved);
	rerun_release(&r->rerun);
	config_release(&r->config);
}

static int prepare(struct rerunning *r, struct err *err)
{
	int e = config_read(&(struct config_where){ 0 }, &r->config, err);
	if (e >= 0)
		e = run_prepare(&r->config, err); /* one that died has its verdict then */
	if (e >= 0)
		e = rerun_read(&r->config, r->first, &r->rerun, err);
	if (e < 0)
		return e;
	if (r->args->verify && !str_eq(cause_of(r->rerun.verdict), "ok"))
		return err_caller(
			err,
			"the run '%s' ended with the cause %s: nothing vouches for its outputs, "
			"so there is nothing to compare with; run it again without --verify",
			r->first, cause_of(r->rerun.verdict));
	struct analysis *a = &r->rerun.analysis;
	a->id = r->args->id ? xstrdup(r->args->id) : NULL;
	if (r->args->verify && a->checkpoint) { /* nor to go on where another attempt was */
		char text[ID_MAX + 1];
		id_generate(text);
		hash_bytes(text, strlen(text), a->checkpoint_key);
	}
	if (r->args->verify) /* to compare is no reason to write the platform's database */
		cleanup_free(&a->post_process);
	e = rerun_give(&r->rerun, &r->config, &r->args->env, r->args->may_differ, err);
	if (e >= 0)
		e = run_resolve(&r->config, a, &r->resolved, err);
	if (e >= 0)
		e = rerun_check(&r->rerun, &r->resolved, err);
	/* What is run again, and compared with, is what was recorded then. */
	return e < 0 ? e
		     : audit_expect_whole(&r->config, r->first,
					  r->args->verify ? AUDIT_OUTPUTS : AUDIT_RECORDS, err);
}

static int start(struct rerunning *r, int *ret_status, struct err *err)
{
	const struct rerun_args *args = r->args;
	for (size_t i = 0; !args->quiet && i < r->resolved.notes.n; i++)
		log_warning("%s", r->resolved.notes.v[i]);
	struct status status = { .limit_bytes = r->resolved.limits.at[LIMIT_MEMORY].value,
				 .shown = status_wanted() && !args->quiet };
	struct run_viewer viewer = { .data = &status,
				     .sample = status_sample,
				     .clear = status_clear };
	struct run_request request = { .config = &r->config,
				       .analysis = &r->rerun.analysis,
				       .resolved = &r->resolved,
				       .viewer = &viewer,
				       .is_silent = args->verify,
				       .bytes = args->raw ? TERMINAL_RAW : TERMINAL_SAFE };
	int e = run_local(&request, ret_status, err);
	if (e < 0 || args->json)
		return e;
	CLEANUP_JSON json_t *snapshot =
		snapshot_json(&r->config, &r->rerun.analysis, r->resolved.id);
	if (json_is_true(json_object_get(snapshot, "same")) && !args->quiet)
		fprintf(stderr, "cupel: the snapshot of %s is the same: SHA-256 %.12s\n",
			r->rerun.analysis.db_snapshot, r->rerun.analysis.db_snapshot_sha256);
	CLEANUP_FREE char *directory = xasprintf("%s/runs/%s", r->config.home, r->resolved.id);
	return args->quiet ? verdict_print_failure(directory, err)
			   : verdict_print_summary(directory, err);
}

static int open_run(const struct config *c, const char *id, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", c->home, id);
	int fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	return fd < 0 ? err_errno(err, "open %s", path) : fd;
}

static int print_json(const struct rerunning *r, json_t *verdict, json_t *outputs, struct err *err)
{
	CLEANUP_JSON json_t *o = json_pack("{s:s,s:s,s:O}", "id", r->resolved.id, "rerun_of",
					   r->first, "verdict", verdict);
	json_t *snapshot = snapshot_json(&r->config, &r->rerun.analysis, r->resolved.id);
	if (snapshot)
		json_object_set_new(o, "db_snapshot", snapshot);
	if (r->args->verify) {
		json_object_set_new(o, "equal", json_boolean(outputs && compare_is_equal(outputs)));
		json_object_set(o, "outputs", outputs ? outputs : json_null());
	}
	CLEANUP_FREE char *text = json_dumps(o, JSON_COMPACT);
	if (!text)
		return err_set(err, ERR_HOST, ENOMEM, "the result can't be written as JSON");
	printf("%s\n", text);
	return 0;
}

/* What came out, beside what came out the first time; only if both succeeded. */
static int finish(struct rerunning *r, int *status, struct err *err)
{
	CLEANUP_JSON json_t *verdict = NULL;
	CLEANUP_JSON json_t *outputs = NULL;
	CLEANUP_FD int a_fd = open_run(&r->config, r->first, err);
	CLEANUP_FD int b_fd = a_fd < 0 ? -1 : open_run(&r->config, r->resolved.id, err);
	if (b_fd < 0)
		return -EIO;
	int e = json_read_file(b_fd, "verdict.json", VERDICT_MAX, &verdict, err);
	if (e >= 0 && r->args->verify && str_eq(cause_of(verdict), "ok")) {
		struct compare_side a = { a_fd, r->first }, b = { b_fd, r->resolved.id };
		e = compare_outputs(&a, &b, &r->args->tolerance, &outputs, err);
		if (e >= 0 && !compare_is_equal(outputs))
			*status = 1;
	}
	if (e >= 0 && r->args->json)
		return print_json(r, verdict, outputs, err);
	if (e >= 0 && outputs)
		compare_print(outputs, r->first, r->resolved.id);
	return e;
}

static int main_rerun(const struct command *self, int argc, char **argv)
{
	CLEANUP(args_release) struct rerun_args args = { 0 };
	CLEANUP(rerunning_release) struct rerunning rerunning = { .args = &args };
	struct operands rest;
	struct err err = { 0 };
	int status = 125;
	int r = cli_parse(self, argc, argv, &args, &rest, &err);
	if (r >= 0 && argc - rest.first != 1)
		r = err_caller(&err, "usage: cupel %s %s", self->name, self->usage);
	if (r >= 0 && args.tolerance.is_said && !args.verify)
		r = err_caller(&err,
			       "--tolerance says how outputs are compared: it needs --verify");
	if (r < 0)
		return cli_stop(self, r, &err);
	rerunning.first = argv[rest.first];
	r = prepare(&rerunning, &err);
	if (r >= 0)
		r = start(&rerunning, &status, &err);
	if (r >= 0 && (args.verify || args.json))
		r = finish(&rerunning, &status, &err);
	if (rerunning.config.home)
		run_deliver(&rerunning.config, crate_write);
	return r < 0 ? cli_fail(&err) : status;
}

const struct command command_rerun = {
	.name = "rerun",
	.usage = "[OPTION]... ID",
	.operands = COMPLETE_RUNS,
	.summary = "run an analysis again from its record; compare what came out",
	.details =
		"Refused, with the reason, if the code, the inputs, the runtime or the record are not what they were. The exit\n"
		"status is that of `cupel run`; with --verify 1 if the outputs differ.",
	.options = &rerun_options,
	.main = main_rerun,
};

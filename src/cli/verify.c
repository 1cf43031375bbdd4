/* cupel verify: is everything that was kept still what was kept? */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/num.h"
#include "cli/cli.h"
#include "health/verify.h"
#include "view/findings_view.h"
#include "view/progress.h"
#include "view/status.h"

struct verify_args {
	struct verify_request q;
	bool json;
};

enum { SET_SLICE, SET_MAX_TIME, SET_DEEP, SET_QUICK, SET_JSON };

/* K/N, or next/N. */
static int read_slice(const char *text, struct verify_request *q, struct err *err)
{
	const char *slash = strchr(text, '/');
	CLEANUP_FREE char *first = slash ? xstrndup(text, (size_t)(slash - text)) : NULL;
	uint64_t slice = 0, of = 0;
	bool is_next = first && str_eq(first, "next");
	if (!first || num_u64(slash + 1, VERIFY_SHELVES, &of) < 0 || of == 0 ||
	    (!is_next && (num_u64(first, of, &slice) < 0 || slice == 0)))
		return err_caller(
			err,
			"--slice '%.40s': write 1/30 up to 30/30, or next/30; at most %d parts",
			text, VERIFY_SHELVES);
	q->slice = (unsigned)slice;
	q->slices = (unsigned)of;
	return 0;
}

static int set(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct verify_args *a = target;
	switch (row->number) {
	case SET_SLICE:
		return read_slice(value, &a->q, err);
	case SET_MAX_TIME:
		return num_duration(value, &a->q.max_ns, err);
	case SET_DEEP:
		a->q.deep = true;
		return 0;
	case SET_QUICK:
		a->q.quick = true;
		return 0;
	default:
		a->json = true;
		return 0;
	}
}

static const struct option_row rows[] = {
	{ 0, "slice", "K/N", "of the store only the K-th of N parts; next/N: the one due", set,
	  SET_SLICE },
	{ 0, "max-time", "DURATION",
	  "stop in the store after this time; the next call goes on from there", set,
	  SET_MAX_TIME },
	{ 0, "deep", NULL,
	  "read every output, and every file of locked runtimes and of what is protected", set,
	  SET_DEEP },
	{ 0, "quick", NULL, "of the ledger only what is quick: pages, not indexes against tables",
	  set, SET_QUICK },
	{ 0, "json", NULL, "print JSON", set, SET_JSON },
};
static const struct options verify_options = { rows, sizeof rows / sizeof *rows };

static int add_part(const char *word, unsigned *parts, struct err *err)
{
	for (unsigned i = 0; i < VERIFY_PART_COUNT_; i++)
		if (str_eq(word, verify_part_names[i])) {
			*parts |= 1U << i;
			return 0;
		}
	const char *nearest = str_nearest(word, verify_part_names, VERIFY_PART_COUNT_);
	CLEANUP_STR struct str names = { 0 };
	for (unsigned i = 0; i < VERIFY_PART_COUNT_; i++)
		str_addf(&names, "%s%s", i ? ", " : "", verify_part_names[i]);
	return err_caller(err, "'%.60s' is nothing to verify%s%s%s; there are %s", word,
			  nearest ? "; did you mean '" : "", nearest ? nearest : "",
			  nearest ? "'?" : "", str_text(&names));
}

static int parse(const struct command *self, int argc, char **argv, struct verify_args *args,
		 struct err *err)
{
	struct operands rest = { 0 };
	int r = cli_parse(self, argc, argv, args, &rest, err);
	for (int i = rest.first; r >= 0 && i < argc; i++)
		r = add_part(argv[i], &args->q.parts, err);
	if (!args->q.parts)
		args->q.parts = VERIFY_ALL;
	return r;
}

static void print_json(const struct verify_report *r)
{
	CLEANUP_JSON json_t *o = json_pack("{s:s,s:O,s:O}", "status",
					   r->problem     ? "problem"
					   : r->unchecked ? "unchecked"
							  : "ok",
					   "parts", r->parts, "findings", r->findings);
	json_print(o);
}

static int main_verify(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config config = { 0 };
	CLEANUP_VERIFY_REPORT struct verify_report report = { 0 };
	struct verify_args args = { 0 };
	struct err err = { 0 };
	struct progress progress = { .shown = status_wanted(), .about = "verify" };
	const struct verify_viewer viewer = { &progress, progress_step, progress_files };
	int r = parse(self, argc, argv, &args, &err);
	if (r >= 0)
		r = config_read(&(struct config_where){ 0 }, &config, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	args.q.config = &config;
	args.q.viewer = &viewer;
	verify_run(&args.q, &report);
	progress_clear(&progress);
	if (args.json)
		print_json(&report);
	else
		findings_print(report.parts, report.findings);
	if (report.unkept.text[0])
		log_warning("%s", report.unkept.text);
	return report.problem ? 1 : report.unchecked ? 2 : 0;
}

const struct command command_verify = {
	.name = "verify",
	.usage = "[--slice K/N] [--max-time DURATION] [--deep] [--quick] [--json] [PART...]",
	.summary = "prove that all that was kept is what it was; repairs nothing",
	.details =
		"PART is ledger, chain, runs, store, runtimes or protect; without one, all of them.\n"
		"The exit status is 0 if all is well, 1 if something is wrong, 2 if something could not be looked at, or usage.",
	.options = &verify_options,
	.main = main_verify,
};

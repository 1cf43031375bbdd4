/* cupel executor check NAME: what it can do, what a run without wishes would be refused for; and cupel executor conformance NAME: whether
 * that is so. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/json.h"
#include "base/terminal.h"
#include "cli/executor.h"
#include "cli/simple.h"
#include "conform/conform.h"
#include "run/run.h"
#include "view/table.h"

struct check_args {
	bool json;
	const char *only;
};

static int set(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct check_args *a = target;
	if (row->metavar)
		a->only = value;
	else
		a->json = true;
	return 0;
}

static const struct option_row rows[] = {
	{ 0, "json", NULL, "print JSON", set, 0 },
	{ 0, "only", "CASE", "try this case alone", set, 0 },
};
static const struct options check_options = { rows, 1 };
static const struct options conformance_options = { rows, 2 };

/* Options, the one operand, and the configuration. */
static int begin(const struct command *self, int argc, char **argv, struct check_args *args,
		 const char **ret_name, struct config *ret, struct err *err)
{
	struct operands rest = { 0 };
	int r = cli_parse(self, argc, argv, args, &rest, err);
	if (r >= 0 && argc - rest.first != 1)
		r = err_caller(err, "usage: cupel %s %s", self->name, self->usage);
	if (r < 0)
		return r;
	*ret_name = argv[rest.first];
	return config_read(&(struct config_where){ 0 }, ret, err);
}

/* A run that asks for nothing special; nothing is started. */
static int foresee(const struct config *c, const char *name, struct err *err)
{
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	CLEANUP_RESOLVED struct resolved resolved = { 0 };
	strv_add(&a.command, "/bin/true");
	a.executor = xstrdup(name);
	a.runtime = xstrdup("base");
	a.runtime_origin = xstrdup("built-in");
	return run_resolve(c, &a, &resolved, err);
}

static void row(struct table *t, const char *what, const char *value)
{
	table_add(t, what);
	table_add(t, value);
}

static const char *answer(bool yes)
{
	return yes ? "yes" : "no";
}

static int print_capability(const struct capability *can, struct err *err)
{
	static const struct table_column columns[] = { { "WHAT", TABLE_TEXT },
						       { "ENFORCED", TABLE_WRAP } };
	static const char *const stagings[] = { "on this host: directories are shown as they are",
						"nodes see the staging directory at the same path",
						"copied both ways" };
	CLEANUP_TABLE struct table t = { columns, sizeof columns / sizeof *columns };
	for (size_t i = 0; i < layer_count; i++) {
		CLEANUP_FREE char *what = xasprintf("layer %s", layer_names[i]);
		row(&t, what, answer(can->layers[i]));
	}
	for (int i = 0; i < LIMIT_COUNT_; i++) {
		CLEANUP_FREE char *what = xasprintf("limit %s", limit_infos[i].key);
		row(&t, what, answer(can->limits[i]));
	}
	row(&t, "checkpoints", answer(can->checkpoints));
	row(&t, "the host's network", can->network_host ? "may be asked for" : "no");
	row(&t, "rights of submitters", answer(can->submitters));
	row(&t, "signals reach the analysis", answer(can->signals));
	row(&t, "runs may wait there", answer(can->queues));
	row(&t, "outlives its keeper",
	    can->reattaches ? "yes: another takes over" : "no: the run is lost");
	row(&t, "files", stagings[can->staging]);
	row(&t, "verdict", can->judging == JUDGING_HERE ? "made here" : "made by cupel there");
	return table_print(&t, err);
}

static int show(const struct config *c, const char *name, const struct capability *can,
		struct err *err)
{
	const struct executor_settings *s = config_executor(c, name);
	printf("%s: kind %s, %s\n", name, executor_kind_names[s ? s->kind : EXECUTOR_LOCAL],
	       can->engine);
	int r = print_capability(can, err);
	for (size_t i = 0; s && i < s->allow_missing.n; i++)
		printf("%s%s", i ? ", " : "runs there may do without: ", s->allow_missing.v[i]);
	if (s && s->allow_missing.n)
		printf("\n");
	return r;
}

static int main_check(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	struct check_args args = { 0 };
	struct capability can = { 0 };
	struct err err = { 0 }, why = { 0 };
	const char *name = NULL;
	int r = begin(self, argc, argv, &args, &name, &c, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	int found = capability_find(&c, name, &can, &why);
	if (found < 0 && why.kind == ERR_CALLER)
		return cli_fail(&why);
	int fit = found < 0 ? found : foresee(&c, name, &why);
	if (args.json) {
		const struct executor_settings *s = config_executor(&c, name);
		CLEANUP_JSON json_t *o =
			json_pack("{s:s,s:s,s:b,s:o,s:o}", "name", name, "kind",
				  executor_kind_names[s ? s->kind : EXECUTOR_LOCAL], "usable",
				  fit >= 0, "error", fit < 0 ? json_text(why.text) : json_null(),
				  "capability", found < 0 ? json_null() : capability_json(&can));
		json_print(o);
		return fit < 0;
	}
	if (found >= 0 && show(&c, name, &can, &err) < 0)
		return cli_fail(&err);
	if (found < 0)
		printf("%s can't be used: %s\n", name, why.text);
	else if (fit < 0)
		printf("\nA run that asks for nothing special is refused: %s\n", why.text);
	else
		printf("\nA run that asks for nothing special is accepted.\n");
	return fit < 0;
}

const struct command command_executor_check = {
	.name = "executor check",
	.usage = "[--json] NAME",
	.operands = COMPLETE_EXECUTORS,
	.summary = "ask one what it can enforce, and what it would refuse",
	.details =
		"The exit status is 0 if a run that asks for nothing special would be accepted, 1 if not or if it can't be reached.",
	.options = &check_options,
	.main = main_check,
};

static void show_begin(void *data, const char *name)
{
	if (!isatty(STDERR_FILENO))
		return;
	terminal_control(stderr, "\r\033[K");
	fprintf(stderr, "%s ...", name);
}

static void show_end(void *data, const struct outcome *o)
{
	const struct check_args *args = data;
	if (isatty(STDERR_FILENO))
		terminal_control(stderr, "\r\033[K");
	if (args->json)
		return;
	printf("%-8s %-17s %5.1f s  %s%s%s\n", outcome_names[o->status], o->name,
	       (double)o->wall_ns / 1e9, o->summary, o->text[0] ? ": " : "", o->text);
	(void)fflush(stdout);
}

static int main_conformance(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_CONFORM_REPORT struct conform_report report = { 0 };
	struct check_args args = { 0 };
	struct err err = { 0 };
	const char *name = NULL;
	int r = begin(self, argc, argv, &args, &name, &c, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	struct conform_viewer viewer = { .data = &args, .begin = show_begin, .end = show_end };
	struct conform_request q = {
		.config = &c, .executor = name, .only = args.only, .viewer = &viewer
	};
	if (conform_run(&q, &report, &err) < 0)
		return cli_fail(&err);
	if (args.json) {
		CLEANUP_JSON json_t *o = conform_json(name, &report);
		json_print(o);
	} else {
		for (size_t i = 0; i < report.without.n; i++)
			printf("%s%s",
			       i ? ", " : "runs were allowed to do without: ", report.without.v[i]);
		printf("%s%zu passed, %zu failed, %zu skipped\n", report.without.n ? "\n" : "",
		       report.counts[OUTCOME_PASSED], report.counts[OUTCOME_FAILED],
		       report.counts[OUTCOME_SKIPPED]);
	}
	return report.counts[OUTCOME_FAILED] || report.is_interrupted;
}

const struct command command_executor_conformance = {
	.name = "executor conformance",
	.usage = "[--only CASE] [--json] NAME",
	.operands = COMPLETE_EXECUTORS,
	.summary = "try whether runs there end, arrive and are taken over as they should",
	.details =
		"Runs some thirty small analyses there, in a home of their own that is removed afterwards. The exit status is 0 if none\n"
		"failed, 1 otherwise.",
	.options = &conformance_options,
	.main = main_conformance,
};

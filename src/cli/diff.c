/* cupel diff: two runs side by side. */
#include "cli/records.h"
#include "view/diff_view.h"

struct diff_args {
	bool json;
	struct tolerance tolerance;
};

static int set_json(void *target, const struct option_row *row, const char *value, struct err *err)
{
	((struct diff_args *)target)->json = true;
	return 0;
}

static int set_tolerance(void *target, const struct option_row *row, const char *value,
			 struct err *err)
{
	return tolerance_parse(value, &((struct diff_args *)target)->tolerance, err);
}

static const struct option_row rows[] = {
	{ 0, "tolerance", "REL[,ABS]", "how far numbers in CSV, TSV and JSON may be apart: 1e-6",
	  set_tolerance, 0 },
	{ 0, "json", NULL, "print JSON", set_json, 0 },
};
static const struct options diff_options = { rows, sizeof rows / sizeof *rows };

static int main_diff(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_JSON json_t *diff = NULL;
	struct diff_args args = { 0 };
	struct records_begin begin = { self, argc, argv, 2, &args };
	struct operands rest;
	struct err err = { 0 };
	int r = records_begin(&begin, &c, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	r = diff_json(&c, argv[rest.first], argv[rest.first + 1], &args.tolerance, &diff, &err);
	if (r < 0)
		return cli_fail(&err);
	if (args.json)
		json_print(diff);
	else if (diff_print(diff, &err) < 0)
		return cli_fail(&err);
	return json_is_true(json_object_get(diff, "same")) ? 0 : 1;
}

const struct command command_diff = {
	.name = "diff",
	.usage = "[OPTION]... A B",
	.operands = COMPLETE_RUNS,
	.summary = "two runs side by side: what was asked for, used and came out",
	.details = "The exit status is 1 if they differ in anything but their usage.",
	.options = &diff_options,
	.main = main_diff,
};

/* cupel ps: the runs that are going on. */
#include "cli/records.h"
#include "cli/simple.h"
#include "view/live.h"

static int main_ps(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_JSON json_t *runs = NULL;
	struct simple_args args = { 0 };
	struct records_begin begin = { self, argc, argv, 0, &args };
	struct operands rest;
	struct err err = { 0 };
	int r = records_begin(&begin, &c, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	if (live_json(&c, LIVE_BY_ID, &runs, &err) < 0)
		return cli_fail(&err);
	if (args.json)
		json_print(runs);
	else if (live_print(runs, 0, &err) < 0)
		return cli_fail(&err);
	return 0;
}

const struct command command_ps = {
	.name = "ps",
	.usage = "[--json]",
	.summary = "the runs that are going on, and what they use",
	.options = &simple_options,
	.main = main_ps,
};

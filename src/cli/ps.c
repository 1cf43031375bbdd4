/* cupel ps: the runs that are going on, and those that wait for it. */
#include "cli/records.h"
#include "cli/remote.h"
#include "cli/simple.h"
#include "view/live.h"

static int main_ps(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_JSON json_t *runs = NULL;
	CLEANUP_REMOTE struct remote remote = { 0 };
	struct simple_args args = { 0 };
	struct records_begin begin = { self, argc, argv, 0, &args };
	struct operands rest;
	struct err err = { 0 };
	int r = records_begin(&begin, &c, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	r = remote_open(&c, &remote, &err);
	if (r >= 0)
		r = remote_has_records(&remote) ? live_json(&c, LIVE_BY_ID, &runs, &err) : 0;
	runs = runs ? runs : json_array();
	if (r >= 0 && remote.client)
		r = remote_live(&remote, runs, 0, &err);
	if (r >= 0 && args.json) {
		json_print(runs);
		return 0;
	}
	if (r >= 0)
		r = live_print(runs, 0, &err);
	if (r >= 0)
		r = waiting_print(runs, 0, &err);
	return r < 0 ? cli_fail(&err) : 0;
}

const struct command command_ps = {
	.name = "ps",
	.usage = "[--json]",
	.operands = COMPLETE_NOTHING,
	.summary = "the runs that are going on, what they use, and those that wait",
	.options = &simple_options,
	.main = main_ps,
};

/* The command line of `cupel run`: one word a line. What is accepted as an analysis passes the
 * checks that follow, or is refused by them with a reason. */
#include "fuzz.h"

#include <errno.h>

#include "cli/cli.h"
#include "spec/spec_json.h"

#define WORDS_MAX 64

static int words_split(char *text, char *ret[WORDS_MAX])
{
	static char command[] = "run";
	int n = 0;

	ret[n++] = command;
	while (text && n < WORDS_MAX - 1)
		ret[n++] = strsep(&text, "\n");
	ret[n] = NULL;
	return n;
}

static void check_limits(const struct limits *limits)
{
	for (int id = 0; id < LIMIT_COUNT_; id++)
		CHECK(!limits->at[id].value || limits->at[id].value >= limit_infos[id].minimum);
}

static void check_analysis(const struct analysis *a)
{
	struct err err = { 0 };

	CHECK(a->code.n > 0 || a->command.n > 0);
	check_limits(&a->limits);
	if (!fuzz_accepted(analysis_check(a, &err), &err))
		return;
	CLEANUP_JSON json_t *json = analysis_json(a);
	CLEANUP_FREE char *text = json_dumps(json, JSON_COMPACT);
	CHECK(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_FREE char *text = fuzz_text(data, size);
	CLEANUP(run_args_release) struct run_args args = { 0 };
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	struct operands rest = { .first = -1 };
	struct err err = { 0 };
	char *argv[WORDS_MAX];
	int argc = words_split(text, argv);

	int r = options_parse(&run_options, argc, argv, &args, &rest, &err);
	if (r == -ECANCELED)
		return 0; /* --help */
	if (!fuzz_accepted(r, &err))
		return 0;
	CHECK(rest.first >= 1 && rest.first <= argc);
	if (fuzz_accepted(run_args_analysis(&args, argc, argv, &rest, &a, &err), &err))
		check_analysis(&a);
	return 0;
}

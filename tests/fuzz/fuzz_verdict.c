/* The JSON of a run directory as `cupel show`, `list`, `diff` and `rerun` read it: whatever stands
 * in verdict.json and analysis.json is refused with its place or shown, and survives being written
 * again. */
#include "fuzz.h"

#include <sys/stat.h>

#include "base/json.h"
#include "spec/id.h"
#include "spec/spec_json.h"
#include "view/diff_view.h"
#include "view/runs_query.h"
#include "view/runs_view.h"
#include "view/verdict_view.h"

#define FILE_MAX (1 << 20)

struct places {
	char home[256], run[300], verdict[350], analysis[350];
};

static struct places *places_get(void)
{
	static struct places p;
	char runs[300];

	if (p.home[0])
		return &p;
	(void)snprintf(p.home, sizeof(p.home), "%s/home", fuzz_folder());
	(void)snprintf(runs, sizeof(runs), "%s/runs", p.home);
	(void)snprintf(p.run, sizeof(p.run), "%s/runs/r", p.home);
	CHECK(mkdir(p.home, 0700) == 0 && mkdir(runs, 0700) == 0 && mkdir(p.run, 0700) == 0);
	(void)snprintf(p.verdict, sizeof(p.verdict), "%s/verdict.json", p.run);
	(void)snprintf(p.analysis, sizeof(p.analysis), "%s/analysis.json", p.run);
	CHECK(freopen("/dev/null", "we", stdout)); /* only how it is printed is of interest */
	return &p;
}

static void check_again(const json_t *value)
{
	CLEANUP_FREE char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
	CHECK(text);
	CLEANUP_JSON json_t *back =
		json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
	CHECK(back && json_equal(value, back));
}

static void check_views(struct places *p)
{
	CLEANUP_JSON json_t *run = NULL, *runs = NULL, *diff = NULL;
	struct config c = { .home = p->home };
	struct runs_query all = { .source = RUNS_DIRECTORIES };
	CLEANUP_RUNS struct runs *reader = NULL;
	CLEANUP_TABLE struct table table = { 0 };
	struct tolerance none = { 0 };
	struct err err = { 0 };

	CHECK(fuzz_accepted(run_json(&c, "r", &run, &err), &err));
	CHECK(str_eq(json_string_value(json_object_get(run, "id")), "r"));
	CHECK(fuzz_accepted(runs_open(&c, &all, &reader, &err), &err));
	CHECK(fuzz_accepted(runs_next(reader, &runs, &err), &err));
	CHECK(json_array_size(runs) == 1 && !runs_left_after(reader));
	CHECK(runs_print(runs, &table, &err) >= 0);
	CHECK(fuzz_accepted(diff_json(&c, "r", "r", &none, &diff, &err), &err));
	CHECK(diff_print(diff, &err) >= 0);
	run_print(run);
}

static void check_analysis(const json_t *value)
{
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	struct err err = { 0 };

	(void)fuzz_accepted(analysis_from_json(value, "run r", &a, &err), &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct places *p = places_get();
	CLEANUP_JSON json_t *value = NULL;
	struct err err = { 0 }, print_err = { 0 };

	fuzz_write(p->verdict, data, size);
	fuzz_write(p->analysis, data, size);
	bool good =
		fuzz_accepted(json_read_file(AT_FDCWD, p->verdict, FILE_MAX, &value, &err), &err);
	CHECK(good == (value != NULL));
	if (good) {
		check_again(value);
		check_analysis(value);
	}
	bool printed = fuzz_accepted(verdict_print_json(p->run, &print_err), &print_err);
	CHECK(printed == good);
	check_views(p);
	return 0;
}

/* Files of pipelines. What is accepted is a graph without cycles whose tasks are analyses that hold, with names that can be directories. */
#include "fuzz.h"

#include "base/path.h"
#include "flow/flow.h"
#include "spec/spec_json.h"

static void check_task(const struct flow *f, const struct flow_task *t)
{
	CHECK(t->step < f->n_steps);
	CHECK(!t->shard || path_name_ok(t->shard));
	CHECK(analysis_check(&t->analysis, NULL) >= 0);
	for (size_t i = 0; i < t->n_sources; i++) {
		CHECK(t->sources[i].step < f->n_steps && t->sources[i].step != t->step);
		CHECK(!t->sources[i].path || output_pattern_check(t->sources[i].path, NULL) >= 0);
		CHECK(path_name_ok(flow_source_name(f, &t->sources[i])) ||
		      strchr(t->sources[i].path, '/'));
	}
	CLEANUP_JSON json_t *json = analysis_json(&t->analysis);
	CLEANUP_FREE char *text = json_dumps(json, JSON_COMPACT);
	CHECK(text);
}

/* Needs lead to an end: following them from anywhere takes fewer steps than there are. */
static size_t depth(const struct flow *f, size_t step, size_t left)
{
	size_t most = 0;
	CHECK(left > 0);
	for (size_t i = 0; i < f->steps[step].n_needs; i++) {
		size_t one = depth(f, f->steps[step].needs[i].step, left - 1);
		most = one > most ? one : most;
	}
	return most + 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_FLOW struct flow f = { 0 };
	struct err err = { 0 };
	int r = flow_parse("/nowhere/p.yaml", (const char *)data, size, NULL, &f, &err);
	if (!fuzz_accepted(r, &err)) {
		CHECK(str_starts(err.text, "/nowhere/p.yaml:"));
		return 0;
	}
	CHECK(f.n_steps > 0 && f.n_tasks >= f.n_steps);
	for (size_t i = 0; i < f.n_tasks && i < 100; i++)
		check_task(&f, &f.tasks[i]);
	for (size_t i = 0; i < f.n_steps && f.n_steps < 12; i++)
		CHECK(depth(&f, i, f.n_steps) <= f.n_steps);
	return 0;
}

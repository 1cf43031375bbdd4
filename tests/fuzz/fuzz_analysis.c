/* Analysis files. What is accepted holds what the program relies on from there on: something to
 * run, absolute paths, names of one component, limits that can be written down and read back, and
 * a form in JSON. */
#include "fuzz.h"

#include "base/path.h"
#include "spec/analysis.h"
#include "spec/id.h"
#include "spec/spec_json.h"

static void check_limits(const struct limits *limits)
{
	for (int id = 0; id < LIMIT_COUNT_; id++) {
		char text[32];
		struct err err = { 0 };
		uint64_t value = limits->at[id].value, back = 0;
		if (!value)
			continue;
		CHECK(fuzz_accepted(
			limit_parse(id, limit_write(id, value, text, sizeof(text)), &back, &err),
			&err));
		CHECK(back == value);
		CHECK(str_starts(limits->at[id].origin, "/dir/a.yaml:"));
	}
}

static void check_paths(const struct analysis *a)
{
	for (size_t i = 0; i < a->code.n; i++)
		CHECK(a->code.v[i][0] == '/' && !strstr(a->code.v[i], "/../"));
	for (size_t i = 0; i < a->n_inputs; i++) {
		CHECK(a->inputs[i].path[0] == '/' && !strstr(a->inputs[i].path, "/../"));
		CHECK(path_name_ok(a->inputs[i].name));
	}
	for (size_t i = 0; i < a->n_outputs; i++)
		CHECK(output_pattern_check(a->outputs[i].pattern, NULL) >= 0);
}

static void check_names(const struct analysis *a)
{
	CHECK(!a->id || id_check(a->id, NULL) >= 0);
	CHECK(!a->runtime || path_name_ok(a->runtime));
	CHECK(!a->profile || path_name_ok(a->profile));
	if (a->name)
		fuzz_check_line(a->name);
	if (a->quest)
		fuzz_check_line(a->quest);
	for (size_t i = 0; i < a->env.n; i++)
		CHECK(env_name_check(a->env.v[i].key, NULL) >= 0);
	for (size_t i = 0; i < a->labels.n; i++) {
		fuzz_check_line(a->labels.v[i].key);
		fuzz_check_line(a->labels.v[i].value);
	}
	for (size_t i = 0; i < a->allow_missing.n; i++)
		CHECK(layer_check(a->allow_missing.v[i], NULL) >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	struct err err = { 0 };

	int r = analysis_parse("/dir/a.yaml", (const char *)data, size, &a, &err);
	if (!fuzz_accepted(r, &err)) {
		CHECK(str_starts(err.text, "/dir/a.yaml:"));
		return 0;
	}
	CHECK((a.code.n > 0) != (a.command.n > 0));
	CHECK(analysis_check(&a, NULL) >= 0);
	check_paths(&a);
	check_names(&a);
	check_limits(&a.limits);
	CLEANUP_JSON json_t *json = analysis_json(&a);
	CLEANUP_FREE char *text = json_dumps(json, JSON_COMPACT);
	CHECK(text);
	return 0;
}

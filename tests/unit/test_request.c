/* What a service is handed reads back as the analysis that it was made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "spec/request.h"
#include "spec/spec_json.h"

static const char file[] =
	"name: fit\nquest: 'q: 1'\nruntime: base\nprofile: tool\ncode: [a.py, /b/c.py]\nargs: [x, '1', 'no', '']\n"
	"inputs: [d/in.csv, {path: /e, name: f}]\ndb_snapshot: x.db\npost_process: step\n"
	"outputs: [out/**, {path: r.csv, required: true, media_type: text/csv, check: warn}]\n"
	"env: {A: '1', B: 'a: b'}\nparameters: {n: 3, s: [1, {x: null}], t: 'yes'}\nlabels: {k: v}\n"
	"limits: {memory: 1536M, cpus: 1.5, time: 90s, warn: 10s, pids: 7, log: 1M}\n"
	"network: host\nkeep: failed\nscratch: memory\nwarn_signal: SIGUSR2\ncheckpoint: saved\ncheckpoint_exit_code: 75\n"
	"allow_missing: [landlock]\nallow_drift: true\n";

static void test_every_key(void **state)
{
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	CLEANUP_ANALYSIS struct analysis back = { 0 };
	CLEANUP_JSON json_t *request = NULL;
	struct err err = { 0 };
	assert_int_equal(analysis_parse("/base/x.yaml", file, strlen(file), &a, &err), 0);
	assert_int_equal(analysis_request(&a, &request, &err), 0);
	CLEANUP_FREE char *text = json_dumps(request, JSON_INDENT(1));
	/* JSON is YAML: elsewhere, so that a path that were relative would show. */
	if (analysis_parse("/elsewhere/x.yaml", text, strlen(text), &back, &err) < 0)
		fail_msg("%s\n%s", err.text, text);
	CLEANUP_JSON json_t *was = analysis_json(&a);
	CLEANUP_JSON json_t *is = analysis_json(&back);
	json_object_del(was, "file");
	json_object_del(is, "file");
	assert_true(json_equal(was, is));
	assert_memory_equal(json_string_value(json_array_get(json_object_get(is, "code"), 0)),
			    "/base/a.py", 11);
	assert_string_equal(back.runtime, "base");
	for (int i = 0; i < LIMIT_COUNT_; i++)
		assert_int_equal(a.limits.at[i].value, back.limits.at[i].value);
	assert_true(back.keep_said && back.network_said && back.scratch_said);
}

static void test_only_what_was_said(void **state)
{
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	CLEANUP_JSON json_t *request = NULL;
	strv_add(&a.command, "true");
	assert_int_equal(analysis_request(&a, &request, NULL), 0);
	CLEANUP_FREE char *text = json_dumps(request, JSON_COMPACT);
	assert_string_equal(text, "{\"command\":[\"true\"]}");
}

static void test_what_would_not_arrive(void **state)
{
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	CLEANUP_JSON json_t *request = NULL;
	struct err err = { 0 };
	strv_add(&a.command, "cat");
	strv_add(&a.command, "b\xff"
			     "d");
	assert_int_equal(analysis_request(&a, &request, &err), -EINVAL);
	assert_int_equal(err.kind, ERR_CALLER);
	assert_non_null(strstr(err.text, "UTF-8"));
	assert_null(request);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_key),
		cmocka_unit_test(test_only_what_was_said),
		cmocka_unit_test(test_what_would_not_arrive),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

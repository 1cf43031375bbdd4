/* How the runs of a quest went over time: few stretches of one width, whatever the runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "serve/trend.h"

static json_t *trend(const char *text)
{
	CLEANUP_JSON json_t *runs = json_loads(text, 0, NULL);
	assert_non_null(runs);
	return trend_of_runs(runs);
}

static const json_t *point(const json_t *trend, size_t i)
{
	return json_array_get(json_object_get(trend, "points"), i);
}

static json_int_t number(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

static void nothing_is_nothing(void **state)
{
	CLEANUP_JSON json_t *t = trend("[]");
	assert_int_equal(number(t, "runs"), 0);
	assert_int_equal(json_array_size(json_object_get(t, "points")), 0);
}

static void runs_are_added_up_by_when_they_began(void **state)
{
	CLEANUP_JSON json_t *t = trend(
		"[{\"accepted\":\"2026-03-03T10:02:30.000Z\",\"cause\":\"exit\",\"cpu_usec\":5},"
		"{\"accepted\":\"2026-03-03T10:00:50.000Z\",\"cause\":\"ok\",\"cpu_usec\":20},"
		"{\"accepted\":\"2026-03-03T10:00:10.000Z\",\"cause\":\"exit\",\"cpu_usec\":10}]");
	assert_int_equal(number(t, "width_s"), 60);
	assert_int_equal(json_array_size(json_object_get(t, "points")), 3);
	const json_t *first = point(t, 0), *second = point(t, 1), *third = point(t, 2);
	assert_string_equal(json_string_value(json_object_get(first, "from")),
			    "2026-03-03T10:00:00.000Z");
	assert_int_equal(number(first, "runs"), 2);
	assert_int_equal(number(first, "cpu_usec"), 30);
	assert_true(json_real_value(json_object_get(first, "success_rate")) == 0.5);
	assert_int_equal(number(second, "runs"), 0); /* a gap is shown as one */
	assert_true(json_is_null(json_object_get(second, "success_rate")));
	assert_int_equal(number(third, "cpu_usec"), 5);
}

/* From when a submission might have begun; attempts after the first, and what nobody submitted, did not wait for a place. */
static void waits_are_those_of_first_attempts(void **state)
{
	CLEANUP_JSON json_t *t = trend(
		"[{\"accepted\":\"2026-03-03T10:00:10.000Z\",\"cause\":\"ok\",\"submitted\":\"2026-03-03T10:00:06.000Z\",\"attempt\":1},"
		"{\"accepted\":\"2026-03-03T10:00:20.000Z\",\"cause\":\"ok\",\"submitted\":\"2026-03-01T10:00:00.000Z\","
		"\"not_before\":\"2026-03-03T10:00:18.000Z\",\"attempt\":1},"
		"{\"accepted\":\"2026-03-03T10:00:30.000Z\",\"cause\":\"ok\",\"submitted\":\"2026-03-03T09:00:00.000Z\",\"attempt\":2},"
		"{\"accepted\":\"2026-03-03T10:00:40.000Z\",\"cause\":\"ok\"}]");
	assert_int_equal(number(point(t, 0), "runs"), 4);
	assert_int_equal(number(point(t, 0), "waited_usec"), 3000000); /* of 4 s and 2 s */
	CLEANUP_JSON json_t *alone =
		trend("[{\"accepted\":\"2026-03-03T10:00:40.000Z\",\"cause\":\"ok\"}]");
	assert_true(json_is_null(json_object_get(point(alone, 0), "waited_usec")));
}

static void there_are_few_points_whatever_the_time(void **state)
{
	static const char *const lasts[] = {
		"2000-01-01T00:00:00.000Z", "2000-01-01T00:45:00.000Z", "2000-01-03T00:00:00.000Z",
		"2000-12-31T00:00:00.000Z", "2026-01-01T00:00:00.000Z", "2199-01-01T00:00:00.000Z"
	};
	for (size_t i = 0; i < sizeof lasts / sizeof *lasts; i++) {
		CLEANUP_JSON json_t *runs = json_pack("[{s:s,s:s},{s:s,s:s}]", "accepted", lasts[i],
						      "cause", "ok", "accepted",
						      "2000-01-01T00:00:00.000Z", "cause", "ok");
		CLEANUP_JSON json_t *t = trend_of_runs(runs);
		size_t n = json_array_size(json_object_get(t, "points"));
		assert_in_range(n, 1, 41);
		assert_int_equal(number(t, "runs"), 2);
		assert_int_equal(number(point(t, n - 1), "runs"), n > 1 ? 1 : 2);
	}
}

static void a_time_that_is_none_is_left_out(void **state)
{
	CLEANUP_JSON json_t *t = trend(
		"[{\"accepted\":\"\",\"cause\":\"ok\"},{\"accepted\":null,\"cause\":\"lost\"},"
		"{\"accepted\":\"2026-03-03T10:00:40.000Z\",\"cause\":\"ok\"}]");
	assert_int_equal(number(t, "runs"), 1);
	assert_int_equal(json_array_size(json_object_get(t, "points")), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_nothing),
		cmocka_unit_test(runs_are_added_up_by_when_they_began),
		cmocka_unit_test(waits_are_those_of_first_attempts),
		cmocka_unit_test(there_are_few_points_whatever_the_time),
		cmocka_unit_test(a_time_that_is_none_is_left_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

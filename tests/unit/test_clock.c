/* clock: the written form, and that the clocks are the ones they say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"

static void written_form(void **state)
{
	char buffer[32];

	assert_string_equal(clock_write(0, buffer, 32), "1970-01-01T00:00:00.000Z");
	assert_string_equal(
		clock_write(1769860800ULL * NS_PER_SEC + 123 * NS_PER_MS + 999999, buffer, 32),
		"2026-01-31T12:00:00.123Z");
	assert_string_equal(clock_write(951782399ULL * NS_PER_SEC + 999999999, buffer, 32),
			    "2000-02-28T23:59:59.999Z");
	assert_string_equal(clock_write(951782400ULL * NS_PER_SEC, buffer, 32),
			    "2000-02-29T00:00:00.000Z");
	assert_int_equal(strlen(clock_write(UINT64_MAX, buffer, 32)), 24);
}

static void the_right_clocks(void **state)
{
	uint64_t first = clock_monotonic_ns();
	time_t before = time(NULL);
	uint64_t real = clock_real_ns();
	struct timespec ts;

	/* time() reads a coarser clock that may lag behind by a tick */
	assert_true(real / NS_PER_SEC + 1 >= (uint64_t)before);
	assert_true(real / NS_PER_SEC <= (uint64_t)time(NULL) + 1);
	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &ts), 0);
	uint64_t between = (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
	assert_true(first <= between && between <= clock_monotonic_ns());
}

static void read_back(void **state)
{
	static const char *const bad[] = { "",           "2026",
					   "2026-13-01", "2026-01-01X",
					   "now",        "2026-01-01T12:00:00+01:00",
					   "1969-01-01", "2026-01-01T12" };
	char buffer[32];
	uint64_t ns = 0;

	assert_int_equal(clock_read("2026-01-31T12:00:00.123Z", &ns), 0);
	assert_true(ns == 1769860800ULL * NS_PER_SEC + 123 * NS_PER_MS);
	assert_string_equal(clock_write(ns, buffer, 32), "2026-01-31T12:00:00.123Z");
	assert_int_equal(clock_read("2026-01-31 12:00", &ns), 0);
	assert_true(ns == 1769860800ULL * NS_PER_SEC);
	assert_int_equal(clock_read("2026-01-31", &ns), 0);
	assert_true(ns == 1769817600ULL * NS_PER_SEC);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (clock_read(bad[i], &ns) >= 0)
			fail_msg("'%s' is no time", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written_form),
		cmocka_unit_test(the_right_clocks),
		cmocka_unit_test(read_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What a submission takes of this host: its limits, or what a keeper does that attends it elsewhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "serve/queue.h"

#define GIB (1ULL << 30)

static const uint64_t limits[LIMIT_COUNT_] = {
	[LIMIT_MEMORY] = 64 * GIB, [LIMIT_CPUS] = 64000, [LIMIT_PIDS] = 4096
};
static const uint64_t cap[SCHEDULE_RESOURCES_] = {
	[SCHEDULE_MEMORY] = GIB, [SCHEDULE_CPUS] = 2000, [SCHEDULE_PIDS] = 100
};

static void a_run_here_needs_its_limits(void **state)
{
	struct submission s = { 0 };
	struct err err = { 0 };
	submission_need(&s, limits, cap);
	assert_int_equal(s.job.need[SCHEDULE_MEMORY], 64 * GIB);
	assert_int_equal(s.job.need[SCHEDULE_CPUS], 2000); /* never more than there are */
	assert_int_equal(s.job.need[SCHEDULE_PIDS], 4096);
	assert_int_equal(submission_fits(&s, cap, &err), -EINVAL);
}

/* However much it asks for there; but not nothing, or one submitter could fill this host with keepers. */
static void a_run_elsewhere_needs_its_keeper(void **state)
{
	struct submission s = { .is_elsewhere = true };
	struct err err = { 0 };
	submission_need(&s, limits, cap);
	assert_int_equal(submission_fits(&s, cap, &err), 0);
	assert_in_range(s.job.need[SCHEDULE_MEMORY], 1 << 20, 64 << 20);
	assert_int_equal(s.job.need[SCHEDULE_CPUS], 0);
	assert_int_equal(s.job.need[SCHEDULE_PIDS], 1);
	assert_int_equal(s.memory_limit_bytes, 64 * GIB); /* what is shown is of the run */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_here_needs_its_limits),
		cmocka_unit_test(a_run_elsewhere_needs_its_keeper),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

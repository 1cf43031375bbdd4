/* Where the cgroup trees are, from the text of mountinfo. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "budget/hierarchy.h"

static void test_hybrid_with_each_controller_apart(void **state)
{
	CLEANUP_HIERARCHIES struct hierarchies h = { 0 };
	hierarchies_parse(
		"31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
		"32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
		"33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct\n"
		"34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
		"35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"
		"40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n"
		"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
		&h);
	assert_int_equal(h.n_v1, 3);
	assert_string_equal(h.v1[0].mount, "/sys/fs/cgroup/memory"); /* memory first, always */
	assert_string_equal(h.v1[1].mount, "/sys/fs/cgroup/cpu");
	assert_string_equal(h.v1[2].mount, "/sys/fs/cgroup/cpuacct");
	assert_string_equal(h.v2.mount, "/sys/fs/cgroup/unified");
	assert_int_equal(hierarchies_v1_controllers(&h),
			 LIMITER_MEMORY | LIMITER_CPU | CONTROLLER_BIT(CONTROLLER_CPUACCT));
}

static void test_controllers_mounted_together(void **state)
{
	CLEANUP_HIERARCHIES struct hierarchies h = { 0 };
	hierarchies_parse(
		"32 31 0:29 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
		"33 31 0:30 / /cg/with\\040blank rw a:1 b:2 - cgroup cgroup rw,pids,blkio\n",
		&h);
	assert_int_equal(h.n_v1, 2);
	assert_int_equal(h.v1[0].controllers, LIMITER_CPU | CONTROLLER_BIT(CONTROLLER_CPUACCT));
	assert_string_equal(h.v1[1].mount, "/cg/with blank");
	assert_null(h.v2.mount);
}

static void test_the_mount_that_shows_most_is_taken(void **state)
{
	CLEANUP_HIERARCHIES struct hierarchies h = { 0 };
	hierarchies_parse("1 2 0:1 /docker/abc /part rw - cgroup2 cgroup2 rw\n"
			  "1 2 0:1 / /whole rw - cgroup2 cgroup2 rw\n"
			  "1 2 0:1 /../.. /outside rw - cgroup cgroup rw,memory\n"
			  "1 2 0:1 /x /again rw - cgroup2 cgroup2 rw\n",
			  &h);
	assert_string_equal(h.v2.mount, "/whole");
	assert_string_equal(h.v2.root, "/");
	assert_int_equal(h.n_v1, 0);
}

static void test_broken_lines_are_passed_over(void **state)
{
	CLEANUP_HIERARCHIES struct hierarchies h = { 0 };
	hierarchies_parse("\n1\n1 2 3\n1 2 3 4 5 6 7 8\n1 2 3 4 5 6 -\n1 2 3 4 5 6 - cgroup2\n"
			  "1 2 3 4 5 6 - cgroup2 x\n",
			  &h);
	assert_null(h.v2.mount);
	assert_int_equal(h.n_v1, 0);
}

static void test_words(void **state)
{
	assert_int_equal(controllers_parse("cpuset cpu io memory hugetlb pids rdma\n"),
			 LIMITER_ALL | CONTROLLER_BIT(CONTROLLER_IO));
	assert_int_equal(controllers_parse("cpuacct mem memoryx"), 0);
	assert_int_equal(controllers_parse(""), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hybrid_with_each_controller_apart),
		cmocka_unit_test(test_controllers_mounted_together),
		cmocka_unit_test(test_the_mount_that_shows_most_is_taken),
		cmocka_unit_test(test_broken_lines_are_passed_over),
		cmocka_unit_test(test_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

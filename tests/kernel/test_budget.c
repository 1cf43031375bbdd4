/* The budget on whatever cgroup version this host has: limits that hold, counters that count, ends that leave nothing. */
#include "budget_fixture.h"

#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static const char *have(const struct budget_value *values, int n, const char *file)
{
	for (int i = 0; i < n; i++)
		if (str_eq(values[i].file, file))
			return values[i].have;
	return "(not in the receipt)";
}

static void test_limits_are_read_back(void **state)
{
	struct budget *b = fixture_create(*state, "readback");
	struct budget_value values[BUDGET_VALUES_MAX];
	int n = b->ops->receipt(b, values);
	assert_true(n >= 4);
	for (int i = 0; i < n; i++)
		assert_string_equal(values[i].want, values[i].have);
	bool v1 = str_eq(b->ops->name, "cgroup1");
	assert_string_equal(have(values, n, v1 ? "memory.limit_in_bytes" : "memory.max"),
			    "50331648"); /* 48 MiB + 1000, in whole pages */
	assert_string_equal(have(values, n, "pids.max"), "24");
	if (v1) {
		assert_string_equal(have(values, n, "cpu.cfs_quota_us"), "50000");
		assert_string_equal(have(values, n, "memory.swappiness"), "0");
	} else {
		assert_string_equal(have(values, n, "cpu.max"), "50000 100000");
		assert_string_equal(have(values, n, "memory.oom.group"), "1");
	}
	assert_string_equal(budget_missing(b), "");
	fixture_end(b);
}

static void body_eat(int fd)
{
	size_t size = 200 * MIB;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; p != MAP_FAILED && i < size; i += 4096)
		p[i] = 1;
	_exit(7);
}

static void test_memory_limit_kills_and_is_counted(void **state)
{
	struct budget *b = fixture_create(*state, "oom");
	struct pollfd oom = { .fd = b->ops->oom_fd(b), .events = b->ops->oom_events(b) };
	assert_true(oom.fd >= 0);
	pid_t pid = fixture_member(b, body_eat, NULL);
	int status = 0;
	assert_int_equal(poll(&oom, 1, 60000), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);

	struct usage u = fixture_usage(b);
	assert_true(u.oom_kills >= 1);
	assert_true(u.mem_limit_hits >= 1);
	assert_true(u.mem_peak_bytes > 0 && u.mem_peak_bytes <= 48 * MIB);
	for (int i = 0; i < 100 && poll(&oom, 1, 0) == 1; i++) {
		b->ops->oom_ack(b);
		(void)poll(NULL, 0, 20);
	}
	assert_int_equal(poll(&oom, 1, 0), 0);
	fixture_end(b);
}

static void body_spin(int fd)
{
	for (volatile unsigned long i = 0;; i++)
		;
}

static void test_cpu_quota_throttles(void **state)
{
	/* So little that it is used up even where others keep the machine busy: runs have a low weight. */
	struct fixture little = *(struct fixture *)*state;
	little.limits.at[LIMIT_CPUS].value = 20;
	struct budget *b = fixture_create(&little, "spin");
	(void)fixture_member(b, body_spin, NULL);
	struct usage u = { 0 };
	uint64_t deadline_ns = clock_monotonic_ns() + WAIT_NS;
	/* The time is counted when the group may go on again, after the period was. */
	while ((u.throttled_periods == 0 || u.throttled_usec == 0 || u.cpu_user_usec == 0) &&
	       clock_monotonic_ns() < deadline_ns) {
		(void)poll(NULL, 0, 50);
		u = fixture_usage(b);
	}
	assert_true(u.throttled_periods > 0);
	assert_true(u.throttled_usec > 0);
	assert_true(u.cpu_usec > 0 && u.cpu_user_usec > 0);
	assert_int_equal(u.pids, 1);
	fixture_end(b);
}

/* Forks until that fails, then writes the errno and how many were born. */
static void body_fork(int fd)
{
	int report[2] = { 0, 0 };
	for (;;) {
		pid_t pid = fork();
		if (pid == 0)
			for (;;)
				(void)pause();
		if (pid < 0)
			break;
		report[1]++;
	}
	report[0] = errno;
	ssize_t n = write(fd, report, sizeof(report));
	(void)n;
	for (;;)
		(void)pause();
}

static void test_pids_limit_refuses_forks(void **state)
{
	struct budget *b = fixture_create(*state, "forks");
	int report[2] = { 0, 0 }, fd = -1;
	(void)fixture_member(b, body_fork, &fd);
	assert_int_equal(read(fd, report, sizeof(report)), (int)sizeof(report));
	(void)close(fd);
	assert_int_equal(report[0], EAGAIN);
	assert_int_equal(report[1], 23);
	struct usage u = fixture_usage(b);
	assert_true(u.pids_limit_hits >= 1);
	assert_int_equal(u.pids, 24);
	assert_int_equal(u.pids_peak, 24);
	fixture_end(b);
}

static void body_deaf(int fd)
{
	(void)signal(SIGTERM, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	for (;;)
		(void)pause();
}

static void body_stopped(int fd)
{
	(void)raise(SIGSTOP);
	body_deaf(fd);
}

/* Each process is replaced by its child as fast as the kernel can: a pid is old as soon as it is read. */
static void body_relay(int fd)
{
	for (;;)
		if (fork() > 0)
			_exit(0);
}

static void test_kill_all_empties_the_group(void **state)
{
	struct budget *b = fixture_create(*state, "stubborn");
	(void)fixture_member(b, body_deaf, NULL);
	(void)fixture_member(b, body_stopped, NULL);
	(void)fixture_member(b, body_relay, NULL);
	(void)fixture_member(b, body_fork, NULL);
	assert_true(fixture_usage(b).pids >= 3);
	struct err err = { 0 };
	if (b->ops->kill_all(b, WAIT_NS, &err) < 0)
		fail_msg("%s", err.text);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	assert_int_equal(fixture_usage(b).pids, 0);
	fixture_end(b);
}

static void test_removal_leaves_nothing(void **state)
{
	struct fixture *f = *state;
	struct budget *b = fixture_create(f, "gone");
	CLEANUP_FREE char *path = xstrdup(b->ops->path(b));
	assert_true(fixture_exists(f, "gone"));
	struct err err = { 0 };
	assert_int_equal(b->ops->remove(b, &err), 0);
	assert_int_equal(b->ops->remove(b, &err), 0);
	for (int c = 0; c < CONTROLLER_COUNT_; c++)
		assert_true(fixture_open(f, (enum controller)c, path) < 0);
	struct usage u;
	assert_true(b->ops->read_usage(b, &u, &err) < 0);
	budget_free(b);
}

static void test_parent_has_the_aggregate_cap(void **state)
{
	struct fixture *f = *state;
	char text[64];
	for (int round = 0; round < 2; round++) {
		f->aggregate.at[LIMIT_PIDS].value = 300 + (unsigned)round;
		f->cpu_weight = round ? 50 : 0; /* 0: the default */
		struct budget *b = fixture_create(
			f, round ? "cap1" : "cap0"); /* a scope lasts as long as we are in it */
		bool systemd = str_eq(b->ops->name, "cgroup2-systemd");
		bool v1 = str_eq(b->ops->name, "cgroup1");
		CLEANUP_FREE char *path = systemd ? scope_slice_path(f->parent)
						  : xstrdup(f->parent);
		CLEANUP_FD int memory_fd = fixture_open(f, CONTROLLER_MEMORY, path);
		CLEANUP_FD int cpu_fd = fixture_open(f, CONTROLLER_CPU, path);
		CLEANUP_FD int pids_fd = fixture_open(f, CONTROLLER_PIDS, path);
		assert_true(memory_fd >= 0 && cpu_fd >= 0 && pids_fd >= 0);
		assert_int_equal(
			group_number(memory_fd, v1 ? "memory.limit_in_bytes" : "memory.max"),
			400 * MIB);
		(void)fs_read_small(cpu_fd, v1 ? "cpu.cfs_quota_us" : "cpu.max", text,
				    sizeof(text));
		assert_string_equal(text, v1 ? "90000" : "90000 100000");
		/* Any other group of the host has 1024, or 100. */
		assert_int_equal(group_number(cpu_fd, v1 ? "cpu.shares" : "cpu.weight"),
				 round ? (v1 ? 512 : 50) : (v1 ? 102 : 10));
		assert_int_equal(group_number(pids_fd, "pids.max"), 300 + round);
		fixture_end(b);
	}
}

static void test_more_cpus_than_the_cap(void **state)
{
	struct fixture *f = *state;
	f->limits.at[LIMIT_CPUS].value = 64000;
	struct budget *b = fixture_create(f, "wide");
	f->limits.at[LIMIT_CPUS].value = 500;
	struct budget_value values[BUDGET_VALUES_MAX];
	int n = b->ops->receipt(b, values);
	if (str_eq(b->ops->name, "cgroup1")) /* refuses more than the parent has */
		assert_string_equal(have(values, n, "cpu.cfs_quota_us"), "90000");
	else
		assert_string_equal(have(values, n, "cpu.max"), "6400000 100000");
	fixture_end(b);
}

static void test_existing_id_is_refused(void **state)
{
	struct fixture *f = *state;
	struct budget *b = fixture_create(f, "twice"), *second = NULL;
	struct budget_request request = fixture_request(f, "twice");
	struct err err = { 0 };
	assert_int_equal(budget_create(&request, &second, &err), -EEXIST);
	assert_int_equal(err.kind, ERR_CALLER);
	assert_null(second);
	assert_int_equal(fixture_usage(b).pids, 0); /* the first one is untouched */
	fixture_end(b);
}

static void test_hostile_names_are_refused(void **state)
{
	struct fixture *f = *state;
	const char *const ids[] = { "", ".", "..", "../x", "a/b", "a\nb", "-x" };
	struct budget *b = NULL;
	struct err err = { 0 };
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct budget_request request = fixture_request(f, ids[i]);
		assert_true(budget_create(&request, &b, &err) < 0);
		assert_int_equal(err.kind, ERR_CALLER);
		assert_true(budget_sweep(f->parent, ids[i], &err) < 0);
	}
	const char *const parents[] = { "", "/", "/x", "x/", "../x", "x/../y" };
	for (size_t i = 0; i < sizeof(parents) / sizeof(parents[0]); i++) {
		struct budget_request request = fixture_request(f, "ok");
		request.parent = parents[i];
		assert_int_equal(budget_create(&request, &b, &err), -EINVAL);
		assert_int_equal(err.kind, ERR_CALLER);
	}
	assert_null(b);
}

/* In a process of its own: makes and removes a group; 0, 17 (exists) or 1. */
static int creator(struct fixture *f, const char *id, int start_fd)
{
	char byte;
	struct budget_request request = fixture_request(f, id);
	struct budget *b = NULL;
	struct err err = { 0 };
	(void)!read(start_fd, &byte, 1);
	int r = budget_create(&request, &b, &err);
	if (r < 0) {
		if (r != -EEXIST)
			print_error("creator %s: %s\n", id, err.text);
		return r == -EEXIST ? 17 : 1;
	}
	(void)poll(NULL, 0, 200); /* long enough for the others of the same id to meet it */
	r = b->ops->remove(b, &err);
	budget_free(b);
	return r < 0;
}

static int run_creators(struct fixture *f, bool same_id, int n)
{
	int start[2], won = 0;
	assert_int_equal(pipe2(start, O_CLOEXEC), 0);
	for (int i = 0; i < n; i++)
		if (fork() == 0) {
			char id[16];
			(void)close(start[1]);
			(void)snprintf(id, sizeof(id), "c%d", same_id ? 99 : i);
			_exit(creator(f, id, start[0]));
		}
	(void)close(start[0]);
	(void)close(start[1]); /* all begin at once */
	for (int i = 0, status; i < n; i++) {
		assert_true(waitpid(-1, &status, 0) > 0);
		assert_true(WIFEXITED(status));
		assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 17);
		won += WEXITSTATUS(status) == 0;
	}
	return won;
}

static void test_creators_at_once(void **state)
{
	assert_int_equal(run_creators(*state, false, 6), 6);
	assert_true(run_creators(*state, true, 4) >= 1); /* a late one may find it free again */
}

static void test_sweep_of_a_dead_run(void **state)
{
	struct fixture *f = *state;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) { /* a keeper that dies with a member alive */
		struct budget *b = fixture_create(f, "dead");
		(void)fixture_member(b, body_deaf, NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(fixture_exists(f, "dead"));
	struct err err = { 0 };
	int r = budget_sweep(f->parent, "dead", &err);
	if (r < 0)
		fail_msg("%s", err.text);
	assert_int_equal(r, 1);
	int status = 0;
	assert_true(waitpid(-1, &status, 0) > 0); /* came to us as the subreaper */
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_false(fixture_exists(f, "dead"));
	assert_int_equal(budget_sweep(f->parent, "dead", &err), 0);
}

static void test_host_without_limiters(void **state)
{
	struct fixture *f = *state;
	struct budget_request request = fixture_request(f, "none");
	/* The version that this host does not have. */
	request.manager = f->host.v2.controllers & LIMITER_ALL ? CGROUP_V1 : CGROUP_V2;
	if (request.manager == CGROUP_V1 && hierarchies_v1_controllers(&f->host) & LIMITER_ALL)
		skip(); /* limiters in both trees */
	struct budget *b = NULL;
	struct err err = { 0 };
	request.may_miss_memory = true;
	assert_int_equal(budget_create(&request, &b, &err), -EOPNOTSUPP);
	assert_string_equal(err.layer, "cpu,pids");
	assert_non_null(strstr(err.text, "Remedy"));
	request.may_miss_cpu = request.may_miss_pids = true;
	assert_int_equal(budget_create(&request, &b, &err), 0);
	assert_string_equal(b->ops->name, "none");
	assert_string_equal(budget_missing(b), "memory,cpu,pids");
	budget_free(b);
}

static void test_born_in_the_group(void **state)
{
	struct budget *b = fixture_create(*state, "born");
	int fd = b->ops->clone_fd(b);
	if (str_eq(b->ops->name, "cgroup1")) {
		assert_int_equal(fd, -EOPNOTSUPP);
	} else {
		struct clone_args args = { .flags = CLONE_INTO_CGROUP,
					   .exit_signal = SIGCHLD,
					   .cgroup = (uint64_t)fd };
		long pid = syscall(SYS_clone3, &args, sizeof(args));
		assert_true(pid >= 0);
		if (pid == 0)
			for (;;)
				(void)pause();
		assert_int_equal(fixture_usage(b).pids, 1);
	}
	fixture_end(b);
}

int main(void)
{
	if (geteuid() != 0 && !scope_host_has_systemd()) {
		(void)fprintf(stderr, "skipped: needs root or a systemd user manager\n");
		return 77;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limits_are_read_back),
		cmocka_unit_test(test_memory_limit_kills_and_is_counted),
		cmocka_unit_test(test_cpu_quota_throttles),
		cmocka_unit_test(test_pids_limit_refuses_forks),
		cmocka_unit_test(test_kill_all_empties_the_group),
		cmocka_unit_test(test_removal_leaves_nothing),
		cmocka_unit_test(test_parent_has_the_aggregate_cap),
		cmocka_unit_test(test_more_cpus_than_the_cap),
		cmocka_unit_test(test_existing_id_is_refused),
		cmocka_unit_test(test_hostile_names_are_refused),
		cmocka_unit_test(test_creators_at_once),
		cmocka_unit_test(test_sweep_of_a_dead_run),
		cmocka_unit_test(test_host_without_limiters),
		cmocka_unit_test(test_born_in_the_group),
	};
	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}

/* Children that cannot be watched: nothing of them is left. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/proc.h"
#include "serve/child.h"

static struct rlimit before;
static pid_t spawned;

/* Leaves room for so many descriptors more. */
static void leave_descriptors(int n)
{
	int fds[16], last = -1;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	for (int i = 0; i < n + 1; i++)
		last = fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	for (int i = 0; i < n + 1; i++)
		(void)close(fds[i]);
	const struct rlimit tight = { (rlim_t)last, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
}

static void is_gone(pid_t pid)
{
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static pid_t sleeper(void)
{
	pid_t pid = fork();
	while (pid == 0)
		(void)pause();
	return pid;
}

static void a_child_without_a_descriptor_is_killed_and_reaped(void **state)
{
	pid_t pid = sleeper();
	leave_descriptors(1);
	int fd = proc_pidfd_of_child(pid); /* the control: there is room for one */
	assert_true(fd >= 0);
	assert_int_equal(kill(pid, 0), 0);
	assert_int_equal(proc_pidfd_of_child(pid), -EMFILE);
	(void)close(fd);
	is_gone(pid);
}

int __real_posix_spawn(pid_t *ret, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]);
int __wrap_posix_spawn(pid_t *ret, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]);

/* Another program in place of cupel, and after it no descriptor is left. */
int __wrap_posix_spawn(pid_t *ret, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	char *const sleep[] = { (char *)"sleep", (char *)"1000", NULL };
	int r = __real_posix_spawn(&spawned, "/bin/sleep", actions, attributes, sleep, envp);
	*ret = spawned;
	leave_descriptors(0);
	return r;
}

static void on_done(void *data, const struct child_result *result)
{
	*(int *)data = result->status;
}

static void the_service_hears_of_one_that_cannot_be_watched(void **state)
{
	sd_event *event = NULL;
	struct err err = { 0 };
	CLEANUP_STRV struct strv words = { 0 };
	strv_add(&words, "list");
	assert_true(sd_event_new(&event) >= 0);
	struct children *children = children_new(event);
	for (int goes_on = 0; goes_on < 2; goes_on++) {
		int status = 99;
		const struct child_request q = { .words = &words, .goes_on = goes_on };
		assert_int_equal(child_run(children, &q, on_done, &status, &err), 0);
		assert_int_equal(status, -1);
		is_gone(spawned);
	}
	children_free(children);
	sd_event_unref(event);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_without_a_descriptor_is_killed_and_reaped),
		cmocka_unit_test(the_service_hears_of_one_that_cannot_be_watched),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

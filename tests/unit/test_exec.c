/* exec_search: PATH of the new program, with the current directory for an empty element. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/exec.h"

#define FOUND 7

static char directory[] = "/tmp/cupel-exec-XXXXXX";

static int set_up(void **state)
{
	static const char script[] = "#!/bin/sh\nexit 7\n";
	assert_non_null(mkdtemp(directory));
	assert_int_equal(chdir(directory), 0);
	int fd = open("tool", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	assert_int_equal(write(fd, script, sizeof script - 1), sizeof script - 1);
	assert_int_equal(close(fd), 0);
	fd = open("plain", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	assert_int_equal(close(fd), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)unlink("tool");
	(void)unlink("plain");
	assert_int_equal(chdir("/"), 0);
	return rmdir(directory);
}

/* The exit status of the program, or 100 and the errno. */
static int run(const char *program, const char *environment)
{
	int status = 0;
	pid_t pid = fork();
	if (pid == 0) {
		char *const argv[] = { (char *)program, NULL };
		char *const envp[] = { (char *)environment, NULL };
		_exit(100 + exec_search(argv, envp));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void an_empty_element_is_the_current_directory(void **state)
{
	static const char *const paths[] = { "PATH=",
					     "PATH=:/nonexistent",
					     "PATH=/nonexistent:",
					     "PATH=/nonexistent::/dev",
					     "PATH=.",
					     NULL };
	for (const char *const *path = paths; *path; path++)
		assert_int_equal(run("tool", *path), FOUND);
}

static void without_one_it_is_not(void **state)
{
	assert_int_equal(run("tool", "PATH=/nonexistent"), 100 + ENOENT);
	assert_int_equal(run("tool", "PATH=/nonexistent:/dev"), 100 + ENOENT);
	assert_int_equal(run("tool", "HOME=/"), 100 + ENOENT);
	assert_int_equal(run("true", "PATH=/nonexistent:/bin:/usr/bin"), 0);
}

static void the_most_telling_error_counts(void **state)
{
	assert_int_equal(run("plain", "PATH=:/nonexistent"), 100 + EACCES);
	assert_int_equal(run("./plain", "PATH=/bin"), 100 + EACCES);
	assert_int_equal(run("./tool", "PATH=/nonexistent"), FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_element_is_the_current_directory),
		cmocka_unit_test(without_one_it_is_not),
		cmocka_unit_test(the_most_telling_error_counts),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}

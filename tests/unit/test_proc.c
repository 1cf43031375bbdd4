/* proc: statuses as from waitpid, signals by descriptor, the parent only while it is ours. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/proc.h"

static void exit_status_and_reaping(void **state)
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		_exit(42);
	CLEANUP_FD int fd = proc_pidfd_open(pid);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(proc_wait(fd, &status), 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 42);
	assert_int_equal(proc_wait(fd, &status), -ECHILD);
	assert_int_equal(proc_signal(fd, SIGKILL), -ESRCH);
}

static void killed_by_signal(void **state)
{
	pid_t pid = fork();
	int status = 0;

	while (pid == 0)
		(void)pause();
	CLEANUP_FD int fd = proc_pidfd_open(pid);
	assert_true(fd >= 0);
	assert_int_equal(proc_pidfd_open(-1), -EINVAL);
	assert_int_equal(proc_signal(fd, SIGKILL), 0);
	assert_int_equal(proc_wait(fd, &status), 0);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

/* The kernel reports a reset before the message when words of ours were never read. */
static void last_words_of_one_who_did_not_listen(void **state)
{
	int fds[2];
	char word[8] = "";

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(send(fds[0], "unread", 6, 0), 6);
	assert_int_equal(send(fds[1], "bye", 4, 0), 4);
	assert_int_equal(close(fds[1]), 0);
	assert_int_equal(proc_recv(fds[0], word, sizeof word, 0), 4);
	assert_string_equal(word, "bye");
	assert_int_equal(proc_recv(fds[0], word, sizeof word, 0), 0);
	assert_int_equal(close(fds[0]), 0);
	assert_int_equal(proc_recv(fds[0], word, sizeof word, 0), -1);
	assert_int_equal(errno, EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exit_status_and_reaping),
		cmocka_unit_test(killed_by_signal),
		cmocka_unit_test(last_words_of_one_who_did_not_listen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

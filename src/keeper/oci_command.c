/* The runtime as a program: one process a command, none of our environment, its messages in a log of the bundle. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/proc.h"
#include "keeper/launch_parts.h"
#include "keeper/oci.h"

#define LOG_MAX 65536

int oci_hide_unified(void)
{
	return umount2("/sys/fs/cgroup/unified", MNT_DETACH) < 0 ? -errno : 0;
}

int oci_exec(const struct oci_box *o, const char *const words[])
{
	static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", NULL };
	const char *argv[128];
	size_t n = 0;
	sigset_t none;
	for (size_t i = 0; i < o->command.n && n < 100; i++)
		argv[n++] = o->command.v[i];
	for (size_t i = 0; words[i] && n < 127; i++)
		argv[n++] = words[i];
	argv[n] = NULL;
	sigemptyset(&none);
	for (int number = 1; number < NSIG; number++)
		(void)signal(number, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)execve(argv[0], (char *const *)argv, (char *const *)env);
	return -errno;
}

/* Between fork and exec, perhaps of a process with threads: system calls only. */
static _Noreturn void become(const struct oci_box *o, const char *const words[], int null_fd)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int fd = 0; fd < 3; fd++)
		if (dup3(null_fd, fd, 0) < 0)
			_exit(126);
	if (o->runtime.hides_unified &&
	    (unshare(CLONE_NEWNS) < 0 || mount("", "/", "", MS_REC | MS_PRIVATE, NULL) < 0 ||
	     oci_hide_unified() < 0))
		_exit(126);
	(void)oci_exec(o, words);
	_exit(127);
}

/* The last line that says something, without the wrapping. */
static void last_word(const struct oci_box *o, char *ret, size_t room)
{
	CLEANUP_FREE char *path = xasprintf("%s/log", o->dir);
	CLEANUP_FREE char *text = xcalloc(1, LOG_MAX + 1);
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	ssize_t n = size > 0 ? pread(fd, text, LOG_MAX, size > LOG_MAX ? size - LOG_MAX : 0) : 0;
	(void)snprintf(ret, room, "it says nothing");
	while (n > 0 && text[n - 1] == '\n')
		text[--n] = 0;
	const char *line = n > 0 ? strrchr(text, '\n') : NULL;
	line = line ? line + 1 : text;
	if (n <= 0)
		return;
	CLEANUP_JSON json_t *words = json_loads(line, 0, NULL);
	const char *message = json_string_value(json_object_get(words, "msg"));
	(void)snprintf(ret, room, "%.600s", message ? message : line);
}

int oci_failed(const struct oci_box *o, const char *what, struct err *err)
{
	char says[700];
	last_word(o, says, sizeof says);
	return err_set(err, ERR_HOST, EIO, "%.90s: %s fails: %.600s", o->runtime.version, what,
		       says);
}

int oci_command(const struct oci_box *o, const char *const words[], struct err *err)
{
	int status = 0;
	CLEANUP_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd < 0)
		return err_errno(err, "open /dev/null");
	pid_t pid = fork();
	if (pid < 0)
		return err_errno(err, "start %s", o->command.v[0]);
	if (pid == 0)
		become(o, words, null_fd);
	CLEANUP_FD int pid_fd = proc_pidfd_of_child(pid);
	if (pid_fd < 0)
		return err_set(err, ERR_HOST, -pid_fd, "watch %s: %s", o->command.v[0],
			       strerrordesc_np(-pid_fd));
	struct pollfd ended = { .fd = pid_fd, .events = POLLIN };
	if (poll(&ended, 1, LAUNCH_TIMEOUT_MS) <= 0)
		(void)proc_signal(pid_fd, SIGKILL);
	int r = proc_wait(pid_fd, &status);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "wait for %s", o->command.v[0]);
	return status == 0 ? 0 : oci_failed(o, words[0], err);
}

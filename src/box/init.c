/* Pid 1 of the box: starts the analysis, passes signals on, reaps whoever is orphaned, and tells how the analysis ended. When it
 * exits the kernel ends everything that is left in the box. It shares the analysis's confinement and cannot be read or traced. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/exec.h"
#include "box/enter.h"

static void tell(int control_fd, const struct box_msg *msg)
{
	(void)send(control_fd, msg, sizeof *msg, MSG_NOSIGNAL);
}

_Noreturn void init_become(char *const argv[], char *const envp[], volatile int *ret_error)
{
	sigset_t none;
	sigemptyset(&none);
	/* By the system call: glibc keeps two signals for itself and refuses to touch them, yet make ignores them in its children. The
	 * struct is the kernel's: handler, flags, restorer, mask. */
	static const unsigned long by_default[4];
	for (int signal_number = 1; signal_number < NSIG; signal_number++)
		(void)syscall(SYS_rt_sigaction, signal_number, by_default, NULL,
			      sizeof by_default[3]);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)setsid();
	int error = exec_search(argv, envp);
	*ret_error = error;
	_exit(error == ENOENT ? 127 : 126);
}

static pid_t start(const struct plan *plan, int control_fd)
{
	volatile int error = 0;
	/* Copying init's memory would cost more than all the rest of the start. Init waits here until exec, or until it failed; the
	 * child is our own code until then, and returns to nobody.
	 * NOLINTBEGIN(clang-analyzer-security.insecureAPI.vfork, clang-analyzer-unix.Vfork) */
	pid_t pid = vfork();
	if (pid < 0) {
		struct box_msg msg = { .kind = BOX_MSG_EXEC_FAILED, .exec_errno = errno };
		tell(control_fd, &msg);
		_exit(1);
	}
	if (pid == 0)
		init_become(plan->argv.v, plan->env.v, &error);
	/* NOLINTEND(clang-analyzer-security.insecureAPI.vfork, clang-analyzer-unix.Vfork) */
	struct box_msg msg = { .kind = BOX_MSG_STARTED };
	if (error)
		msg = (struct box_msg){ .kind = BOX_MSG_EXEC_FAILED, .exec_errno = error };
	tell(control_fd, &msg);
	return pid;
}

static void obey(int control_fd, pid_t main_pid)
{
	struct box_cmd cmd;
	ssize_t n = recv(control_fd, &cmd, sizeof cmd, MSG_DONTWAIT);
	if (n == 0)
		_exit(1); /* no keeper, no box */
	if (n != sizeof cmd)
		return;
	if (cmd.kind == BOX_CMD_SIGNAL_MAIN)
		(void)kill(main_pid, cmd.signal);
	if (cmd.kind == BOX_CMD_SIGNAL_ALL)
		(void)kill(-1, cmd.signal);
}

static void reap(int control_fd, pid_t main_pid)
{
	struct box_msg msg = { .kind = BOX_MSG_EXITED };
	for (;;) {
		pid_t pid = waitpid(-1, &msg.exited, WNOHANG);
		if (pid <= 0)
			return;
		if (pid == main_pid) {
			tell(control_fd, &msg);
			_exit(0);
		}
	}
}

_Noreturn void init_run(const struct box_entry *e, int control_fd)
{
	sigset_t all, child;
	sigfillset(&all);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	int signal_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_fd < 0)
		_exit(1);
	pid_t main_pid = start(e->plan, control_fd);
	for (;;) {
		struct pollfd fds[] = { { .fd = signal_fd, .events = POLLIN },
					{ .fd = control_fd, .events = POLLIN } };
		struct signalfd_siginfo info;
		if (poll(fds, 2, -1) < 0)
			continue;
		while (read(signal_fd, &info, sizeof info) == sizeof info)
			;
		reap(control_fd, main_pid);
		if (fds[1].revents)
			obey(control_fd, main_pid);
	}
}

/* Processes as pidfds: a number may be given to another process, a descriptor may not. */
#include "base/proc.h"

#include <errno.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

int proc_pidfd_open(pid_t pid)
{
	int fd = pidfd_open(pid, 0); /* always close-on-exec */

	return fd < 0 ? -errno : fd;
}

int proc_signal(int pidfd, int signal)
{
	return pidfd_send_signal(pidfd, signal, NULL, 0) < 0 ? -errno : 0;
}

static int status_from(const siginfo_t *info)
{
	if (info->si_code == CLD_EXITED)
		return W_EXITCODE(info->si_status, 0);
	return W_EXITCODE(0, info->si_status) | (info->si_code == CLD_DUMPED ? WCOREFLAG : 0);
}

int proc_wait(int pidfd, int *ret_status)
{
	siginfo_t info = { 0 };

	while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0)
		if (errno != EINTR)
			return -errno;
	if (ret_status)
		*ret_status = status_from(&info);
	return 0;
}

ssize_t proc_recv(int socket_fd, void *msg, size_t room, int flags)
{
	ssize_t n;
	do
		n = recv(socket_fd, msg, room, flags);
	while (n < 0 && (errno == ECONNRESET || errno == EINTR));
	return n;
}

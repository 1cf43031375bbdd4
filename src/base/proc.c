/* Processes as pidfds: a number may be given to another process, a descriptor may not. */
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
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

int proc_send_fd(int socket_fd, const void *msg, size_t length, int fd)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec part = { .iov_base = (void *)msg, .iov_len = length };
	struct msghdr packet = { .msg_iov = &part, .msg_iovlen = 1 };
	if (fd >= 0) {
		packet.msg_control = &control;
		packet.msg_controllen = sizeof control;
		control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
						   .cmsg_type = SCM_RIGHTS,
						   .cmsg_len = CMSG_LEN(sizeof fd) };
		memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
	}
	ssize_t n;
	do
		n = sendmsg(socket_fd, &packet, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n == (ssize_t)length ? 0 : -EIO;
}

ssize_t proc_recv_fd(int socket_fd, void *msg, size_t room, int *ret_fd)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec part = { .iov_base = msg, .iov_len = room };
	struct msghdr packet = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof control };
	ssize_t n;
	*ret_fd = -1;
	do
		n = recvmsg(socket_fd, &packet, MSG_CMSG_CLOEXEC);
	while (n < 0 && (errno == ECONNRESET || errno == EINTR));
	const struct cmsghdr *header = n < 0 ? NULL : CMSG_FIRSTHDR(&packet);
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(header), sizeof *ret_fd);
	return n;
}

static int spawn_setup(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attr, int error_fd)
{
	sigset_t none, all;
	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	int r = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
	if (r == 0)
		r = posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(actions, error_fd, 2);
	/* A keeper blocks signals to read them from a descriptor; a child must not inherit that. */
	if (r == 0)
		r = posix_spawnattr_setsigmask(attr, &none);
	if (r == 0)
		r = posix_spawnattr_setsigdefault(attr, &all);
	if (r == 0)
		r = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	return -r;
}

int proc_run(const char *program, char *const argv[], int error_fd)
{
	char *const env[] = { (char *)"PATH=/usr/sbin:/usr/bin:/sbin:/bin", (char *)"LC_ALL=C",
			      NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	pid_t pid = -1;
	int status = 0;
	if (posix_spawn_file_actions_init(&actions) != 0)
		return -ENOMEM;
	if (posix_spawnattr_init(&attr) != 0) {
		(void)posix_spawn_file_actions_destroy(&actions);
		return -ENOMEM;
	}
	int r = spawn_setup(&actions, &attr, error_fd);
	if (r == 0)
		r = -posix_spawn(&pid, program, &actions, &attr, argv, env);
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)posix_spawnattr_destroy(&attr);
	if (r < 0)
		return r;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return status;
}

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
#include <unistd.h>

#include "base/cleanup.h"

int proc_pidfd_open(pid_t pid)
{
	int fd = pidfd_open(pid, 0); /* always close-on-exec */

	return fd < 0 ? -errno : fd;
}

/* Until it is reaped, its number is no other process's and no other group's. */
void proc_kill_child(pid_t pid)
{
	(void)kill(-pid, SIGKILL);
	(void)kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

int proc_pidfd_of_child(pid_t pid)
{
	int fd = proc_pidfd_open(pid);
	if (fd < 0)
		proc_kill_child(pid);
	return fd;
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

struct spawning {
	const char *program; /* a path, or a name to be found in PATH */
	char *const *argv;
	char *const *env;
	int fds[3]; /* of the new process; -1: none */
};

static int spawn_setup(const struct spawning *q, posix_spawn_file_actions_t *actions,
		       posix_spawnattr_t *attr)
{
	sigset_t none, all;
	int r = 0;
	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	for (int fd = 0; r == 0 && fd < 3; fd++)
		r = q->fds[fd] < 0 ? posix_spawn_file_actions_addopen(actions, fd, "/dev/null",
								      fd ? O_WRONLY : O_RDONLY, 0)
				   : posix_spawn_file_actions_adddup2(actions, q->fds[fd], fd);
	/* A keeper blocks signals to read them from a descriptor; a child must not inherit that. */
	if (r == 0)
		r = posix_spawnattr_setsigmask(attr, &none);
	if (r == 0)
		r = posix_spawnattr_setsigdefault(attr, &all);
	if (r == 0)
		r = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	return -r;
}

/* Its pid, or negative errno. */
static pid_t spawn(const struct spawning *q)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	pid_t pid = -1;
	if (posix_spawn_file_actions_init(&actions) != 0)
		return -ENOMEM;
	if (posix_spawnattr_init(&attr) != 0) {
		(void)posix_spawn_file_actions_destroy(&actions);
		return -ENOMEM;
	}
	int r = spawn_setup(q, &actions, &attr);
	if (r == 0)
		r = -posix_spawnp(&pid, q->program, &actions, &attr, q->argv, q->env);
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)posix_spawnattr_destroy(&attr);
	return r < 0 ? r : pid;
}

int proc_run(const char *program, char *const argv[], int error_fd)
{
	char *const env[] = { (char *)"PATH=/usr/sbin:/usr/bin:/sbin:/bin", (char *)"LC_ALL=C",
			      NULL };
	struct spawning q = { program, argv, env, { -1, -1, error_fd } };
	int status = 0;
	pid_t pid = spawn(&q);
	if (pid < 0)
		return pid;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return status;
}

int proc_start(char *const argv[], pid_t *ret_pid, int *ret_fd)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	CLEANUP_FD int ours = ends[0];
	CLEANUP_FD int theirs = ends[1];
	struct spawning q = { argv[0], argv, environ, { theirs, theirs, STDERR_FILENO } };
	pid_t pid = spawn(&q);
	if (pid < 0)
		return pid;
	*ret_pid = pid;
	*ret_fd = take_fd(&ours);
	return 0;
}

/* Acts that a box must refuse, and the same acts outside of it: a refusal counts only where they succeed without the box. None changes
 * anything where it succeeds. */
#include "doctor/acts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ptrace.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"

static int outcome(long r)
{
	return r < 0 ? errno : 0;
}

int act_open(const char *path, int flags)
{
	CLEANUP_FD int fd = open(path, flags | O_CLOEXEC | O_NOCTTY, 0600);
	return outcome(fd);
}

int act_connect_tcp(unsigned port)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	CLEANUP_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return fd < 0 ? errno : outcome(connect(fd, (const struct sockaddr *)&to, sizeof to));
}

int act_connect_abstract(const char *name)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	socklen_t length = abstract_address(name, &to);
	CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return fd < 0 ? errno : outcome(connect(fd, (const struct sockaddr *)&to, length));
}

unsigned abstract_address(const char *name, struct sockaddr_un *ret)
{
	size_t length = strnlen(name, sizeof ret->sun_path - 1);
	ret->sun_path[0] = '\0';
	memcpy(ret->sun_path + 1, name, length);
	return (unsigned)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

int act_listen(int *ret_fd, unsigned *ret_port)
{
	struct sockaddr_in own = { .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof own;
	CLEANUP_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&own, sizeof own) < 0 ||
	    listen(fd, 4) < 0 || getsockname(fd, (struct sockaddr *)&own, &length) < 0)
		return errno;
	*ret_port = ntohs(own.sin_port);
	*ret_fd = take_fd(&fd);
	return 0;
}

int act_segment(int segment)
{
	struct shmid_ds info;
	return outcome(shmctl(segment, IPC_STAT, &info));
}

/* Each with arguments that let it do nothing: what counts is whether the kernel looks at them at all. */
size_t act_calls(struct act_call ret[ACT_CALLS_MAX])
{
	pid_t self = getpid();
	const struct act_call calls[] = {
		{ "unshare", outcome(syscall(SYS_unshare, 0)) },
		{ "setns", outcome(syscall(SYS_setns, -1, 0)) },
		{ "kcmp", outcome(syscall(SYS_kcmp, self, self, 1, 0, 0)) },
		{ "keyctl", outcome(syscall(SYS_keyctl, 9999, 0, 0, 0, 0)) },
		{ "ptrace", outcome(syscall(SYS_ptrace, PTRACE_CONT, 0, 0, 0)) },
		{ "process_vm_readv",
		  outcome(syscall(SYS_process_vm_readv, self, NULL, 0, NULL, 0, 0)) },
		{ "io_uring_setup", outcome(syscall(SYS_io_uring_setup, 0, NULL)) },
		{ "bpf", outcome(syscall(SYS_bpf, -1, NULL, 0)) },
		{ "perf_event_open", outcome(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0)) },
		{ "fsopen", outcome(syscall(SYS_fsopen, NULL, 0)) },
	};
	_Static_assert(sizeof calls / sizeof *calls <= ACT_CALLS_MAX, "room for them");
	memcpy(ret, calls, sizeof calls);
	return sizeof calls / sizeof *calls;
}

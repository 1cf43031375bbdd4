/* Ends all processes of a group where the kernel has no single call for it (v1, v2 before 5.14).
 *
 * A pid read from cgroup.procs may be somebody else's by the time it is signalled. So: read the pids,
 * open a pidfd of each, read again, and signal only pidfds whose pid is still listed. A pidfd that is
 * a stranger's then belongs to a process that is dead. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/num.h"
#include "base/proc.h"
#include "base/str.h"
#include "budget/group.h"

#define BATCH 128

struct member {
	pid_t pid;
	int pidfd; /* owned */
	bool confirmed;
};

struct members {
	struct member v[BATCH];
	size_t n;
};

static void members_release(struct members *m)
{
	for (size_t i = 0; i < m->n; i++)
		cleanup_fd(&m->v[i].pidfd);
	m->n = 0;
}

static void member_add(struct members *m, pid_t pid)
{
	if (m->n >= BATCH)
		return;
	int pidfd = proc_pidfd_open(pid);
	if (pidfd < 0)
		return;
	/* Older kernels list zombies too; they are no longer ours to end. */
	struct pollfd dead = { .fd = pidfd, .events = POLLIN };
	if (poll(&dead, 1, 0) == 1) {
		(void)close(pidfd);
		return;
	}
	m->v[m->n++] = (struct member){ .pid = pid, .pidfd = pidfd };
}

static void member_confirm(struct members *m, pid_t pid)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->v[i].pid == pid)
			m->v[i].confirmed = true;
}

/* Calls `each` with every member's pid as it is seen from here. */
static int members_read(int dir_fd, struct members *m, void (*each)(struct members *, pid_t))
{
	CLEANUP_FD int fd = openat(dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ENODEV ? 0 : -errno;
	CLEANUP_FILE FILE *file = fdopen(fd, "re");
	if (!file)
		return -errno;
	(void)take_fd(&fd);
	char line[32];
	while (fgets(line, sizeof(line), file)) {
		uint64_t pid = 0;
		line[strcspn(line, "\n")] = '\0';
		/* 0: a process of a pid namespace that cannot be seen from here. */
		if (num_u64(line, INT32_MAX, &pid) == 0 && pid != 0 && (pid_t)pid != getpid())
			each(m, (pid_t)pid);
	}
	return 0;
}

/* One round over one group: how many were signalled and seen to die, or -ETIMEDOUT. */
static int kill_round(int dir_fd, uint64_t deadline_ns, struct err *err)
{
	__attribute__((cleanup(members_release))) struct members m = { 0 };
	int r = members_read(dir_fd, &m, member_add);
	if (r >= 0)
		r = members_read(dir_fd, &m, member_confirm);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "read cgroup.procs: %s", strerror(-r));

	for (size_t i = 0; i < m.n; i++) {
		r = m.v[i].confirmed ? proc_signal(m.v[i].pidfd, SIGKILL) : 0;
		if (r < 0 && r != -ESRCH)
			return err_set(err, ERR_HOST, -r, "kill process %d: %s", (int)m.v[i].pid,
				       strerror(-r));
	}
	for (size_t i = 0; i < m.n; i++) {
		struct pollfd dead = { .fd = m.v[i].pidfd, .events = POLLIN };
		while (m.v[i].confirmed && (r = poll(&dead, 1, deadline_ms(deadline_ns))) <= 0) {
			if (r < 0 && errno != EINTR)
				return err_errno(err, "wait for process %d", (int)m.v[i].pid);
			if (deadline_ms(deadline_ns) == 0)
				return err_set(err, ERR_HOST, ETIMEDOUT,
					       "process %d did not die in time", (int)m.v[i].pid);
		}
	}
	return (int)m.n;
}

/* Nobody there, nor on the way out: then nobody can come either, since members are born of members. What counts processes counts them
 * until they are reaped, and who is in one group of a run is in all of them: only init, as its first act, joins one after the
 * other, and its keeper has reaped it by now. */
static bool all_empty(const int *dir_fds, size_t n)
{
	char text[32];
	for (size_t i = 0; i < n; i++)
		if (fs_read_small(dir_fds[i], "pids.current", text, sizeof text) >= 0)
			return str_eq(text, "0");
	for (size_t i = 0; i < n; i++)
		if (fs_read_small(dir_fds[i], "cgroup.procs", text, sizeof text) != 0)
			return false;
	return true;
}

int group_kill(const int *dir_fds, size_t n, uint64_t deadline_ns, struct err *err)
{
	if (all_empty(dir_fds, n))
		return 0;
	/* No new members while the old ones are ended: otherwise a fork bomb could outrun the loop. */
	for (size_t i = 0; i < n; i++)
		(void)fs_write_small(dir_fds[i], "pids.max", "0");
	for (;;) {
		int found = 0;
		for (size_t i = 0; i < n; i++) {
			int r = kill_round(dir_fds[i], deadline_ns, err);
			if (r < 0)
				return r;
			found += r;
		}
		if (found == 0)
			return 0;
		if (deadline_ms(deadline_ns) == 0)
			return err_set(err, ERR_HOST, ETIMEDOUT,
				       "the group keeps having new members");
	}
}

/* Files without a name, found through /proc/PID: what a process has open, maps, executes or stands in.
 *
 * The keeper owns the user namespace of the box, so the kernel lets it look into every process that was started by exec there
 * (ptrace(2), "Ptrace access mode checking"). Init and what it forks before exec are cupel's own code. */
#include "budget/unlinked.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/inodes.h"
#include "base/num.h"
#include "base/str.h"

#define DELETED    " (deleted)"
#define PF_EXITING 0x4 /* linux/sched.h */
/* The keeper does nothing else meanwhile, and so ends no run at its time limit. */
#define COUNT_MAX_NS (5 * NS_PER_SEC)

/* A mapped file that the kernel does not let us ask for its size: at least as long as what is mapped of it. */
struct mapped {
	size_t dev_at;
	ino_t ino;
	uint64_t end_bytes;
};

struct finding {
	const struct unlinked_request *q;
	struct inode_set seen[2]; /* one for each of q->devs */
	struct mapped *mapped;    /* owned */
	size_t n_mapped, room_mapped;
	uint64_t end_ns; /* monotonic; then it took too long */
	struct unlinked_use use;
};

static void finding_release(struct finding *f)
{
	for (size_t i = 0; i < 2; i++)
		inode_set_release(&f->seen[i]);
	cleanup_free(&f->mapped);
}

/* Which of the file systems, or 2 for none of them. */
static size_t dev_find(const struct finding *f, dev_t dev)
{
	size_t i = 0;
	while (i < 2 && f->q->devs[i] != dev)
		i++;
	return i;
}

/* Counts what the magic link leads to. A link that is gone is no failure: its process has closed it or is dead. Nor is a file that a server has
 * removed (ESTALE): the working directory is on no such file system. */
static int count_link(struct finding *f, int dir_fd, const char *name)
{
	struct stat st;
	if (clock_monotonic_ns() > f->end_ns)
		return -ETIME;
	if (fstatat(dir_fd, name, &st, AT_NO_AUTOMOUNT) < 0)
		return errno == ENOENT || errno == ESRCH || errno == ESTALE ? 0 : -errno;
	size_t at = dev_find(f, st.st_dev);
	if (st.st_nlink > 0 || at == 2 || !inode_set_add(&f->seen[at], st.st_ino))
		return 0;
	f->use.inodes++;
	f->use.bytes += (uint64_t)st.st_blocks * 512;
	return 0;
}

/* NULL with errno set if it can't be listed. */
static DIR *open_listing(int dir_fd, const char *name)
{
	CLEANUP_FD int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (dir)
		(void)take_fd(&fd); /* it is the stream's now */
	return dir;
}

static int count_descriptors(struct finding *f, int task_fd)
{
	CLEANUP_DIR DIR *dir = open_listing(task_fd, "fd");
	if (!dir)
		return -errno;
	const struct dirent *entry;
	while ((entry = readdir(dir))) {
		int r = entry->d_name[0] == '.' ? 0 : count_link(f, dirfd(dir), entry->d_name);
		if (r < 0)
			return r;
	}
	return 0;
}

static int mapped_order(const void *a, const void *b)
{
	const struct mapped *x = a, *y = b;
	if (x->dev_at != y->dev_at)
		return x->dev_at < y->dev_at ? -1 : 1;
	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	return x->end_bytes > y->end_bytes ? -1 : x->end_bytes < y->end_bytes;
}

/* Leaves one entry for each file: the one that reaches furthest. */
static void mapped_compact(struct finding *f)
{
	size_t n = 0;
	if (f->n_mapped > 1)
		qsort(f->mapped, f->n_mapped, sizeof(*f->mapped), mapped_order);
	for (size_t i = 0; i < f->n_mapped; i++)
		if (n == 0 || f->mapped[n - 1].ino != f->mapped[i].ino ||
		    f->mapped[n - 1].dev_at != f->mapped[i].dev_at)
			f->mapped[n++] = f->mapped[i];
	f->n_mapped = n;
}

/* -E2BIG: more files than any limit that is watched allows. Many processes map the same files, so room is made before it is asked for. */
static int note_mapped(struct finding *f, const struct mapped *mapped)
{
	if (f->n_mapped == f->room_mapped) {
		mapped_compact(f);
		if (f->q->max_inodes && f->n_mapped > f->q->max_inodes)
			return -E2BIG;
		if (2 * f->n_mapped >= f->room_mapped) {
			f->room_mapped = f->room_mapped ? 2 * f->room_mapped : 64;
			f->mapped = xreallocarray(f->mapped, f->room_mapped, sizeof(*f->mapped));
		}
	}
	f->mapped[f->n_mapped++] = *mapped;
	return 0;
}

/* The kernel's own text: a number, and the character behind it, which is passed over too. */
static bool take_number(const char **at, int base, char behind, uint64_t *ret)
{
	char *end = NULL;
	errno = 0;
	*ret = strtoull(*at, &end, base);
	if (errno || end == *at || *end != behind)
		return false;
	*at = end + 1;
	return true;
}

/* "START-END PERMS OFFSET MAJOR:MINOR INODE  PATH (deleted)", proc_pid_maps(5). */
static int count_mapping(struct finding *f, int process_fd, const char *line)
{
	const char *p = line;
	uint64_t start = 0, end = 0, offset = 0, major_of = 0, minor_of = 0, ino = 0;
	if (!take_number(&p, 16, '-', &start) || !take_number(&p, 16, ' ', &end))
		return 0;
	p += strcspn(p, " ");
	if (!take_number(&p, 16, ' ', &offset) || !take_number(&p, 16, ':', &major_of) ||
	    !take_number(&p, 16, ' ', &minor_of) || !take_number(&p, 10, ' ', &ino))
		return 0;
	size_t at = dev_find(f, makedev((unsigned)major_of, (unsigned)minor_of));
	if (at == 2 || inode_set_has(&f->seen[at], (ino_t)ino))
		return 0;
	char link[64];
	(void)snprintf(link, sizeof link, "map_files/%lx-%lx", (unsigned long)start,
		       (unsigned long)end);
	int r = count_link(f, process_fd, link);
	if (r != -EPERM && r != -EACCES)
		return r;
	return note_mapped(f, &(struct mapped){ .dev_at = at,
						.ino = (ino_t)ino,
						.end_bytes = offset + (end - start) });
}

static int count_mappings(struct finding *f, int process_fd)
{
	CLEANUP_FD int fd = openat(process_fd, "maps", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	CLEANUP_FILE FILE *file = fdopen(fd, "re");
	if (!file)
		return -errno;
	(void)take_fd(&fd);
	CLEANUP_FREE char *line = NULL;
	size_t room = 0;
	for (ssize_t n; (n = getline(&line, &room, file)) > 0;) {
		size_t tail = sizeof DELETED - 1;
		if (clock_monotonic_ns() > f->end_ns)
			return -ETIME;
		if (line[n - 1] == '\n')
			line[--n] = '\0';
		if ((size_t)n <= tail || !str_eq(line + (size_t)n - tail, DELETED))
			continue;
		int r = count_mapping(f, process_fd, line);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Threads mostly share one table of descriptors; where the kernel does not say so each is looked at. */
static bool shares_descriptors(pid_t pid, pid_t tid)
{
	return tid != pid && syscall(SYS_kcmp, pid, tid, KCMP_FILES, 0UL, 0UL) == 0;
}

static int count_thread(struct finding *f, int tasks_fd, const char *name)
{
	CLEANUP_FD int task_fd = openat(tasks_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (task_fd < 0)
		return -errno;
	int r = count_descriptors(f, task_fd);
	return r < 0 ? r : count_link(f, task_fd, "cwd");
}

/* A thread that ended meanwhile is none; its process may go on. */
static bool is_gone(int r)
{
	return r == -ENOENT || r == -ESRCH;
}

static bool is_refused(int r)
{
	return r == -EACCES || r == -EPERM;
}

/* Does the thread end, or has it ended? From exit_mm() on the kernel shows what it has open to root alone, for as long as it takes to close
 * all of it, and it can open nothing more. The first thread of a process may end before the others, and stays until they end, too.
 * PF_EXITING, the ninth field of proc_pid_stat(5), is the kernel's word: no process can set it. */
static bool is_ending(int tasks_fd, const char *name)
{
	char path[32], text[2048];
	uint64_t flags = 0;
	(void)snprintf(path, sizeof path, "%.20s/stat", name);
	ssize_t n = fs_read_small(tasks_fd, path, text, sizeof text);
	if (n < 0)
		return is_gone((int)n);
	const char *p = strrchr(text, ')');
	if (!p || p[1] != ' ')
		return false;
	p += 2;
	if (*p == 'Z' || *p == 'X')
		return true;
	for (int i = 0; i < 6; i++) { /* state, ppid, pgrp, session, tty_nr, tpgid */
		p += strcspn(p, " ");
		p += strspn(p, " ");
	}
	return take_number(&p, 10, ' ', &flags) && (flags & PF_EXITING);
}

/* *ret_living: a thread that has not ended, for what all of them share; 0 if there is none. */
static int count_threads(struct finding *f, int process_fd, pid_t pid, pid_t *ret_living)
{
	CLEANUP_DIR DIR *dir = open_listing(process_fd, "task");
	if (!dir)
		return -errno;
	const struct dirent *entry;
	while ((entry = readdir(dir))) {
		uint64_t tid = 0;
		if (num_u64(entry->d_name, INT32_MAX, &tid) < 0 ||
		    shares_descriptors(pid, (pid_t)tid))
			continue;
		int r = count_thread(f, dirfd(dir), entry->d_name);
		if (is_gone(r) || (is_refused(r) && is_ending(dirfd(dir), entry->d_name)))
			continue;
		if (r < 0)
			return r;
		if (!*ret_living && !is_ending(dirfd(dir), entry->d_name))
			*ret_living = (pid_t)tid;
	}
	return 0;
}

static int open_process(pid_t pid)
{
	char path[32];
	(void)snprintf(path, sizeof path, "/proc/%d", (int)pid);
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* What all threads share is asked of one that lives: the kernel has it for no other. */
static int count_shared(struct finding *f, pid_t living)
{
	CLEANUP_FD int fd = open_process(living);
	if (fd < 0)
		return fd;
	int r = count_link(f, fd, "exe");
	return r < 0 ? r : count_mappings(f, fd);
}

/* The pid may be another process's by now: its namespace tells. *ret_inside: it is one of the box's. */
static int count_process(struct finding *f, pid_t pid, bool *ret_inside)
{
	struct stat ns;
	pid_t living = 0;
	CLEANUP_FD int process_fd = open_process(pid);
	if (process_fd < 0)
		return process_fd;
	if (fstatat(process_fd, "ns/pid", &ns, 0) < 0)
		return -errno;
	if (f->q->pid_ns && ns.st_ino != f->q->pid_ns)
		return 0;
	*ret_inside = true;
	int r = count_threads(f, process_fd, pid, &living);
	return r < 0 || !living ? r : count_shared(f, living);
}

static void add_mapped(struct finding *f)
{
	mapped_compact(f);
	for (size_t i = 0; i < f->n_mapped; i++)
		if (inode_set_add(&f->seen[f->mapped[i].dev_at], f->mapped[i].ino)) {
			f->use.inodes++;
			f->use.bytes += f->mapped[i].end_bytes;
		}
}

/* A box's own process that may not be looked into could hide anything; of all processes of the host most are others'. */
static int count_pid(struct finding *f, const char *text, bool is_member)
{
	uint64_t pid = 0;
	if (num_u64(text, INT32_MAX, &pid) < 0 || pid == 0 || (pid_t)pid == f->q->init_pid ||
	    (pid_t)pid == getpid())
		return 0;
	int r = count_process(f, (pid_t)pid, &is_member);
	if (is_refused(r)) {
		f->use.unread += is_member;
		return 0;
	}
	return is_gone(r) ? 0 : r;
}

static int count_members(struct finding *f, int group_fd)
{
	CLEANUP_FD int fd = openat(group_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	CLEANUP_FILE FILE *file = fdopen(fd, "re");
	if (!file)
		return -errno;
	(void)take_fd(&fd);
	char line[32];
	int r = 0;
	while (r >= 0 && fgets(line, sizeof line, file)) {
		line[strcspn(line, "\n")] = '\0';
		r = count_pid(f, line, true);
	}
	return r;
}

/* Where no group has them: every process of the host that is in the box's pid namespace. */
static int count_namespace(struct finding *f)
{
	CLEANUP_DIR DIR *dir = opendir("/proc");
	const struct dirent *entry;
	int r = 0;
	if (!dir)
		return -errno;
	while (r >= 0 && (entry = readdir(dir)))
		r = count_pid(f, entry->d_name, false);
	return r;
}

int unlinked_measure(const struct unlinked_request *q, struct unlinked_use *ret)
{
	CLEANUP(finding_release)
	struct finding f = { .q = q, .end_ns = clock_monotonic_ns() + COUNT_MAX_NS };
	int group_fd = q->budget->ops->members_fd(q->budget);
	if (group_fd < 0 && !q->pid_ns)
		return -EOPNOTSUPP;
	int r = group_fd < 0 ? count_namespace(&f) : count_members(&f, group_fd);
	if (r < 0)
		return r;
	add_mapped(&f);
	*ret = f.use;
	return 0;
}

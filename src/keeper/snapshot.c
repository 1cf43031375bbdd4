#include "keeper/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/str.h"
#include "box/caps.h"

#define MAGIC          "SQLite format 3" /* with its NUL */
#define COPY_MS        (15 * 60 * 1000)
#define GROWTH_BYTES   ((uint64_t)64 << 20) /* that writers may add while it is copied */
#define COPY_ABANDONED 1

static uint64_t size_of(const char *path)
{
	struct stat st = { 0 };
	return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* With what a writer has put into the log beside it, and not yet into the file. */
static uint64_t size_with_log(const char *path)
{
	CLEANUP_FREE char *log = xasprintf("%s-wal", path);
	return size_of(path) + size_of(log);
}

static int check_size(const char *path, const char *origin, uint64_t max_bytes, struct err *err)
{
	char have[32], most[32];
	uint64_t bytes = size_with_log(path);
	if (bytes <= max_bytes)
		return 0;
	return err_set(
		err, ERR_CALLER, EFBIG,
		"%s: a copy of %s would have up to %s, more than the %s of disk that the run may use; "
		"raise it with --disk or limits: {disk: ...}",
		origin, path, num_print_size(bytes, have, sizeof have),
		num_print_size(max_bytes, most, sizeof most));
}

int snapshot_check(const char *path, const char *origin, uint64_t max_bytes, struct err *err)
{
	char head[sizeof MAGIC] = "";
	struct stat st = { 0 };
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, ERR_CALLER, errno, "%s: %s: %s", origin, path,
			       strerrordesc_np(errno));
	if (!S_ISREG(st.st_mode) || pread(fd, head, sizeof head, 0) != sizeof head ||
	    memcmp(head, MAGIC, sizeof head) != 0)
		return err_caller(
			err,
			"%s: %s is not an SQLite file, and a snapshot is made of nothing else; show other files with inputs: "
			"or --data",
			origin, path);
	return check_size(path, origin, max_bytes, err);
}

/* The rights of whom the file belongs to, and no capability: enough for what SQLite keeps beside the file (locks, -shm), and nothing that
 * a hostile file could make use of. */
static int become_owner(const struct stat *st, struct err *err)
{
	if (geteuid() == 0 &&
	    (setgroups(0, NULL) < 0 || setresgid(st->st_gid, st->st_gid, st->st_gid) < 0 ||
	     setresuid(st->st_uid, st->st_uid, st->st_uid) < 0))
		return err_errno(err, "become the owner of the database");
	int r = geteuid() == 0 ? caps_drop_all(err) : 0; /* others have none */
	if (r >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "give up new privileges");
	return r;
}

struct copying {
	const struct snapshot_request *q;
	struct stat source;
	int out_fd; /* owned; the copy */
	uint64_t room;
};

/* The keeper's descriptors of its records are not for whoever parses a file that may be hostile. */
static int close_others(int one_fd, int other_fd)
{
	unsigned low = (unsigned)(one_fd < other_fd ? one_fd : other_fd);
	unsigned high = (unsigned)(one_fd < other_fd ? other_fd : one_fd);
	const unsigned gaps[][2] = { { STDERR_FILENO + 1, low - 1 },
				     { low + 1, high - 1 },
				     { high + 1, ~0U } };
	for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++)
		if (gaps[i][0] <= gaps[i][1] && close_range(gaps[i][0], gaps[i][1], 0) < 0)
			return -errno;
	return 0;
}

static _Noreturn void child_main(const struct copying *c, int tell_fd, pid_t parent)
{
	struct err err = { 0 };
	(void)prctl(PR_SET_NAME, "cupel-snapshot");
	if (close_others(c->out_fd, tell_fd) < 0)
		_exit(COPY_ABANDONED);
	int r = become_owner(&c->source, &err);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(COPY_ABANDONED);
	if (r >= 0)
		r = snapshot_copy(c->q->path, &c->source, c->out_fd, c->room, &err);
	if (r < 0)
		(void)!write(tell_fd, &err, sizeof err);
	_exit(r < 0);
}

/* Waits for the child's word or its end; gives it up when somebody wants the run to end. */
static int hear(const struct copying *c, int hear_fd, struct err *ret_why, struct err *err)
{
	uint64_t until = clock_monotonic_ns() + COPY_MS * NS_PER_MS;
	for (;;) {
		struct pollfd fds[] = { { .fd = hear_fd, .events = POLLIN },
					{ .fd = c->q->wake_fds[0], .events = POLLIN },
					{ .fd = c->q->wake_fds[1], .events = POLLIN } };
		uint64_t now = clock_monotonic_ns();
		int n = now >= until ? 0 : poll(fds, 3, (int)((until - now) / NS_PER_MS + 1));
		if (n < 0 && errno != EINTR)
			return err_errno(err, "wait for the copy of %s", c->q->path);
		if (n == 0)
			return err_set(err, ERR_HOST, ETIMEDOUT,
				       "the copy of %s took more than %d minutes", c->q->path,
				       COPY_MS / 60000);
		if (n > 0 && fds[0].revents)
			return read(hear_fd, ret_why, sizeof *ret_why) == sizeof *ret_why;
		if (n > 0 && (fds[1].revents || fds[2].revents))
			return err_set(err, ERR_HOST, ECANCELED, "given up");
	}
}

static int copy_in_child(const struct copying *c, struct err *err)
{
	int pipe_fds[2], status = 0;
	struct err why = { 0 };
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_errno(err, "make a pipe");
	CLEANUP_FD int hear_fd = pipe_fds[0];
	CLEANUP_FD int tell_fd = pipe_fds[1];
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid < 0)
		return err_errno(err, "start the copy of %s", c->q->path);
	if (pid == 0)
		child_main(c, tell_fd, parent);
	FAULT_PHASE("snapshot-copying");
	cleanup_fd(&tell_fd);
	int said = hear(c, hear_fd, &why, err);
	if (said < 0)
		(void)kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (said < 0)
		return said;
	if (said) {
		why.text[sizeof why.text - 1] = 0;
		return err_set(err, ERR_HOST, why.code > 0 ? why.code : EIO, "%s", why.text);
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return err_set(err, ERR_HOST, EIO,
		       "the copy of %s was cut short (signal %d): is the disk of the records full?",
		       c->q->path, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

/* Room for it now rather than a write that fails in the middle. */
static int make_room(struct copying *c, struct err *err)
{
	uint64_t want = size_with_log(c->q->path) + GROWTH_BYTES;
	c->room = want < c->q->max_bytes ? want : c->q->max_bytes;
	c->out_fd = fs_open_beneath(c->q->dir_fd, SNAPSHOT_NAME,
				    O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0400);
	if (c->out_fd < 0)
		return err_set(err, ERR_HOST, -c->out_fd, "make the copy of %s: %s", c->q->path,
			       strerrordesc_np(-c->out_fd));
	/* The run's own uid reads it, where it is bound; the run directory itself is closed to all. */
	if (fchmod(c->out_fd, 0444) < 0)
		return err_errno(err, "make the copy of %s readable", c->q->path);
	int r = fallocate(c->out_fd, 0, 0, (off_t)c->room);
	if (r < 0 && errno == EOPNOTSUPP)
		r = ftruncate(c->out_fd, (off_t)c->room);
	return r < 0 ? err_errno(err, "make room for the copy of %s", c->q->path) : 0;
}

static void copying_release(struct copying *c)
{
	cleanup_fd(&c->out_fd);
}

/* Whoever owns the directory may have put another file there since the name was checked. As root the copy is made with the rights of its
 * owner, so it has to be one that all may read. */
static int look_at(const char *path, struct stat *ret, struct err *err)
{
	CLEANUP_FD int fd = fs_open_resolve(AT_FDCWD, path, O_PATH, 0,
					    RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	if (fd < 0 || fstat(fd, ret) < 0)
		return err_set(err, ERR_HOST, fd < 0 ? -fd : errno, "look at %s: %s", path,
			       strerrordesc_np(fd < 0 ? -fd : errno));
	if (!S_ISREG(ret->st_mode) || (geteuid() == 0 && !(ret->st_mode & S_IROTH)))
		return err_set(err, ERR_HOST, EACCES,
			       "%s is not the file any more that may be shown", path);
	return 0;
}

int snapshot_make(const struct snapshot_request *request, struct snapshot *ret, struct err *err)
{
	CLEANUP(copying_release) struct copying c = { .q = request, .out_fd = -1 };
	struct snapshot made = { 0 };
	struct stat st = { 0 };
	int r = look_at(request->path, &c.source, err);
	if (r >= 0)
		r = check_size(request->path, "db_snapshot", request->max_bytes, err);
	if (r >= 0)
		r = make_room(&c, err);
	if (r >= 0)
		r = copy_in_child(&c, err);
	if (r < 0)
		return r;
	if (fstat(c.out_fd, &st) < 0)
		return err_errno(err, "look at the copy of %s", request->path);
	made.bytes = (uint64_t)st.st_size;
	r = hash_file(c.out_fd, made.sha256);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "read the copy of %s: %s", request->path,
			       strerrordesc_np(-r));
	*ret = made;
	return 0;
}

int snapshot_remove(int dir_fd)
{
	return unlinkat(dir_fd, SNAPSHOT_NAME, 0) < 0 && errno != ENOENT ? -errno : 0;
}

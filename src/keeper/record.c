#include "keeper/record.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/path.h"
#include "base/str.h"

static int trust_home(const char *home, int home_fd, struct err *err)
{
	struct stat st;
	if (fstat(home_fd, &st) < 0)
		return err_errno(err, "look at %s", home);
	if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & 022))
		return err_set(
			err, ERR_CALLER, EPERM,
			"%s must belong to you and be writable for nobody else: its records could be exchanged; chmod go-w it, or "
			"name another home in CUPEL_HOME",
			home);
	return 0;
}

int record_home_trust(const char *home, struct err *err)
{
	CLEANUP_FD int home_fd = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (home_fd < 0)
		return errno == ENOENT ? 0 : err_errno(err, "open %s", home);
	return trust_home(home, home_fd, err);
}

int record_home(const char *home, struct err *err)
{
	static const char *const names[] = { "runs", "active", "undelivered", "cache", "tmp" };
	int r = fs_make_dirs(home, 0711, err);
	if (r < 0)
		return r;
	CLEANUP_FD int home_fd = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (home_fd < 0)
		return err_errno(err, "open %s", home);
	r = trust_home(home, home_fd, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (mkdirat(home_fd, names[i], 0700) < 0 && errno != EEXIST)
			return err_errno(err, "make %s/%s", home, names[i]);
	return 0;
}

/* -EAGAIN if another process holds it. */
static int lock_whole(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	return fcntl(fd, F_SETLK, &lock) < 0 ? (errno == EACCES ? -EAGAIN : -errno) : 0;
}

static int lock_wait(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	while (fcntl(fd, F_SETLKW, &lock) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

/* A finished run unlinks its entry while another waits for the lock: what was locked must still be what the name says. */
static bool still_named(int dir_fd, const char *name, int fd)
{
	struct stat by_name, by_fd;
	return fstatat(dir_fd, name, &by_name, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstat(fd, &by_fd) == 0 && by_name.st_ino == by_fd.st_ino &&
	       by_name.st_dev == by_fd.st_dev;
}

static int lock_active(int home_fd, const char *id, int flags, int *ret_fd)
{
	CLEANUP_FREE char *path = xasprintf("active/%s", id);
	for (int attempt = 0; attempt < 100; attempt++) {
		CLEANUP_FD int fd =
			fs_open_beneath(home_fd, path, O_RDWR | O_CLOEXEC | flags, 0600);
		if (fd < 0)
			return fd;
		int r = lock_whole(fd);
		if (r < 0)
			return r;
		if (still_named(home_fd, path, fd)) {
			*ret_fd = take_fd(&fd);
			return 0;
		}
	}
	return -EAGAIN;
}

static int open_events(struct record *r, int flags, struct err *err)
{
	r->events_fd = fs_open_beneath(r->dir_fd, "events.jsonl",
				       O_RDWR | O_APPEND | O_CLOEXEC | flags, 0600);
	return r->events_fd < 0 ? err_set(err, ERR_HOST, -r->events_fd, "open events.jsonl: %s",
					  strerrordesc_np(-r->events_fd))
				: 0;
}

/* The entry that was locked for an id which a complete run has: nothing is going on under it. */
static void drop_entry(const struct record *r, const char *run)
{
	CLEANUP_FREE char *verdict = xasprintf("%s/verdict.json", run);
	if (faccessat(r->home_fd, verdict, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		(void)record_owe(r); /* it may have been so before we came */
}

/* An entry is made, locked and given its directory, or looked at by a sweep, by one process at a time: a sweep that locked an entry
 * which is just being made would look like a run under the same id. Opens the home; the gate is held for microseconds, and until
 * *ret_fd is closed. */
static int gate_pass(struct record *r, const char *home, int *ret_fd, struct err *err)
{
	r->home_fd = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r->home_fd < 0)
		return err_errno(err, "open %s", home);
	CLEANUP_FD int fd =
		fs_open_beneath(r->home_fd, "active.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int e = fd < 0 ? fd : lock_wait(fd);
	if (e < 0)
		return err_set(err, ERR_HOST, -e, "lock %s/active.lock: %s", home,
			       strerrordesc_np(-e));
	*ret_fd = take_fd(&fd);
	return 0;
}

/* Of a directory that was just made. */
static int begin_record(struct record *r, const char *home, const struct record_traces *traces,
			struct err *err)
{
	CLEANUP_FREE char *run = xasprintf("runs/%s", r->id);
	CLEANUP_FREE char *text = xasprintf("%s\n%s\n", traces->work_dir, traces->cgroup_parent);
	int e = fs_write_all(r->active_fd, text, strlen(text));
	r->dir_fd = fs_open_beneath(r->home_fd, run, O_DIRECTORY | O_RDONLY | O_CLOEXEC, 0);
	if (e < 0 || r->dir_fd < 0)
		return err_set(err, ERR_HOST, e < 0 ? -e : -r->dir_fd,
			       "write the record of '%s' in %s: %s", r->id, home,
			       strerrordesc_np(e < 0 ? -e : -r->dir_fd));
	FAULT_PHASE("claim-noted");
	return open_events(r, O_CREAT | O_EXCL, err);
}

/* The lock is ours: nobody else begins or sweeps a run of this id. The entry goes last, as it does of a run. */
int record_unclaim(struct record *r)
{
	CLEANUP_FREE char *run = xasprintf("runs/%s", r->id);
	CLEANUP_FREE char *active = xasprintf("active/%s", r->id);
	if (r->dir_fd >= 0 && unlinkat(r->dir_fd, "events.jsonl", 0) < 0 && errno != ENOENT)
		return -errno;
	if (unlinkat(r->home_fd, run, AT_REMOVEDIR) < 0)
		return -errno;
	return unlinkat(r->home_fd, active, 0) < 0 ? -errno : 0;
}

static int claim(struct record *r, const char *home, const struct record_traces *traces,
		 struct err *err)
{
	CLEANUP_FREE char *run = xasprintf("runs/%s", r->id);
	CLEANUP_FD int gate_fd = -1;
	int e = gate_pass(r, home, &gate_fd, err);
	if (e < 0)
		return e;
	FAULT_PHASE("claim-gate");
	e = lock_active(r->home_fd, r->id, O_CREAT, &r->active_fd);
	if (e == -EAGAIN)
		return err_set(err, ERR_CALLER, EEXIST,
			       "the id '%s' is in use by a run that is going on; choose another",
			       r->id);
	if (e < 0)
		return err_set(err, ERR_HOST, -e, "lock %s/active/%s: %s", home, r->id,
			       strerrordesc_np(-e));
	FAULT_PHASE("claim-entry");
	if (mkdirat(r->home_fd, run, 0700) < 0) {
		if (errno != EEXIST)
			return err_errno(err, "make %s/%s", home, run);
		drop_entry(r, run);
		return err_set(
			err, ERR_CALLER, EEXIST,
			"the id '%s' was used before and its record is kept in %s/%s; choose another",
			r->id, home, run);
	}
	FAULT_PHASE("claim-directory");
	e = begin_record(r, home, traces, err);
	if (e < 0)
		(void)record_unclaim(r);
	return e;
}

int record_sync_claim(struct record *r, struct err *err)
{
	int e = record_sync(r, err);
	if (e < 0)
		return e;
	CLEANUP_FD int runs_fd =
		fs_open_beneath(r->home_fd, "runs", O_DIRECTORY | O_RDONLY | O_CLOEXEC, 0);
	if (runs_fd < 0 || fsync(runs_fd) < 0)
		return err_errno(err, "sync the directory of runs");
	return 0;
}

int record_claim(const char *home, const char *id, const struct record_traces *traces,
		 struct record *ret, struct err *err)
{
	struct record r = RECORD_INIT;
	r.id = xstrdup(id);
	memset(r.chain, '0', HASH_HEX - 1);
	int e = claim(&r, home, traces, err);
	FAULT_PHASE("claim-events");
	if (e < 0) {
		record_release(&r);
		return e;
	}
	*ret = r;
	return 0;
}

/* Goes on where the dead keeper stopped. A last line that a crash cut in the middle is closed, so that the next one stands alone;
 * the chain then goes over the torn line as it is. */
static int resume_chain(struct record *r, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	int e = fs_read_capped(r->dir_fd, "events.jsonl", (size_t)64 << 20, &text, &length, err);
	if (e < 0)
		return e;
	if (length && text[length - 1] != '\n' && fs_write_all(r->events_fd, "\n", 1) < 0)
		return err_errno(err, "close a torn line of events.jsonl");
	for (char *line = text; line < text + length;) {
		char *end = memchr(line, '\n', (size_t)(text + length - line));
		size_t n = end ? (size_t)(end - line) : (size_t)(text + length - line);
		hash_bytes(line, n, r->chain);
		r->n_events++;
		line += n + 1;
	}
	return 0;
}

/* A sample that was cut in the middle is none: whoever reads the file line by line need not know of crashes. */
static void cut_torn_sample(const struct record *r)
{
	char tail[4096];
	struct stat st = { 0 };
	CLEANUP_FD int fd =
		fs_open_beneath(r->dir_fd, "usage.jsonl", O_RDWR | O_NONBLOCK | O_CLOEXEC, 0);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	off_t begin = st.st_size > (off_t)sizeof tail ? st.st_size - (off_t)sizeof tail : 0;
	ssize_t n = pread(fd, tail, sizeof tail, begin);
	if (n <= 0 || tail[n - 1] == '\n')
		return;
	const char *end = memrchr(tail, '\n', (size_t)n);
	(void)!ftruncate(fd, begin + (end ? end + 1 - tail : 0));
}

/* What the dead keeper wrote may not be on the disk yet. */
static void owe_found(struct record *r)
{
	static const char *const names[] = { "analysis.json", "plan.json", "receipt.json",
					     "outputs.json", "usage.jsonl" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		int fd = fs_open_beneath(r->dir_fd, names[i], O_RDONLY | O_CLOEXEC, 0);
		if (fd >= 0)
			record_owe_sync(r, names[i], fd);
	}
}

static int adopt(struct record *r, const char *home, struct err *err)
{
	CLEANUP_FREE char *run = xasprintf("runs/%s", r->id);
	CLEANUP_FD int gate_fd = -1;
	int e = gate_pass(r, home, &gate_fd, err);
	if (e < 0)
		return e;
	e = lock_active(r->home_fd, r->id, O_CREAT, &r->active_fd);
	if (e < 0)
		return e;
	r->dir_fd = fs_open_beneath(r->home_fd, run, O_DIRECTORY | O_RDONLY | O_CLOEXEC, 0);
	struct stat entry = { 0 };
	if (r->dir_fd == -ENOENT && fstat(r->active_fd, &entry) == 0 && entry.st_size > 0) {
		r->dir_fd = -1; /* it was there when the entry was written */
		return 0;
	}
	if (r->dir_fd == -ENOENT) { /* while it is locked: a moment later it could be another's */
		CLEANUP_FREE char *active = xasprintf("active/%s", r->id);
		(void)unlinkat(r->home_fd, active, 0);
	}
	if (r->dir_fd < 0)
		return r->dir_fd;
	cleanup_fd(&gate_fd);
	memset(r->chain, '0', HASH_HEX - 1);
	cut_torn_sample(r);
	owe_found(r);
	e = open_events(r, O_CREAT, err);
	return e < 0 ? e : resume_chain(r, err);
}

int record_adopt(const char *home, const char *id, struct record *ret, struct err *err)
{
	struct record r = RECORD_INIT;
	r.id = xstrdup(id);
	int e = adopt(&r, home, err);
	if (e < 0) {
		record_release(&r);
		return e;
	}
	*ret = r;
	return 0;
}

int record_wait(const char *home, const char *id)
{
	CLEANUP_FREE char *path = xasprintf("active/%s", id);
	CLEANUP_FD int home_fd = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (home_fd < 0)
		return -errno;
	CLEANUP_FD int fd = fs_open_beneath(home_fd, path, O_RDWR | O_CLOEXEC, 0);
	return fd < 0 ? fd : lock_wait(fd);
}

char *record_group(const char *home, const char *id)
{
	char tag[HASH_TAG];
	fs_tag(home, tag);
	return xasprintf("%s-%s", id, tag);
}

int record_note(struct record *r, const char *line, enum record_note how)
{
	CLEANUP_FREE char *text = xasprintf("%s\n", line);
	int e = fs_write_all(r->active_fd, text, strlen(text));
	if (e < 0 || how == RECORD_NOTE_PLAIN)
		return e;
	CLEANUP_FD int dir_fd =
		fs_open_beneath(r->home_fd, "active", O_DIRECTORY | O_RDONLY | O_CLOEXEC, 0);
	if (dir_fd < 0)
		return dir_fd;
	return fsync(r->active_fd) < 0 || fsync(dir_fd) < 0 ? -errno : 0;
}

void record_release(struct record *r)
{
	while (r->n_unsynced > 0)
		cleanup_fd(&r->unsynced[--r->n_unsynced].fd);
	cleanup_fd(&r->events_fd);
	cleanup_fd(&r->dir_fd);
	cleanup_fd(&r->active_fd);
	cleanup_fd(&r->home_fd);
	cleanup_free(&r->id);
	str_release(&r->unwritten);
	json_decrefp(&r->digests);
}

/* Files by directory descriptor: bounded reads, whole writes, atomic replacement. Trees are in
 * tree.c and usage.c. */
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include "base/fault.h"
#include "base/path.h"
#include "base/str.h"

/* openat2 gives up with EAGAIN when a rename raced with the walk; a few times that is chance. */
#define OPEN_TRIES 32

int fs_open_resolve(int dir_fd, const char *path, uint64_t flags, mode_t mode, uint64_t resolve)
{
	struct open_how how = { .flags = flags | O_CLOEXEC, .resolve = resolve };

	if (flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)))
		how.mode = mode;
	if (FAULT_OPEN(dir_fd, path, flags))
		return -errno;
	for (int i = 0; i < OPEN_TRIES; i++) {
		long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
		if (fd >= 0)
			return (int)fd;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
	}
	return -EAGAIN;
}

int fs_open_beneath(int dir_fd, const char *path, int flags, mode_t mode)
{
	return fs_open_resolve(dir_fd, path, (unsigned)flags, mode,
			       RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

int fs_open_parent(int dir_fd, const char *path, const char **ret_last)
{
	const char *slash = strrchr(path, '/');
	const char *last = slash ? slash + 1 : path;
	CLEANUP_FREE char *parent = slash ? xstrndup(path, (size_t)(slash - path) + 1) : NULL;

	if (!*last || str_eq(last, ".") || str_eq(last, ".."))
		return -EINVAL;
	int fd = openat(dir_fd, parent ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_last = last;
	return fd;
}

/* A name that leads nowhere is the caller's mistake, anything else the host's. */
static int open_failed(struct err *err, const char *name, int code)
{
	switch (code) {
	case ENXIO: /* a socket, or a device without a driver */
		return err_caller(err, "'%s' is not a regular file", name);
	case ELOOP:
		return err_set(err, ERR_CALLER, code,
			       "'%s' is a symbolic link, which is not followed", name);
	case ENOENT:
	case ENOTDIR:
	case EACCES:
	case ENAMETOOLONG:
		return err_set(err, ERR_CALLER, code, "open '%s': %s", name, strerrordesc_np(code));
	default:
		errno = code;
		return err_errno(err, "open '%s'", name);
	}
}

static int too_big(struct err *err, const char *name, size_t max)
{
	return err_set(err, ERR_CALLER, EFBIG, "'%s' is larger than the %zu bytes allowed", name,
		       max);
}

int fs_read_capped(int dir_fd, const char *name, size_t max, char **ret_text, size_t *ret_length,
		   struct err *err)
{
	CLEANUP_STR struct str text = { 0 };
	struct stat st;
	char buffer[16 * 1024];

	/* O_NONBLOCK so that a FIFO without a writer does not hold us. */
	CLEANUP_FD int fd =
		openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return open_failed(err, name, errno);
	if (fstat(fd, &st) < 0)
		return err_errno(err, "read '%s'", name);
	if (!S_ISREG(st.st_mode))
		return err_caller(err, "'%s' is not a regular file", name);
	if ((uint64_t)st.st_size > max)
		return too_big(err, name, max);
	for (;;) {
		ssize_t n = read(fd, buffer, sizeof(buffer));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "read '%s'", name);
		if (n == 0)
			break;
		/* Again, for a file that grows meanwhile or, as in procfs, does not know its size. */
		if ((size_t)n > max - text.length)
			return too_big(err, name, max);
		str_add_n(&text, buffer, (size_t)n);
		/* Less than there is room for, and all that it said it has: that was the end. */
		if ((size_t)n < sizeof(buffer) && text.length == (uint64_t)st.st_size)
			break;
	}
	if (ret_length)
		*ret_length = text.length;
	*ret_text = str_take(&text);
	return 0;
}

ssize_t fs_read_small(int dir_fd, const char *name, char *buffer, size_t room)
{
	CLEANUP_FD int fd =
		openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -errno;

	ssize_t n = 0;
	do
		n = read(fd, buffer, room - 1);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n > 0 && buffer[n - 1] == '\n')
		n--;
	buffer[n] = '\0';
	return n;
}

int fs_write_small(int dir_fd, const char *name, const char *text)
{
	size_t length = strlen(text);

	CLEANUP_FD int fd = openat(dir_fd, name, O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -errno;

	ssize_t n = 0;
	do
		n = write(fd, text, length);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return (size_t)n == length ? 0 : -EIO;
}

/* The temporary file of fs_write_atomic, until it has its name. */
struct temp {
	int dir_fd; /* borrowed */
	int fd;     /* owned */
	char name[32];
};

static void temp_release(struct temp *t)
{
	cleanup_fd(&t->fd);
	if (t->name[0])
		(void)unlinkat(t->dir_fd, t->name, 0);
	t->name[0] = '\0';
}

static int temp_open(struct temp *t, mode_t mode)
{
	for (int i = 0; i < 16; i++) {
		uint64_t random = 0;

		if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
			return -EIO;
		(void)snprintf(t->name, sizeof(t->name), FS_TEMP_PREFIX "%016llx",
			       (unsigned long long)random);
		t->fd = openat(t->dir_fd, t->name,
			       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
		if (t->fd >= 0)
			return 0;
		t->name[0] = '\0'; /* not ours to remove */
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

/* Negative errno; the name holds the new content only if all of it is on disk. */
static int write_atomic(int dir_fd, const char *name, const void *bytes, size_t length, mode_t mode,
			int (*ready)(void *data), void *data)
{
	CLEANUP(temp_release) struct temp t = { .dir_fd = dir_fd, .fd = -1 };

	int r = temp_open(&t, mode);
	if (r < 0)
		return r;
	FAULT_PHASE("atomic-made");
	r = fs_write_all(t.fd, bytes, length);
	if (r < 0)
		return r;
	FAULT_PHASE("atomic-written");
	if (ready) {
		(void)sync_file_range(t.fd, 0, 0, SYNC_FILE_RANGE_WRITE);
		r = ready(data);
		if (r < 0)
			return r;
	}
	if (fsync(t.fd) < 0)
		return -errno;
	FAULT_PHASE("atomic-synced");
	if (renameat(dir_fd, t.name, dir_fd, name) < 0)
		return -errno;
	FAULT_PHASE("atomic-renamed");
	t.name[0] = '\0';
	return fsync(dir_fd) < 0 ? -errno : 0;
}

int fs_write_atomic_when(int dir_fd, const char *name, const void *bytes, size_t length,
			 mode_t mode, int (*ready)(void *data), void *data, struct err *err)
{
	const char *last = NULL;

	/* Opened again even for a plain name: fsync does not take an O_PATH descriptor. */
	CLEANUP_FD int fd = fs_open_parent(dir_fd, name, &last);
	int r = fd < 0 ? fd : write_atomic(fd, last, bytes, length, mode, ready, data);
	if (r < 0) {
		errno = -r;
		return err_errno(err, "write '%s'", name);
	}
	return 0;
}

int fs_write_atomic(int dir_fd, const char *name, const void *bytes, size_t length, mode_t mode,
		    struct err *err)
{
	return fs_write_atomic_when(dir_fd, name, bytes, length, mode, NULL, NULL, err);
}

int fs_write_new(int dir_fd, const char *name, const void *bytes, size_t length, mode_t mode,
		 struct err *err)
{
	char self[32];
	CLEANUP_FD int fd = openat(dir_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
		return fs_write_atomic(dir_fd, name, bytes, length, mode, err);
	if (fd < 0)
		return err_errno(err, "make '%s'", name);
	(void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
	int r = fs_write_all(fd, bytes, length);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "write '%s': %s", name, strerrordesc_np(-r));
	if (fsync(fd) < 0 || linkat(AT_FDCWD, self, dir_fd, name, AT_SYMLINK_FOLLOW) < 0)
		return err_errno(err, "write '%s'", name);
	return 0;
}

void fs_tag(const char *path, char ret[HASH_TAG])
{
	struct stat st = { 0 };
	(void)stat(path, &st);
	CLEANUP_FREE char *which = xasprintf("%s %llu %llu", path, (unsigned long long)st.st_dev,
					     (unsigned long long)st.st_ino);
	hash_tag(which, ret);
}

int fs_write_all(int fd, const void *bytes, size_t length)
{
	const char *at = bytes;

	while (length > 0) {
		ssize_t n = write(fd, at, length);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO;
		at += n;
		length -= (size_t)n;
	}
	return 0;
}

int fs_append(int fd, const void *bytes, size_t length)
{
	struct stat before;
	if (fstat(fd, &before) < 0)
		return -errno;
	int r = fs_write_all(fd, bytes, length);
	if (r < 0 && ftruncate(fd, before.st_size) < 0)
		return r; /* the first failure is the one to tell of */
	return r;
}

int fs_make_dirs(const char *path, mode_t mode, struct err *err)
{
	CLEANUP_FREE char *normal = path && path[0] == '/' ? path_normal(NULL, path) : NULL;
	struct stat st;

	if (!normal)
		return err_caller(err, "'%s' is not an absolute path", path ? path : "");
	/* The usual case, in one call. */
	if (lstat(normal, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	for (char *end = normal; end;) {
		end = strchr(end + 1, '/');
		if (end)
			*end = '\0';
		if (mkdir(normal, mode) < 0 && errno != EEXIST &&
		    !(errno == EROFS && access(normal, F_OK) == 0))
			return err_errno(err, "make directory '%s'", normal);
		if (end)
			*end = '/';
	}
	if (lstat(normal, &st) < 0)
		return err_errno(err, "make directory '%s'", normal);
	if (!S_ISDIR(st.st_mode))
		return err_set(err, ERR_CALLER, ENOTDIR, "'%s' is there and is not a directory",
			       normal);
	return 0;
}

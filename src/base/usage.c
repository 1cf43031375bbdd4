/* How much a tree holds, counted while it may be in use and hostile; and whose it is, changed on the same walk.
 *
 * Only one directory is open at a time, so that depth costs no descriptors: the way back is "..",
 * believed only if it is the very directory that we came from, and the place in it is a readdir
 * cookie (file systems keep those valid across opens, as NFS needs it). */
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>

#include "base/cleanup.h"
#include "base/inodes.h"
#include "base/str.h"

struct level {
	dev_t dev;
	ino_t ino;
	long place; /* of telldir, while a directory below is read */
};

struct count {
	DIR *dir;             /* owned: the directory at hand */
	struct level *levels; /* owned: from the start to the directory at hand */
	size_t depth, room;
	struct inode_set seen; /* the files with several names */
	struct fs_usage use;
	const struct stat *owner; /* borrowed; NULL: only counted */
};

static void count_release(struct count *c)
{
	cleanup_dir(&c->dir);
	cleanup_free(&c->levels);
	inode_set_release(&c->seen);
}

static int open_within(int dir_fd, const char *name)
{
	return fs_open_resolve(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
			       RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

/* Makes the directory behind fd the one at hand; takes fd. */
static int set_dir(struct count *c, int fd)
{
	DIR *dir = fdopendir(fd);
	int error = errno;

	if (!dir) {
		(void)close(fd);
		return -error;
	}
	cleanup_dir(&c->dir);
	c->dir = dir;
	return 0;
}

static int descend(struct count *c, int fd, const struct stat *st)
{
	if (c->depth == c->room) {
		c->room = c->room ? 2 * c->room : 64;
		c->levels = xreallocarray(c->levels, c->room, sizeof(*c->levels));
	}
	if (c->depth > 0)
		c->levels[c->depth - 1].place = telldir(c->dir);
	int r = set_dir(c, fd);
	if (r == 0)
		c->levels[c->depth++] = (struct level){ .dev = st->st_dev, .ino = st->st_ino };
	return r;
}

static int ascend(struct count *c)
{
	struct stat st;

	if (--c->depth == 0)
		return 0;
	const struct level *above = &c->levels[c->depth - 1];
	CLEANUP_FD int fd = open_within(dirfd(c->dir), "..");
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != above->dev || st.st_ino != above->ino)
		return -EAGAIN;
	int r = set_dir(c, take_fd(&fd));
	if (r == 0)
		seekdir(c->dir, above->place);
	return r;
}

/* Of the entry itself, whatever a link points to. */
static int own(const struct count *c, const char *name, const struct stat *st)
{
	if (!c->owner || (st->st_uid == c->owner->st_uid && st->st_gid == c->owner->st_gid))
		return 0;
	return fchownat(dirfd(c->dir), name, c->owner->st_uid, c->owner->st_gid,
			AT_SYMLINK_NOFOLLOW) < 0
		       ? -errno
		       : 0;
}

static void add(struct count *c, const struct stat *st)
{
	c->use.inodes++;
	c->use.bytes += (uint64_t)st->st_blocks * 512;
}

static int count_dir(struct count *c, const char *name, const struct stat *listed)
{
	struct stat st;

	CLEANUP_FD int fd = open_within(dirfd(c->dir), name);
	if (fd == -EXDEV)
		return 0; /* another file system */
	if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP) {
		c->use.moved++;
		return 0;
	}
	/* Not only unreadable ones: from a directory that may not be searched no ".." leads back. */
	if (fd == -EACCES || (fd >= 0 && faccessat(fd, ".", F_OK, 0) < 0 && errno == EACCES)) {
		add(c, listed);
		c->use.unread++;
		return 0;
	}
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	add(c, &st);
	return descend(c, take_fd(&fd), &st);
}

static int count_entry(struct count *c, const char *name)
{
	struct stat st;

	if (str_eq(name, ".") || str_eq(name, ".."))
		return 0;
	if (fstatat(dirfd(c->dir), name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0) {
		if (errno == ENOENT) {
			c->use.moved++;
			return 0;
		}
		if (errno != EACCES)
			return -errno;
		/* Readable but not searchable: names without what they stand for. */
		c->use.unread++;
		return ascend(c);
	}
	int r = own(c, name, &st);
	if (r < 0)
		return r;
	if (S_ISDIR(st.st_mode))
		return count_dir(c, name, &st);
	if (st.st_nlink <= 1 || inode_set_add(&c->seen, st.st_ino))
		add(c, &st);
	return 0;
}

static int count_tree(struct count *c, uint64_t max_bytes, uint64_t max_inodes)
{
	while (c->depth > 0 && c->dir) {
		errno = 0;
		const struct dirent *entry = readdir(c->dir);
		if (!entry && errno != 0 && errno != ENOENT)
			return -errno;
		int r = entry ? count_entry(c, entry->d_name) : ascend(c);
		if (r < 0)
			return r;
		if ((max_bytes && c->use.bytes > max_bytes) ||
		    (max_inodes && c->use.inodes > max_inodes))
			return -E2BIG;
	}
	return 0;
}

int fs_tree_measure(int dir_fd, uint64_t max_bytes, uint64_t max_inodes, struct fs_usage *ret)
{
	CLEANUP(count_release) struct count c = { 0 };
	struct stat st;

	/* "." again, so that the caller's own offset in the directory stays. */
	CLEANUP_FD int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	int r = descend(&c, take_fd(&fd), &st);
	if (r == 0)
		r = count_tree(&c, max_bytes, max_inodes);
	*ret = c.use;
	return r;
}

int fs_tree_usage(int dir_fd, uint64_t max_bytes, uint64_t max_inodes, uint64_t *ret_bytes,
		  uint64_t *ret_inodes)
{
	struct fs_usage use = { 0 };

	int r = fs_tree_measure(dir_fd, max_bytes, max_inodes, &use);
	if (r >= 0 || r == -E2BIG || r == -EAGAIN) {
		*ret_bytes = use.bytes;
		*ret_inodes = use.inodes;
	}
	return r < 0 ? r : (int)use.unread;
}

int fs_tree_own(int dir_fd, uid_t uid, gid_t gid)
{
	const struct stat owner = { .st_uid = uid, .st_gid = gid };
	CLEANUP(count_release) struct count c = { .owner = &owner };
	struct stat st = { 0 };

	CLEANUP_FD int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	/* The top is given last: while it has its old owner, the rest may have. */
	if (st.st_uid == uid && st.st_gid == gid)
		return 0;
	int r = descend(&c, take_fd(&fd), &st);
	if (r == 0)
		r = count_tree(&c, 0, 0);
	if (r >= 0 && c.use.unread > 0)
		return -EACCES;
	return r < 0 ? r : fchown(dir_fd, uid, gid) < 0 ? -errno : 0;
}

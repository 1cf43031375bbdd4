/* Removal of a tree that somebody hostile has built, and may still be changing.
 *
 * A stack of open directories holds the path from the top. It has a fixed depth: a directory that
 * lies deeper is moved up to the top of the tree under a fresh name and taken later. Every
 * directory is opened by openat2 so that neither a link nor a mount point is ever crossed. */
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "base/str.h"

#define DEPTH_MAX 64
/* How often a directory is read again because it was not empty after all. */
#define PASSES_MAX 16
/* How often an entry may change between directory and file while we look at it. */
#define ENTRY_TRIES 8

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452 /* Linux 6.6; the same number on every architecture but alpha */
#endif

struct frame {
	DIR *dir; /* owned */
	char name[NAME_MAX + 1];
	unsigned passes;
	bool stuck; /* something in it could not be removed */
};

struct walk {
	int parent_fd;        /* borrowed: holds the tree's own name */
	struct frame *frames; /* owned; DEPTH_MAX of them */
	size_t depth;
	char fresh[24];          /* prefix of the names of what was moved to the top */
	uint64_t moved, resumed; /* fresh names given, and those of them looked at again */
	struct fs_removed count;
	int first_error;
	char first_name[NAME_MAX + 1];
};

static void walk_release(struct walk *w)
{
	while (w->depth > 0)
		cleanup_dir(&w->frames[--w->depth].dir);
	cleanup_free(&w->frames);
}

static int walk_fd(const struct walk *w)
{
	return w->depth > 0 ? dirfd(w->frames[w->depth - 1].dir) : w->parent_fd;
}

static void walk_remained(struct walk *w, const char *name, int error)
{
	w->count.remained++;
	if (w->depth > 0)
		w->frames[w->depth - 1].stuck = true;
	if (w->first_error)
		return;
	w->first_error = error;
	(void)snprintf(w->first_name, sizeof(w->first_name), "%s", name);
}

static int open_within(int dir_fd, const char *name, int flags)
{
	return fs_open_resolve(dir_fd, name, (unsigned)flags | O_DIRECTORY | O_NOFOLLOW, 0,
			       RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

/* An O_PATH descriptor has no fchmod, but it cannot be redirected either. */
static void make_usable(int path_fd)
{
	char link[48];

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
	if (chmod(link, 0700) < 0)
		(void)syscall(SYS_fchmodat2, path_fd, "", 0700, AT_EMPTY_PATH);
}

/* Opens a directory such that its entries can be read and removed, giving its owner the rights. */
static int open_usable(int dir_fd, const char *name)
{
	int fd = open_within(dir_fd, name, O_RDONLY);
	struct stat st;

	if (fd == -EACCES) {
		CLEANUP_FD int path_fd = open_within(dir_fd, name, O_PATH);
		if (path_fd < 0)
			return path_fd;
		make_usable(path_fd);
		fd = open_within(dir_fd, name, O_RDONLY);
	}
	if (fd < 0)
		return fd;
	/* Readable is not enough: w and x are needed to remove what is inside. */
	if (fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
		(void)fchmod(fd, 0700);
	return fd;
}

static int push(struct walk *w, const char *name, int fd)
{
	DIR *dir = fdopendir(fd);
	int error = errno;

	if (!dir) {
		(void)close(fd);
		return -error;
	}
	struct frame *f = &w->frames[w->depth++];
	*f = (struct frame){ .dir = dir };
	(void)snprintf(f->name, sizeof(f->name), "%s", name);
	return 0;
}

static void fresh_name(const struct walk *w, uint64_t number, char *buffer, size_t room)
{
	(void)snprintf(buffer, room, "%s%llu", w->fresh, (unsigned long long)number);
}

/* Takes a directory on: on the stack, or, when that is full, at the top for later. */
static int enter(struct walk *w, const char *name)
{
	CLEANUP_FD int fd = open_usable(walk_fd(w), name);
	char fresh[sizeof(w->fresh) + 24];

	if (fd < 0)
		return fd;
	if (w->depth < DEPTH_MAX)
		return push(w, name, take_fd(&fd));
	fresh_name(w, w->moved, fresh, sizeof(fresh));
	if (renameat(walk_fd(w), name, dirfd(w->frames[0].dir), fresh) < 0)
		return -errno;
	w->moved++;
	return 0;
}

/* 1: look again, it is no longer what it was. */
static int remove_once(struct walk *w, const char *name)
{
	int dir_fd = walk_fd(w);
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(st.st_mode)) {
		int r = enter(w, name);
		return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? 1 : r;
	}
	if (unlinkat(dir_fd, name, 0) < 0)
		return errno == ENOENT ? 0 : errno == EISDIR ? 1 : -errno;
	w->count.files++;
	if (S_ISREG(st.st_mode))
		w->count.bytes += (uint64_t)st.st_size;
	return 0;
}

/* Removes a file or enters a directory. */
static void remove_entry(struct walk *w, const char *name)
{
	int r = 1;

	for (int i = 0; r == 1 && i < ENTRY_TRIES; i++)
		r = remove_once(w, name);
	if (r != 0)
		walk_remained(w, name, r == 1 ? -EBUSY : r);
}

/* The next name in the directory at hand; at the top those moved there come after the listed ones,
 * since readdir need not return what was added after it began. False: there are no more. */
static bool next_name(struct walk *w, char *ret, size_t room)
{
	struct frame *f = &w->frames[w->depth - 1];
	const struct dirent *entry = NULL;

	do {
		errno = 0;
		entry = readdir(f->dir);
	} while (entry && (str_eq(entry->d_name, ".") || str_eq(entry->d_name, "..")));
	if (entry) {
		(void)snprintf(ret, room, "%s", entry->d_name);
		return true;
	}
	if (errno != 0 && errno != ENOENT)
		walk_remained(w, f->name, -errno);
	if (w->depth == 1 && w->resumed < w->moved) {
		fresh_name(w, w->resumed++, ret, room);
		return true;
	}
	return false;
}

/* All names of the directory at hand were seen: removes it, or reads it once more. */
static void leave(struct walk *w)
{
	struct frame *f = &w->frames[w->depth - 1];
	int above_fd = w->depth > 1 ? dirfd(w->frames[w->depth - 2].dir) : w->parent_fd;
	int r = unlinkat(above_fd, f->name, AT_REMOVEDIR) < 0 ? -errno : 0;

	if ((r == -ENOTEMPTY || r == -EEXIST) && !f->stuck && f->passes++ < PASSES_MAX) {
		rewinddir(f->dir);
		return;
	}
	char name[sizeof(f->name)];
	memcpy(name, f->name, sizeof(name));
	cleanup_dir(&f->dir);
	w->depth--;
	if (r == 0)
		w->count.dirs++;
	else if (r != -ENOENT) /* renamed under us: the directory above will not be empty */
		walk_remained(w, name, r);
}

static int walk_init(struct walk *w, int parent_fd)
{
	uint64_t random = 0;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -EIO;
	w->parent_fd = parent_fd;
	(void)snprintf(w->fresh, sizeof(w->fresh), "%016llx-", (unsigned long long)random);
	w->frames = xmalloc(DEPTH_MAX * sizeof(*w->frames)); /* mostly few are touched */
	return 0;
}

static int remove_name(int dir_fd, const char *name, struct walk *w)
{
	char entry[NAME_MAX + 1];

	if (!*name || strlen(name) > NAME_MAX || str_eq(name, ".") || str_eq(name, ".."))
		return -EINVAL;
	int r = walk_init(w, dir_fd);
	if (r < 0)
		return r;
	remove_entry(w, name);
	while (w->depth > 0) {
		if (next_name(w, entry, sizeof(entry)))
			remove_entry(w, entry);
		else
			leave(w);
	}
	return 0;
}

/* As remove_name, for a name that is a path. */
static int remove_path(int dir_fd, const char *path, struct walk *w)
{
	const char *last = NULL;

	CLEANUP_FD int above_fd = fs_open_parent(dir_fd, path, &last);
	if (above_fd < 0)
		return above_fd == -ENOENT ? 0 : above_fd;
	return remove_name(above_fd, last, w);
}

int fs_remove_tree(int dir_fd, const char *name, struct fs_removed *ret, struct err *err)
{
	CLEANUP(walk_release) struct walk w = { 0 };
	int r = strchr(name, '/') ? remove_path(dir_fd, name, &w) : remove_name(dir_fd, name, &w);

	if (ret)
		*ret = w.count;
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "remove '%s': %s", name, strerrordesc_np(-r));
	if (w.count.remained > 0)
		return err_set(err, ERR_HOST, -w.first_error,
			       "remove '%s': %llu left, the first is '%s': %s", name,
			       (unsigned long long)w.count.remained, w.first_name,
			       strerrordesc_np(-w.first_error));
	return 0;
}

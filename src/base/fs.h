/* Files by directory descriptor. Nothing here follows a symbolic link in the last component, every
 * descriptor is born O_CLOEXEC, and what must survive a power cut is synced file first, then
 * directory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/hash.h"

/* openat2 with RESOLVE_BENEATH | NO_SYMLINKS | NO_MAGICLINKS. Negative errno, no text. */
int fs_open_beneath(int dir_fd, const char *path, int flags, mode_t mode);
/* The same with RESOLVE_* flags of one's own. */
int fs_open_resolve(int dir_fd, const char *path, uint64_t flags, mode_t mode, uint64_t resolve);
/* The directory that holds the last component of `path`, opened for reading; *ret_last points into
 * `path`. -EINVAL if that component is empty, "." or "..". */
int fs_open_parent(int dir_fd, const char *path, const char **ret_last);

/* The whole file, NUL-terminated (the NUL is not counted). -EFBIG above `max`; regular files only
 * (-EINVAL otherwise), never blocks on a FIFO. Text in err when err is given: kind caller for a name that leads
 * nowhere or to something else, host for the rest. */
int fs_read_capped(int dir_fd, const char *name, size_t max, char **ret_text, size_t *ret_length,
		   struct err *err);
/* procfs, sysfs, cgroupfs values: one read, at most room-1 bytes, trailing newline cut. Length or negative errno. */
ssize_t fs_read_small(int dir_fd, const char *name, char *buffer, size_t room);
/* One write of the whole text to an existing file (procfs, cgroupfs). Negative errno. */
int fs_write_small(int dir_fd, const char *name, const char *text);

#define FS_TEMP_PREFIX ".new-" /* what a crash in fs_write_atomic leaves begins with it */
/* Writes temp, fsync, rename, fsync of the directory: the name holds the old content or the new one. */
int fs_write_atomic(int dir_fd, const char *name, const void *bytes, size_t length, mode_t mode,
		    struct err *err);
/* A file that has no name until it is whole, so that a crash leaves nothing; -EEXIST if the name is taken. Where the file system has no such
 * files: as above. */
int fs_write_new(int dir_fd, const char *name, const void *bytes, size_t length, mode_t mode,
		 struct err *err);
/* As fs_write_atomic, where something else must be durable too before the name changes: `ready` sees to that while the content is on its
 * way to the disk, and its negative errno leaves the name as it was. */
int fs_write_atomic_when(int dir_fd, const char *name, const void *bytes, size_t length,
			 mode_t mode, int (*ready)(void *data), void *data, struct err *err);
/* write(2) until done or error. */
int fs_write_all(int fd, const void *bytes, size_t length);
/* The same at the end of a file, all of it or, as far as the file can be cut again, none. */
int fs_append(int fd, const void *bytes, size_t length);

/* mkdir -p of an absolute path; existing directories are left as they are. Not synced. */
int fs_make_dirs(const char *path, mode_t mode, struct err *err);

struct fs_removed {
	uint64_t files; /* everything that is not a directory */
	uint64_t dirs;
	uint64_t bytes;    /* apparent size of the regular files */
	uint64_t remained; /* entries that could not be removed */
};

/* Removes a tree that may be hostile (any depth, any names, unreadable directories, being changed):
 * by descriptor, never across a mount point (-EXDEV counts as remained), bounded descriptors.
 * A name that is not there is success. When something remains the rest is removed all the same, and
 * the first failure is returned. `ret` may be NULL, and is filled on failure too. */
int fs_remove_tree(int dir_fd, const char *name, struct fs_removed *ret, struct err *err);

struct fs_usage {
	uint64_t bytes, inodes;
	unsigned unread; /* directories that could not be read: what is in them is not counted */
	unsigned
		moved; /* entries that were gone, or something else, between their listing and their count */
};

/* As fs_tree_usage, but says what the count misses. 0, -E2BIG, -EAGAIN or another negative errno; `ret` has the counts so far
 * in each case but that the directory itself could not be opened. */
int fs_tree_measure(int dir_fd, uint64_t max_bytes, uint64_t max_inodes, struct fs_usage *ret);

/* Bytes and inodes below a directory by descriptor, same bounds; allocated blocks, not apparent size.
 * Each hard-linked file counts once; the directory itself does not count. Returns the number of
 * directories that could not be read (0: all was counted). Stops and returns -E2BIG once either
 * maximum (0: none) is passed, -EAGAIN when directories were moved about under the walk; both with
 * the counts so far in ret. */
int fs_tree_usage(int dir_fd, uint64_t max_bytes, uint64_t max_inodes, uint64_t *ret_bytes,
		  uint64_t *ret_inodes);

/* Gives a tree that may be hostile, but that nobody changes any more, to this owner: by descriptor, never through a link or across a
 * mount point. Nothing is looked at if the top is the owner's already, which it becomes last. Negative errno. */
int fs_tree_own(int dir_fd, uid_t uid, gid_t gid);

/* Tells directories apart, by eight digits: also two of one path, each in a mount namespace of its own. */
void fs_tag(const char *path, char ret[HASH_TAG]);

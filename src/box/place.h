/* Places in the root that is being made: directories, files to mount on, mounts; and in the host's, which they are taken from. The
 * directory of the last name stays open, since the next name is mostly in it too. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct places {
	int root_fd;          /* borrowed */
	uint64_t resolve;     /* what links on the way mean: see openat2(2) */
	int above_fd;         /* owned; -1: none yet */
	char above[PATH_MAX]; /* the path of above_fd, relative to the root */
};

void places_begin(struct places *p, int root_fd, uint64_t resolve);
void places_release(struct places *p);
/* What is behind a path may be another directory now: what was mounted there went, or something came. */
void places_forget(struct places *p);

/* All paths are relative to the root; "." is the root itself. Each call returns a negative errno if it fails. */

/* The directory that `path` is in, borrowed until the next call, and the name in it. -ENOENT: it is to be made. */
int place_above(struct places *p, const char *path, const char **ret_name);
/* The same; directories that are missing are made. */
int place_make_above(struct places *p, const char *path, const char **ret_name);
/* Something to mount on: a directory, or an empty file. One that is there already will do. */
int place_make(struct places *p, const char *path, bool is_dir);
/* Attaches a mount to what is there. */
int place_attach(struct places *p, const char *path, int mount_fd);

/* A copy of an SQLite file that others may be writing: consistent, made by SQLite's own backup in a child that has the rights of the file's
 * owner and never opens it for writing. It lies in the run directory under a temporary name, so that whatever becomes of the keeper, the
 * sweep removes it. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/hash.h"

#define SNAPSHOT_NAME FS_TEMP_PREFIX "db-snapshot"

struct snapshot_request {
	const char *path; /* real, absolute */
	int dir_fd;       /* the run directory */
	uint64_t max_bytes;
	int wake_fds[2]; /* borrowed, -1: none; one that is readable gives it up: -ECANCELED */
};

struct snapshot {
	uint64_t bytes;
	char sha256[HASH_HEX];
};

/* Before anything is made: is it an SQLite file, of a size that may be copied? `origin` is who named it. */
int snapshot_check(const char *path, const char *origin, uint64_t max_bytes, struct err *err);
/* Whatever is left of it on failure, snapshot_remove removes. */
int snapshot_make(const struct snapshot_request *request, struct snapshot *ret, struct err *err);
/* Negative errno; 0 too if there is none. */
int snapshot_remove(int dir_fd);

/* snapshot_copy.c: what the child does. Fills `out_fd`, which has `room` bytes, and cuts it to what was copied. -ESTALE if the path does
 * not lead to the `source` that was looked at. */
int snapshot_copy(const char *path, const struct stat *source, int out_fd, uint64_t room,
		  struct err *err);

/* Bytes of one opened file into another, noticing when the source changes under the reader. */
#pragma once

#include <stddef.h>
#include <sys/stat.h>

#include "base/hash.h"

#define COPY_BUFFER_SIZE (1024 * 1024)
/* From here on blocks are shared where the file system can, and a thread of its own computes the hash. */
#define COPY_LARGE (16 * COPY_BUFFER_SIZE)

struct copy {
	int from_fd;               /* borrowed */
	int to_fd;                 /* borrowed */
	const struct stat *before; /* borrowed; of from_fd, before the first read */
	char *buffer;              /* borrowed; COPY_BUFFER_SIZE */
};

/* All bytes, hashed as they pass. 0, with *ret_reason NULL or the reason why the source is refused; negative errno when the
 * copy could not be written. */
int copy_hashed(const struct copy *c, struct hash *hash, const char **ret_reason);
/* Data only, holes stay holes: costs what the source costs. Same results. */
int copy_sparse(const struct copy *c, const char **ret_reason);

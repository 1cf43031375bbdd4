/* Where the files of a crate go: private to export*.c. */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct sink {
	const struct sink_ops *ops; /* first member of each */
};

struct sink_ops {
	/* A file of that size, relative to the top; the bytes follow by write, all of them before close. */
	int (*open)(struct sink *, const char *path, uint64_t size, struct err *);
	int (*write)(struct sink *, const void *bytes, size_t length, struct err *);
	int (*close)(struct sink *, struct err *);
	/* No more files: what was written is durable, but still under its temporary name. */
	int (*finish)(struct sink *, struct err *);
	void (*free)(struct sink *);
};

/* A directory that exists and is empty; the descriptor stays the caller's. */
struct sink *sink_directory(int dir_fd);
/* A zip file; the descriptor stays the caller's. Every entry gets this time (seconds). */
int sink_zip(int fd, int64_t mtime, struct sink **ret, struct err *err);

static inline void sink_freep(struct sink **s)
{
	if (*s)
		(*s)->ops->free(*s);
	*s = NULL;
}
#define CLEANUP_SINK __attribute__((cleanup(sink_freep)))

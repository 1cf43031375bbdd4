/* One output of a run, by the manifest: opened as what it is, a stranger's. In a thread of the desk. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "spec/config.h"

struct given {
	int fd; /* owned */
	uint64_t size;
	char etag[96];
	char *type; /* owned */
};
#define GIVEN_INIT                                                                                 \
	{                                                                                          \
		.fd = -1                                                                           \
	}
void given_release(struct given *o);

/* -ENOENT (caller) if there is no such run or output. */
int given_open(const struct config *c, const char *id, const char *path, struct given *ret,
	       struct err *err);
/* A regular file beneath a directory, without links and without waiting for anybody at its other end. */
int given_open_file(int dir_fd, const char *place, struct given *ret, struct err *err);

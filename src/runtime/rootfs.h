/* A tree that takes the place of the host's /usr: what its top, its /etc and its /var hold, read without following any link, so that a
 * plan can name each thing that a box shows of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct rootfs_entry {
	char *name; /* owned; one component */
	char *target; /* owned; of a link, which a box makes anew; NULL: a file or directory, which it shows */
};

struct rootfs_list {
	struct rootfs_entry *v; /* owned; sorted by name */
	size_t n;
};

struct rootfs {
	int fd;          /* owned; the directory, or the root of a mount that is attached nowhere */
	bool is_mounted; /* the latter: the box attaches it for the time of its set-up */
	struct rootfs_list top, etc, var;
};

void rootfs_free(struct rootfs *r);

/* Takes `fd`, also on failure. Devices, sockets and FIFOs are left out. -EINVAL where it is not the root of a system. */
int rootfs_read(int fd, const char *what, bool is_mounted, struct rootfs **ret, struct err *err);
/* Is `path`, absolute, a program, with links followed inside the tree only? */
bool rootfs_has_program(const struct rootfs *r, const char *path);

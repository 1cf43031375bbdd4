/* A uid of its own for each run as root. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct uid_lease {
	uid_t uid;
	int lock_fd; /* owned; the lease ends with it, or with the process */
};

/* The lowest of the range that no live keeper holds: byte N of HOME/uids.lock is uid first + N. */
int uid_take(const char *home, uid_t first, uint32_t count, struct uid_lease *ret, struct err *err);

/* A uid of its own for each run as root. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct uid_lease {
	uid_t uid;
	int lock_fd; /* owned; the lease ends with it, or with the process */
};

/* One of the range that no live keeper on this host holds: byte N of /run/cupel/uids.lock stands for uid N. Drawn by chance, so
 * that a uid is not used again right after a run. -EUSERS where there is none. */
int uid_take(uid_t first, uint32_t count, struct uid_lease *ret, struct err *err);
/* That one, which a keeper that died had; -EAGAIN if a live one has it. */
int uid_take_again(uid_t uid, struct uid_lease *ret, struct err *err);

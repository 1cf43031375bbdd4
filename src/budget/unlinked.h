/* Files without a name that the processes of a box keep alive: open, mapped, executed, or a working directory. A walk of the
 * directory does not find them, and their bytes are on the disk until the last of those is gone.
 *
 * Not seen: a descriptor that is on its way through a socket; and, where the caller has no CAP_CHECKPOINT_RESTORE, the part of a
 * file that is neither open nor mapped while another part of it is mapped. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "budget/budget.h"

struct unlinked_request {
	struct budget *budget; /* whose members are looked at */
	pid_t init_pid; /* of the box: cupel's own code, which can't be looked into and need not be */
	uint64_t pid_ns; /* inode number of the box's pid namespace; 0: not known */
	uint64_t
		max_inodes; /* 0: none; with more mapped files than this the count is ended with -E2BIG */
	dev_t devs[2]; /* only files of these file systems; the same twice if there is one only */
};

struct unlinked_use {
	uint64_t bytes, inodes;
	unsigned unread; /* processes that could not be looked into */
};

/* Counts each file once. -ETIME: there are too many to be counted within seconds. -EOPNOTSUPP: the box has neither a group nor a known pid namespace. */
int unlinked_measure(const struct unlinked_request *q, struct unlinked_use *ret);

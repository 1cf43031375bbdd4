/* Formatted images kept in HOME/cache, one a size, since mkfs takes longer than a run may take to start. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct template_request {
	const char *home;
	uint64_t bytes;
	uint64_t inodes; /* of ext4's own and of those that can be used, together: never more */
	unsigned journal_mib;    /* 0: no journal, for what nobody needs after a crash */
	const struct strv *dirs; /* names of directories in it, or NULL */
};

/* Opens the template for reading, making it at first use. Safe against others doing so at the same time. Returns the caller's
 * descriptor. Without debugfs (of e2fsprogs) it is made without the directories. */
int template_open(const struct template_request *request, struct err *err);
/* Removes what was left of templates whose maker died. Safe beside those that are being made. */
void template_sweep(int home_fd);

/* Formatted images kept in HOME/cache, one a size, since mkfs takes longer than a run may take to start. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* Opens the template of that many bytes and inodes for reading, making it at first use. Safe against others doing so at the same
 * time. Returns the caller's descriptor. */
int template_open(const char *home, uint64_t bytes, uint64_t inodes, struct err *err);
/* Removes what was left of templates whose maker died. Safe beside those that are being made. */
void template_sweep(int home_fd);

/* Landlock: the file policy of the box once more, by a mechanism of its own. */
#pragma once

#include "base/err.h"
#include "box/plan.h"

/* The kernel's ABI version; 0 where there is none. */
int landlock_abi(void);
/* Confines the calling process for ever. Needs no_new_privs. */
int landlock_confine(const struct rule *rules, size_t n_rules, int abi, struct err *err);

/* The system call filter, compiled when cupel is built (mkfilter.c holds the policy). */
#pragma once

#include "base/err.h"

/* Installs the filter on the calling process for ever. Needs no_new_privs. */
int seccomp_confine(struct err *err);
/* For the record: number of instructions and the sha256 of the program. */
unsigned seccomp_length(void);
const char *seccomp_digest(void);
/* The same policy in the form that container engines and OCI runtimes read: JSON. Where it judges by an argument, the filter is exacter. */
const char *seccomp_profile(void);

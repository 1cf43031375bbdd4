/* What activating a conda prefix means, computed from level 0 as conda itself does, without a shell: everything but activate.d. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "runtime/runtime.h"

struct activation {
	struct pairs env; /* PATH's new head is in `path`; PATH itself is not among these */
	char *path;       /* owned; PREFIX/bin:... to be put before the system's PATH */
	struct strv
		scripts; /* sorted absolute paths of etc/conda/activate.d/ *.sh; sourced in this order */
};
void activation_release(struct activation *a);
#define CLEANUP_ACTIVATION CLEANUP(activation_release)

int conda_activation(const char *prefix, struct activation *ret, struct err *err);

/* The program text for /bin/bash -c that sources $1.. in order and writes `env -0` before and after to file descriptors or files; and
 * what the difference of two such dumps is: set and unset. Used by run/activate_run.c, which runs it in a box once per fingerprint. */
struct env_change {
	struct pairs set;
	struct strv unset;
};
void env_change_release(struct env_change *c);
int env_difference(const char *before, size_t before_length, const char *after, size_t after_length,
		   struct env_change *ret, struct err *err);

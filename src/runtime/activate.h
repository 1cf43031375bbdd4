/* What activating a conda prefix means, computed from level 0 as conda itself does, without a shell: everything but activate.d. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "runtime/runtime.h"

struct activation {
	struct pairs env;   /* PATH's new head is in `path`; PATH itself is not among these */
	char *path;         /* owned; PREFIX/bin:... to be put before the system's PATH */
	bool path_is_whole; /* the prefix itself says PATH: nothing is put behind it */
	struct strv
		names; /* of the variables of the prefix itself, as its files spell them: of those that were set before, conda saves
			    * the value as __CONDA_SHLVL_0_NAME */
	struct strv
		scripts; /* sorted absolute paths of etc/conda/activate.d/ *.sh; sourced in this order */
};
void activation_release(struct activation *a);
#define CLEANUP_ACTIVATION CLEANUP(activation_release)

/* Nothing of the caller's environment counts. `prefix` is absolute; PREFIX/conda-meta must be there (-ENOENT). JSON that conda could
 * not read either is an error that names the file. A variable's name is put into capitals, as conda does. Values that are no texts
 * become what str() of Python makes of them; null becomes an empty value, and ***unset*** is skipped. PATH takes the place of all that
 * conda would have put there (conda 25.11 and later ignore it). Names that a shell would refuse, and cupel's own (CUPEL_*), are left out. What shell initialisation sets beyond activation is not set:
 * MAMBA_ROOT_PREFIX, MAMBA_EXE, the prompt. A prefix of pixi (PROJECT/.pixi/envs/NAME) gets PIXI_* as far as paths say them; the
 * manifest's own [activation] is not read. */
int conda_activation(const char *prefix, struct activation *ret, struct err *err);

/* For /bin/bash --noprofile --norc -c TEXT bash BEFORE AFTER [SCRIPT]...: sources the scripts in order and writes the environment
 * (env -0) to the files BEFORE and AFTER, absolute paths. What the scripts print goes where the shell's output goes; one that fails
 * does not stop the next. Exit status 0: all were sourced; 3: one ended the shell (exit), AFTER is as it left things and stderr names
 * it; else there is no AFTER. */
extern const char activation_program[];
enum { ACTIVATION_ENDED_EARLY = 3 };

/* What the difference of two such dumps is: by name, sorted. _, SHLVL, PWD, OLDPWD, what the program above needs for itself and
 * CUPEL_* are no part of it; PATH is. Values are any bytes. -EINVAL for what is no such dump, -E2BIG for one too large to run with. */
struct env_change {
	struct pairs set;
	struct strv unset;
};
void env_change_release(struct env_change *c);
#define CLEANUP_ENV_CHANGE CLEANUP(env_change_release)
int env_difference(const char *before, size_t before_length, const char *after, size_t after_length,
		   struct env_change *ret, struct err *err);

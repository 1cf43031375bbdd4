/* What an analysis runs in: a named environment. `base` is built in: the host's own /usr. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "spec/analysis.h"
#include "spec/limits.h"

/* A script's file-name ending and the program that runs it. */
struct interpreter {
	char *extension; /* owned; ".py" */
	char *program;   /* owned; absolute path in the runtime */
	char *package;   /* owned or NULL; what to install where the program is absent */
};

struct runtime {
	char *name;                       /* owned */
	char *kind;                       /* owned; "system" */
	char *version;                    /* owned; for `system` what os-release calls the host */
	char *path;                       /* owned; the value of PATH */
	struct interpreter *interpreters; /* owned */
	size_t n_interpreters;
	struct pairs env;
	struct limits limits; /* defaults of this runtime */
};

void runtime_release(struct runtime *r);
#define CLEANUP_RUNTIME CLEANUP(runtime_release)

/* By name; -ENOENT (caller) names those that exist. */
int runtime_find(const char *name, struct runtime *ret, struct err *err);

/* The argv that runs the analysis here: its command, or the interpreter for its script as it will be
 * called inside the box (`script_path`). A script without a known ending is run itself and must be
 * executable. An interpreter the runtime lacks is an error that names the remedy. */
int runtime_argv(const struct runtime *r, const struct analysis *a, const char *script_path,
		 struct strv *ret, struct err *err);

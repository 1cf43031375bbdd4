/* All runtimes that are known here: built in, shipped (DATADIR/cupel/runtimes.d), then runtimes.d beside each configuration file: the
 * system's, the user's, the project's. One YAML file an entry; a later one replaces an earlier one of its name as a whole. */
#pragma once

#include "runtime/runtime.h"
#include "spec/config.h"

struct catalog {
	struct runtime *v; /* owned; sorted by name */
	size_t n;
	/* Files that could not be read: never silently left out. A name asked for that one of them has is an error with its text. */
	struct catalog_fault {
		char *file; /* owned */
		char *name; /* owned; from the file's name */
		struct err err;
	} * faults; /* owned */
	size_t n_faults;
};

void catalog_release(struct catalog *c);
#define CLEANUP_CATALOG CLEANUP(catalog_release)

int catalog_read(const struct config *config, struct catalog *ret, struct err *err);
/* One entry alone, as quickly as that goes: `cupel run` reads no more than it must. -ENOENT (caller) names those that exist. */
int catalog_find(const struct config *config, const char *name, struct runtime *ret,
		 struct err *err);
/* One file's text; for tests and fuzzing. */
int runtime_parse(const char *file, const char *text, size_t length, struct runtime *ret,
		  struct err *err);
/* The directories, in rising priority, as owned strings. */
void catalog_dirs(const struct config *config, struct strv *ret);

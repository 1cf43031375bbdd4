/* How well each entry of a catalog fits a script. */
#pragma once

#include "runtime/select_parts.h"

struct fit {
	const struct runtime *runtime; /* borrowed from the catalog */
	bool runs;                     /* has the interpreter, and the program is there */
	const struct interpreter
		*absent;     /* borrowed: it would run the script, but its program is not there */
	int kernel;          /* how surely it has the notebook's kernel; 0: not */
	size_t provided;     /* of what is needed */
	size_t extras;       /* what else it provides */
	struct strv lacking; /* of what is needed */
};

struct fits {
	struct fit *v; /* owned */
	size_t n;
	struct strv
		needed; /* for a shell script only what some runtime provides: its other words may be anything */
	struct strv homeless; /* of these, what no runtime provides */
};
void fits_release(struct fits *f);
#define CLEANUP_FITS CLEANUP(fits_release)
void fits_make(const struct select_by *by, const struct script *s, struct fits *ret);

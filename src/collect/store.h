/* Outputs by content: HOME/store/sha256/ab/cdef..., read-only files under the digest of their bytes. What a run made is one file with
 * two names, the run's and the store's, and what several runs made alike is there once. The store holds nothing that is not
 * whole: a name is given, by link(2), only to bytes that were hashed and synced, and it never replaces one. The runs are the truth;
 * a store that is lost costs room, not outputs. */
#pragma once

#include "collect/outputs.h"

struct store_report {
	uint64_t added;        /* files that the store did not have */
	uint64_t shared;       /* files that it had: the copy was given up for a link */
	uint64_t shared_bytes; /* what that saved */
	uint64_t
		copied; /* files that stay the run's own: no more links, another file system, a damaged object */
	char damaged
		[HASH_HEX]; /* an object whose bytes are not those of its name; "" if none was met */
};

/* Links each file of outputs/ below run_fd with the store below home_fd and sets `stored`. An object that is there already is hashed
 * before a good copy is given up for it. Negative errno if what was linked could not be made durable. */
int outputs_store(int home_fd, int run_fd, struct manifest *m, struct store_report *ret,
		  struct err *err);

/* Removes, or only counts, objects that no run has any more. Safe beside runs: one of them may lose a name in the store, none an output. */
enum store_prune { STORE_COUNT, STORE_REMOVE };
int store_prune(int home_fd, enum store_prune act, uint64_t *ret_files, uint64_t *ret_bytes,
		struct err *err);

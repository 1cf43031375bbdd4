/* Runs of a pipeline that was killed which go on all the same: carried out elsewhere, and attended by another keeper than they had. What one of them
 * makes is waited for, not computed a second time. */
#pragma once

#include <sys/types.h>

#include "base/hash.h"
#include "spec/config.h"
#include "spec/id.h"

struct ongoing {
	char run[ID_MAX + 1];
	char key[HASH_HEX]; /* "": what it makes is there already */
	char why[300];      /* "" while it goes on; then why there is no result of it */
	bool is_ours;       /* of the pipeline that is gone on with, not of one before it */
	bool is_awaited;    /* by a task of this pipeline */
	unsigned missed;    /* sweeps that found it without a keeper, and could have given it one */
	pid_t told;         /* the keeper that was asked to end it */
};

struct ongoing_set {
	struct ongoing *v; /* owned */
	size_t n;
	uint64_t looked_ns, swept_ns;
};
void ongoing_release(struct ongoing_set *s);

/* True if the run is one of those; it is among them then. */
bool ongoing_add(struct ongoing_set *s, const struct config *c, const char *run, const char *key,
		 bool is_ours);
/* One that goes on. */
struct ongoing *ongoing_find(const struct ongoing_set *s, const char *key);
/* Why one of that key gave no result; NULL if there was none, or it still goes on. */
const char *ongoing_why(const struct ongoing_set *s, const char *key);
/* Those that ended well are entered as finished, and are no longer among them; those that did not, and those that nobody can attend any more, go on
 * no longer. */
void ongoing_look(struct ongoing_set *s, const struct config *c);
bool ongoing_is_awaited(const struct ongoing_set *s);
/* Ours are asked to end, once each: to be called again as long as the answer is that some go on. */
bool ongoing_cancel(struct ongoing_set *s, const struct config *c);

/* Runs of a pipeline that was killed which go on all the same: carried out elsewhere, and attended by another keeper than they had. What one of them
 * makes is waited for, not computed a second time. */
#pragma once

#include "base/hash.h"
#include "spec/config.h"
#include "spec/id.h"

struct ongoing {
	char run[ID_MAX + 1];
	char key[HASH_HEX];
	uint64_t attended_ns; /* when it was last seen with a keeper */
	bool is_awaited;      /* by a task of this pipeline */
};

struct ongoing_set {
	struct ongoing *v; /* owned */
	size_t n;
	uint64_t looked_ns, swept_ns;
};
void ongoing_release(struct ongoing_set *s);

/* True if the run is one of those; it is among them then. */
bool ongoing_add(struct ongoing_set *s, const struct config *c, const char *run, const char *key);
struct ongoing *ongoing_find(const struct ongoing_set *s, const char *key);
/* Those that ended are entered as finished if they ended well, and are no longer among them; nor are those that nobody attends any more. */
void ongoing_look(struct ongoing_set *s, const struct config *c);
/* Those that are waited for are asked to end. */
void ongoing_cancel(const struct ongoing_set *s, const struct config *c);

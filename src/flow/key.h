/* The key of an analysis: one digest over all that its result depends on, and nothing else, so that equal keys mean an equal result.
 *
 * It is made of parts that have names for people ("command", "args", "code align.py", "input data/x", "env LANG", "parameter k",
 * "runtime genomics", "output out/x", ...), each a SHA-256 of its own: two keys that differ say where. What is named and every value are
 * given with their lengths, so that no two lists of parts look alike. Limits, ids, names, labels, attempts, times and places on
 * the host are not in it. */
#pragma once

#include "base/clock.h"
#include "base/err.h"
#include "runtime/fingerprint.h"
#include "spec/analysis.h"
#include "spec/config.h"

#define KEY_RUNTIME_NS (10 * NS_PER_SEC) /* a runtime is looked at again after that */
#define KEY_PROJECT_NS NS_PER_SEC        /* and so is the data of a project */

struct key_maker; /* for one process: what it has looked at, and the cache of digests */

/* `config` and `progress` (or NULL) are borrowed until it is freed. */
int key_maker_new(const struct config *config, const struct fingerprint_progress *progress,
		  struct key_maker **ret, struct err *err);
void key_maker_free(struct key_maker *m);
static inline void key_maker_freep(struct key_maker **m)
{
	key_maker_free(*m);
	*m = NULL;
}
#define CLEANUP_KEY_MAKER CLEANUP(key_maker_freep)

/* Fills a->key, a->inputs[].contents and a->code_contents; a path that ends in a link becomes the real one. `a` was not resolved, but has absolute paths and passed analysis_check.
 * -ENOTSUP, with the reason: there can be no key, so that it is to be run each time. -ESTALE: the runtime is not fit, and a run would be
 * refused. a->key is none on any failure. */
int key_make(struct key_maker *m, struct analysis *a, struct err *err);

/* The part of one thing that is shown, "code" or "input", as its record has it: whoever knows what a run was shown can compare. */
struct key_shown {
	const char *what; /* "code", "input" */
	const char *name; /* below code/ or data/ */
	enum contents_kind kind;
	bool executable; /* a file that somebody may execute */
	const char *sha256;
};
void key_shown_part(const struct key_shown *s, char ret_hex[HASH_HEX]);
char *key_shown_name(const struct key_shown *s); /* of the part; owned by the caller */
/* The part "runtime NAME" as it is now, looked at anew; fit or not. `script` is what is run in it, or NULL for a command. */
int key_runtime_now(const struct config *config, const char *name, const char *script,
		    char ret_hex[HASH_HEX], struct err *err);

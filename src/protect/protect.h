/* What analyses must never change, as it is now and as it was accepted: files and trees by stat and content, SQLite files and
 * PostgreSQL databases by schema, counts and cheap checksums. Only looks: nothing of what is protected is ever changed, and nothing is locked
 * but an SQLite file, by the shared lock of a reader while its rows are read.
 *
 * A thing is named as the configuration names it: "/PATH", "sqlite:/PATH", "postgresql://...". At stat depth a tree costs an lstat for each
 * file, an SQLite file one for itself and its log, a PostgreSQL database one connection and two queries over its catalogue. */
#pragma once

#include "base/err.h"
#include "runtime/fingerprint.h"
#include "spec/config.h"

struct protect_state; /* heap; a thing as it was seen */
void protect_state_free(struct protect_state *s);
static inline void protect_state_freep(struct protect_state **s)
{
	protect_state_free(*s);
	*s = NULL;
}
#define CLEANUP_PROTECT_STATE __attribute__((cleanup(protect_state_freep)))

#define PROTECT_FILES_MAX 5000000 /* that are ever looked at */
#define PROTECT_AROUND_MAX                                                                         \
	100000 /* that are looked at around each run: more would cost more than most runs */

struct protect_look {
	const struct config *config; /* its home, if it lies in a tree, is passed over */
	const char *what;
	enum depth depth; /* DEPTH_STAT or DEPTH_CONTENT */
	size_t max;       /* files */
	bool is_around; /* a run: perhaps in a thread, so that no SQLite file is read, which takes the rights of its owner */
	const struct fingerprint_progress *progress; /* or NULL */
};
/* What is not there is a state too. -E2BIG above `max`; -EAGAIN if it was being changed at each of a few tries, or the database cannot be
 * reached; -EACCES if we may not look. err says of what, without any password. */
int protect_look(const struct protect_look *q, struct protect_state **ret, struct err *err);

/* What differs; at content depth times don't matter, at stat depth they do, and a file whose ctime alone is another is read where what it
 * was is known. */
void protect_compare(const struct protect_state *then, struct protect_state *now, enum depth depth,
		     struct drifts *ret);

struct protect_baseline {
	bool exists;
	char *time; /* owned; when it was accepted */
	char *by; /* owned or NULL: the step of the host's whose writes were accepted last, for people */
	uint64_t files, bytes;
	char stat[HASH_HEX];
	char *manifest; /* owned; path */
	char sha256[HASH_HEX];
};
void protect_baseline_release(struct protect_baseline *b);
#define CLEANUP_PROTECT_BASELINE CLEANUP(protect_baseline_release)
/* HOME/protect/TAG.json. None is no error; a damaged one is, with the remedy. */
int protect_baseline_read(const struct config *c, const char *what, struct protect_baseline *ret,
			  struct err *err);
/* What was accepted, to compare with. */
int protect_baseline_state(const struct protect_baseline *b, const char *what,
			   struct protect_state **ret, struct err *err);
/* `s` at content depth. The old one stays until the new one is durable. `by`: as in the baseline; NULL: somebody accepted it. */
int protect_baseline_write(const struct config *c, const struct protect_state *s, const char *by,
			   struct err *err);

/* Same stat digest as was accepted: nothing more has to be read, unless protect_needs_reading. */
/* An SQLite file of which only the schema or the rows are watched: its stat tells nothing of them. */
bool protect_needs_reading(const struct protect_state *s);
bool protect_same(const struct protect_baseline *b, const struct protect_state *s);
uint64_t protect_files(const struct protect_state *s);
/* "file", "tree", "sqlite", "postgresql", "missing". */
const char *protect_kind(const struct protect_state *s);

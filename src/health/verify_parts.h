/* What the files of `verify` share: one part while it is looked at. */
#pragma once

#include "base/str.h"
#include "health/verify.h"

struct verifying {
	const struct verify_request *q;
	struct verify_report *report; /* borrowed */
	enum verify_part part;
	uint64_t found;
	bool unchecked;
	json_t *details; /* owned; numbers of the part */
	json_t *notes;   /* owned; texts */
	char *summary;   /* owned or NULL */
};

/* One thing that is wrong: what kind, where, the command that would mend it, and in words. */
struct verify_finding {
	const char *kind;
	const char *where;
	const char *remedy;
};
void verify_found(struct verifying *v, const struct verify_finding *f, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The part, or some of it, could not be looked at. */
void verify_unchecked(struct verifying *v, const char *text);
void verify_note(struct verifying *v, const char *text);
void verify_number(struct verifying *v, const char *key, uint64_t value);
void verify_say(struct verifying *v, const char *format, ...) __attribute__((format(printf, 2, 3)));

void verify_ledger(struct verifying *v);
void verify_chain(struct verifying *v);
void verify_runs(struct verifying *v);
void verify_store(struct verifying *v);
void verify_runtimes(struct verifying *v);
void verify_protect(struct verifying *v);

/* verify_shelves.c: HOME/verify.json, when each shelf of the store was last looked through, whole. */
struct shelves {
	uint64_t verified_ns[VERIFY_SHELVES]; /* wall clock; 0: never */
	int cut;                              /* the shelf that ran out of time, or -1 */
	char *after;       /* owned or NULL; the last object there that was looked at */
	uint64_t since_ns; /* when that shelf was begun */
};
void shelves_release(struct shelves *s);
void shelves_read(const struct config *c, struct shelves *ret);
int shelves_write(const struct config *c, const struct shelves *s, struct err *err);
/* Those to look at, in order: all, a slice, or by age with the cut one first. Returns how many. */
size_t shelves_choose(const struct shelves *s, const struct verify_request *q,
		      unsigned char ret[VERIFY_SHELVES]);

/* The trials a runtime is put to: each of its interpreters starts, then its own checks. What is to be run, and what the end of that run
 * says, are pure functions of values; check.c runs them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/str.h"
#include "runtime/runtime.h"

struct trial {
	char *name;                        /* owned */
	const struct runtime_check *check; /* borrowed from the runtime; NULL: an interpreter */
	const struct interpreter
		*interpreter; /* borrowed from the runtime; NULL: a check of its own */
	struct strv argv;     /* empty: it can't even be tried */
	char *fault;          /* owned or NULL; why not */
	bool may_be_absent;   /* of the built-in runtime: used if it is installed */
};
struct trials {
	struct trial *v; /* owned */
	size_t n;
};
void trials_release(struct trials *t);
#define CLEANUP_TRIALS CLEANUP(trials_release)

/* The interpreters, each program once, then the checks in their order. */
void trials_make(const struct runtime *r, struct trials *ret);

/* How the run of one ended. */
struct trial_end {
	char *cause;   /* owned; as in verdict.json */
	char *notes;   /* owned */
	int exit_code; /* -1: none */
	int exec_errno;
	char *out; /* owned; the first TRIAL_TEXT_MAX bytes of stdout, NUL-terminated */
	size_t out_length;
	uint64_t out_bytes; /* all of them */
	char out_hex[HASH_HEX];
	char *errors; /* owned; the last bytes of stderr */
	uint64_t wall_usec;
	struct limits limits; /* those it had */
};
#define TRIAL_TEXT_MAX (256 * 1024)
void trial_end_release(struct trial_end *e);
#define CLEANUP_TRIAL_END CLEANUP(trial_end_release)

enum trial_result { TRIAL_OK, TRIAL_FAILED, TRIAL_ABSENT };
/* `ret_text` (owned by the caller) is one clean line: what was found, or what is wrong. */
enum trial_result trial_judge(const struct trial *t, const struct trial_end *e, char **ret_text);

/* The first dotted number of a text that is no part of a word ("v1.2" is, "python3.11" is not), or else its first whole number. Owned by
 * the caller; NULL if there is none. */
char *version_find(const char *text);
/* By components, as numbers of any length; one that is missing counts as 0. <0, 0, >0. */
int version_compare(const char *a, const char *b);

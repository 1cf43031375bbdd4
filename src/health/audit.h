/* Is the record what was recorded? Each event carries the SHA-256 of the one before. The last one carries those of the files and of the
 * verdict, and the verdict that of the last event: whatever of a complete run was changed, a link does not hold. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "spec/config.h"

#define AUDIT_BROKEN_MAX 100 /* that are named; all are counted */

enum audit_depth {
	AUDIT_RECORDS, /* the record alone: events, files, verdict */
	AUDIT_LISTING, /* and whether the outputs are those of outputs.json, by name and size */
	AUDIT_OUTPUTS, /* and whether they have the recorded bytes: each is read */
};

struct audit_report {
	uint64_t runs, events, files;
	uint64_t torn;       /* lines that a crash cut, and that the chain goes over */
	uint64_t unfinished; /* without a verdict: checked as far as they are */
	uint64_t broken;
	json_t *links; /* owned; the broken ones, in the order of the runs, then those of the chain of all: {"run" or null,"file","line" or null,"reason"} */
	struct strv runs_broken; /* owned; whose they are */
	uint64_t chained;        /* links of the chain of all runs */
	char *uncompared; /* owned; why that was not held against the ledger; NULL: it was, or one run was asked for */
};
void audit_report_release(struct audit_report *r);
#define CLEANUP_AUDIT_REPORT CLEANUP(audit_report_release)

/* One run, or all of them (NULL), and then the chain of all runs (ledger/chain.h) too. Changes nothing. -ENOENT (caller) if there is no such run;
 * a broken link is no error. */
int audit_verify(const struct config *c, const char *id, enum audit_depth depth,
		 struct audit_report *ret, struct err *err);
/* One run again, in which no link may be broken: -ESTALE (caller) names the first. */
int audit_expect_whole(const struct config *c, const char *id, enum audit_depth depth,
		       struct err *err);

/* audit_chain.c: the chain of all runs. */
int audit_chain(const struct config *c, struct audit_report *report, struct err *err);
/* Notes a link that does not hold. `run` may be NULL, `line` 0. */
void audit_broken(struct audit_report *report, const char *run, const char *file, uint64_t line,
		  const char *reason);

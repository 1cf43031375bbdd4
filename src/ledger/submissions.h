/* What the service was asked for, in the ledger: durable before it is answered. The one writer is the service of the home. */
#pragma once

#include "ledger/ledger.h"

/* The columns behind `home`, in the order of the table. */
enum submission_column {
	SUBMISSION_ID,
	SUBMISSION_N,
	SUBMISSION_KIND,
	SUBMISSION_SUBMITTER,
	SUBMISSION_UID,
	SUBMISSION_GID,
	SUBMISSION_PRIORITY,
	SUBMISSION_KEY,
	SUBMISSION_BODY,
	SUBMISSION_ANALYSIS,
	SUBMISSION_RETRIES,
	SUBMISSION_NOT_BEFORE,
	SUBMISSION_SUBMITTED,
	SUBMISSION_NAME,
	SUBMISSION_QUEST,
	SUBMISSION_RUNTIME,
	SUBMISSION_STATE, /* those from here on change */
	SUBMISSION_CAUSE,
	SUBMISSION_NOTE,
	SUBMISSION_STARTED,
	SUBMISSION_ENDED,
	SUBMISSION_ATTEMPT,
	SUBMISSION_RUN,
	SUBMISSION_PROGRESS,
	SUBMISSION_COLUMNS_
};

#define SUBMISSIONS_HOME 17 /* as HOME_ID */

/* The home's own name in the ledger, made and entered if need be. */
int submissions_home(struct ledger *l, const struct config *c, char ret[SUBMISSIONS_HOME],
		     struct err *err);

struct submission_found {
	char id[65];
	char body_sha256[65];
	bool by_key; /* it is the submitter's own, of that key */
};
/* Within a transaction. 1 if it was entered; 0 if its id, or its key by the same submitter, was there: *ret is that one. */
int submissions_enter(struct ledger *l, const char *home,
		      const char *const values[SUBMISSION_COLUMNS_], struct submission_found *ret,
		      struct err *err);
/* The same without entering it: *ret is untouched if there is none. */
int submissions_find(struct ledger *l, const char *home,
		     const char *const values[SUBMISSION_COLUMNS_], struct submission_found *ret,
		     struct err *err);
/* The last run that it has made: one whose record says so, whatever else has its id. */
struct submission_ran {
	char run[65]; /* "": none yet */
	unsigned attempt;
};
/* Within a transaction: what changes of it, and whose that run is. */
int submissions_change(struct ledger *l, const char *home,
		       const char *const values[SUBMISSION_COLUMNS_],
		       const struct submission_ran *ran, struct err *err);

/* `values` live until it returns. */
typedef int submissions_row(void *data, const char *const values[SUBMISSION_COLUMNS_],
			    struct err *err);
/* Those that wait or run, in the order in which they came. */
int submissions_open(struct ledger *l, const char *home, submissions_row *row, void *data,
		     struct err *err);
/* The largest `n` there is; 0 if there is none. */
int submissions_last(struct ledger *l, const char *home, uint64_t *ret, struct err *err);

/* All that can be read of a database that was set aside is entered into another. Returns how many, of those that were not there. */
int submissions_salvage(struct ledger *from, struct ledger *to, struct err *err);

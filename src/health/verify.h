/* Is everything that was kept still what was kept? The ledger, the chain of events, the runs against the ledger, the store, the runtimes
 * against their locks, what is protected. Changes nothing of these: it only notes what it found, and how far it came in the store. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "spec/config.h"

enum verify_part {
	VERIFY_LEDGER,
	VERIFY_CHAIN,
	VERIFY_RUNS,
	VERIFY_STORE,
	VERIFY_RUNTIMES,
	VERIFY_PROTECT,
	VERIFY_PART_COUNT_
};
extern const char *const verify_part_names[];
#define VERIFY_ALL       ((1U << VERIFY_PART_COUNT_) - 1)
#define VERIFY_SHELVES   256 /* of the store: more slices there can't be */
#define VERIFY_NAMED_MAX 200 /* findings of a part that are named; all are counted */

/* Who shows the work while it goes on; both may be NULL. */
struct verify_viewer {
	void *data;
	void (*step)(void *data, const char *what, size_t number, size_t of);
	void (*files)(void *data, uint64_t files, uint64_t bytes);
};

struct verify_request {
	const struct config *config;
	unsigned parts; /* bits by enum verify_part */
	bool deep;      /* content of runtimes and of every output, not only what is cheap to see */
	bool quick;     /* the ledger: without comparing indexes with tables */
	unsigned slice; /* of the store; 0: the one that was looked at least lately */
	unsigned slices;                    /* 0: no slice, all of it */
	uint64_t max_ns;                    /* for the store; 0: as long as it takes */
	const struct verify_viewer *viewer; /* or NULL */
};

struct verify_report {
	json_t *parts; /* owned; {"part","status":"ok"|"problem"|"unchecked","summary","found","notes",...numbers} */
	json_t *findings; /* owned; {"part","kind","where","what","remedy"} */
	bool problem, unchecked;
	bool ledger_is_bad;  /* nothing is to be written to it */
	bool ledger_is_away; /* it did not take a record: it is not asked again */
	struct err unkept;   /* what was found could not be noted in the home; text "" if it was */
};
void verify_report_release(struct verify_report *r);
#define CLEANUP_VERIFY_REPORT CLEANUP(verify_report_release)

/* Never fails as a whole: what could not be looked at is a part that says so. */
void verify_run(const struct verify_request *q, struct verify_report *ret);

/* Runs by time, for whoever shows them: those that the ledger has, with what the service knows of who asked for them, and what was asked for but
 * never became a run. */
#pragma once

#include "ledger/ledger.h"
#include "spec/viewer.h"

struct ledger_page {
	const struct viewer *viewer; /* who asks: nothing else of the ledger is told */
	const struct strv *causes, *runtimes, *quests, *submitters; /* any of; an empty list: all */
	const char *
		owner; /* whose a run without a submitter is, for `submitters` and `text`; or NULL */
	const char *name, *text; /* a part of the name; of anything a row shows; or NULL */
	const char *since;       /* accepted then or later; or NULL */
	const char *after_time, *after_id; /* of the last row before; or NULL */
	bool is_oldest_first;
	unsigned limit;
};
/* In no order, and the first `limit` of each cause and kind at least: whoever shows them sorts and cuts. Rows as the API has them, without "state", "pending" and "spark"; what is not known is left out. One that never became a run has "note" and "never". */
int ledger_page(struct ledger *l, const struct config *c, const struct ledger_page *q, json_t **ret,
		struct err *err);
/* How many there are of these, page or not; `max` + 1 if there are more than `max`. */
int ledger_page_count(struct ledger *l, const struct config *c, const struct ledger_page *q,
		      unsigned max, uint64_t *ret, struct err *err);
/* One row by its id, as above: -ENOENT if there is none. */
int ledger_page_row(struct ledger *l, const struct config *c, const char *id, json_t **ret,
		    struct err *err);

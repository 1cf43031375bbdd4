/* Runs added up, for whoever governs. */
#pragma once

#include "ledger/ledger.h"
#include "spec/viewer.h"

enum totals_by { TOTALS_BY_QUEST, TOTALS_BY_RUNTIME, TOTALS_BY_SUBMITTER, TOTALS_BY_COUNT_ };
/* [{"of","cause","runs","wall_usec","cpu_usec","memory_gib_hours","memory_peak_bytes","first","last"}]: of each quest, runtime or submitter, and each
 * cause, over the runs that the viewer may see. "of" is null for those that have none; a submitter's have neither peak nor first nor last. */
int ledger_totals(struct ledger *l, const struct config *c, enum totals_by by,
		  const struct viewer *viewer, json_t **ret, struct err *err);
/* The newest runs of a quest that the viewer may see, newest first: [{"accepted","cause","cpu_usec","submitted","not_before","attempt"}]; the last three
 * only of those that were submitted to a service. */
struct quest_runs {
	const char *quest;
	const struct viewer *viewer;
	unsigned limit;
};
int ledger_quest_runs(struct ledger *l, const struct config *c, const struct quest_runs *q,
		      json_t **ret, struct err *err);
/* {"length","head"} of the ledger's copy of the chain. */
int ledger_chain_head(struct ledger *l, const struct config *c, json_t **ret, struct err *err);

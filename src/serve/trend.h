/* How the runs of a quest went over time. In a thread of the desk. */
#pragma once

#include "ledger/totals.h"

/* {"width_s","runs","is_cut","points":[{"from","runs","ok","success_rate","cpu_usec","waited_usec"}]}: one point for each stretch of `width_s` seconds from the first
 * of the runs to the last. The rate and the mean time that submissions waited are null where there is nothing to make them of. `is_cut`: there
 * are older runs, which are not in it. `of` says whose runs of which quest; its limit is not looked at. */
int trend_of_quest(struct ledger *l, const struct config *c, const struct quest_runs *of,
		   json_t **ret, struct err *err);
/* The same of rows as ledger_quest_runs() gives them. */
json_t *trend_of_runs(const json_t *runs);

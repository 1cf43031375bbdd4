/* OpenMetrics: what Prometheus reads. In a thread of the desk. */
#pragma once

#include "base/str.h"
#include "serve/service.h"

#define METRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define METRICS_TYPE_OLDER                                                                         \
	"text/plain; version=0.0.4; charset=utf-8" /* for who does not ask for the other */

/* What the loop knows. */
struct metrics_now {
	struct viewer viewer; /* the numbers are of the runs that it may see */
	struct service_use use;
	bool is_draining;
	bool is_older; /* Prometheus's own text, from before OpenMetrics */
	json_t *sums; /* owned or NULL: what the ledger has, if it was just added up; set otherwise, if it answers */
	uint64_t cost_ns; /* of adding up; 0: it was not done */
};

/* Sums that are still good: where they must be added up a million runs take seconds, and that is done a tenth of the time at most. In the loop. */
struct metrics_kept {
	json_t *sums; /* owned or NULL */
	uint64_t until_ns;
};
/* What the ledger has is added up; without it that is left out. */
void metrics_write(const struct config *c, struct metrics_now *now, struct str *ret);

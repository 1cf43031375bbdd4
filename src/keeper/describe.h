/* What the keeper knows, as the JSON of the run directory. */
#pragma once

#include "base/json.h"
#include "keeper/keeper.h"
#include "keeper/watch.h"

struct run_times {
	uint64_t accepted_real_ns, started_real_ns, ended_real_ns; /* 0: it did not come to that */
};

json_t *describe_caller(const struct keeper_request *q);
/* The analysis as resolved: after defaults, runtime, policy. */
json_t *describe_analysis(const struct keeper_request *q);
json_t *describe_receipt(struct keeping *k);
/* Comma list of the layers and limiters that are not in force. */
void describe_missing(struct keeping *k, char *ret, size_t room);
json_t *describe_end(const struct keeping *k);
json_t *describe_after(const struct step_end *e);
json_t *describe_verdict(const struct keeping *k, const struct verdict *v,
			 const struct run_times *times);

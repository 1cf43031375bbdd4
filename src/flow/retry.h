/* When what did not succeed is run again, and with how much more: for steps of pipelines and for what a service was given. */
#pragma once

#include "keeper/verdict.h"
#include "spec/limits.h"

/* What to do about one cause. */
struct flow_retry {
	unsigned times;
	double factor; /* of the limit that was reached; 1: as it was */
	uint64_t max;  /* of the same; 0: none */
};

/* So far. */
struct flow_tries {
	unsigned tried[CAUSE_COUNT_];  /* again, for this cause */
	uint64_t limits[LIMIT_COUNT_]; /* of the last attempt; those that were reached grow */
};

struct document;
struct node;
/* {CAUSE: TIMES} or {CAUSE: {times: N, factor: F, max: LIMIT}}. */
int flow_retries_read(const struct document *d, const struct node *map,
		      struct flow_retry ret[CAUSE_COUNT_], struct err *err);
/* The limit that a cause says was reached, -1 if none. */
int flow_retry_limit(enum cause cause);
/* It ended like that: is it to be run again? If so that is counted, and the limit that it reached has grown within its ceiling. */
bool flow_retry_again(const struct flow_retry retries[CAUSE_COUNT_], const struct limits *ceilings,
		      enum cause cause, struct flow_tries *tries);

/* The runtime of a run as it was found: who chose it, what state it is in, and whether it may be run in. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "runtime/fingerprint.h"
#include "runtime/runtime.h"
#include "runtime/select.h"

struct chosen {
	struct selection selection;
	struct fingerprint fingerprint; /* identity; "" where it could not be taken */
	struct err unfit;               /* why it is not to be run in; code 0: it is fit */
	bool allowed;                   /* unfit, and the caller wants it all the same */
	char *activation; /* owned or NULL; the run that ran the scripts of its activation */
};

void chosen_release(struct chosen *c);

/* Nothing will be started. */
static inline bool chosen_refused(const struct chosen *c)
{
	return c->unfit.code && !c->allowed;
}

/* For analysis.json: all that is known. */
json_t *chosen_json(const struct chosen *c, const struct runtime *r);
/* For receipt.json and verdict.json: what ran, and what was allowed. */
json_t *chosen_summary_json(const struct chosen *c, const struct runtime *r);

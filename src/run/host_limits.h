/* Limits against the host that has to keep them. */
#pragma once

#include "base/err.h"
#include "run/run.h"

/* For a run on this host. What the host cannot apply is refused: memory beyond `aggregate`, more open files or larger files than its hard
 * limits allow. What it cannot use is changed to what applies, or said: `notes` has a sentence for each. r->runtime, r->host and r->limits
 * are there. */
int host_limits_fit(const struct config *c, const struct analysis *a, struct resolved *r,
		    struct strv *notes, struct err *err);

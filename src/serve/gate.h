/* Whether who asks may see the run or pipeline that a request names: asked once, before any handler of such a route. */
#pragma once

#include "serve/request.h"

/* Hands the request to its handler, or answers that there is no such run: somebody else's is answered as one that is not there. */
void gate_handle(struct request *r);
/* The submitter of a run that the service did not start by itself, and that may be so new that it has no record: the run of a step (ID-STEP-N) or
 * of a post_process (ID-post) is then that of its pipeline, or of the run that it belongs to. Owned by the caller; NULL: it has none. */
char *gate_submitter(const struct config *c, const char *id);

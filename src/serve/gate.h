/* Whether who asks may see the run or pipeline that a request names: asked once, before any handler of such a route. */
#pragma once

#include "serve/request.h"

/* Hands the request to its handler, or answers that there is no such run: somebody else's is answered as one that is not there. */
void gate_handle(struct request *r);

/* The logs of a run of the service. */
#pragma once

#include "base/err.h"
#include "serve/client.h"

/* What there is, to standard output and standard error. */
int follow_fetch(struct client *c, const char *id, struct err *err);
/* The same, and what comes, until it has ended. A service that goes away is waited for. */
int follow_stream(struct client *c, const char *id, struct err *err);

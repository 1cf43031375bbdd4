/* The logs of a run of the service. */
#pragma once

#include "base/err.h"
#include "base/terminal.h"
#include "serve/client.h"

/* What there is, stdout to to[0] and stderr to to[1]. */
int follow_fetch(struct client *c, const char *id, struct terminal_out to[2], struct err *err);
/* The same, and what comes, until it has ended. A service that goes away is waited for. */
int follow_stream(struct client *c, const char *id, struct terminal_out to[2], struct err *err);

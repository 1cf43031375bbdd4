/* What `wait` and `submit --wait` share. */
#pragma once

#include "serve/client.h"
#include "spec/config.h"

#define WAIT_TIMEOUT_STATUS 123 /* 124 is an analysis that had its deadline */

struct wait_how {
	uint64_t timeout_ns; /* 0: none */
	bool is_any, json, quiet;
};
/* `ids` ends with NULL. `client` may be NULL: by the records. The exit status; what went wrong is said. */
int wait_for(const struct config *config, struct client *client, char *const *ids,
	     const struct wait_how *how);

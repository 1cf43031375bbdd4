/* All that is known of one run, as the API tells it. In a thread of the desk. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "spec/config.h"

/* The row and the record. `live`: service_run() of it, or NULL. -ENOENT (caller) if there is no such run. */
int recorded_run(const struct config *c, const char *id, const json_t *live, json_t **ret,
		 struct err *err);
/* The limit that a run reached, by its cause: {"limit","used","of"} in the units of the limit, "used" null where it was not measured; or NULL. */
json_t *recorded_reached(const struct config *c, const char *id, const char *cause);
/* {"events":[...]}: those behind number `after`, and at most `max`. */
#define RECORDED_EVENTS_MAX 10000
json_t *recorded_events(int run_fd, uint64_t after, size_t max);

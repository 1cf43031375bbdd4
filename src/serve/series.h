/* usage.jsonl: what a run used, as time went on. Read in pieces that are bounded, however long the run is. */
#pragma once

#include "base/err.h"
#include "base/json.h"

/* {"columns":[...],"rows":[[...]]}, at most `points` rows: of each stretch the sample with the most memory. Nothing sampled: no rows. */
json_t *series_read(int run_fd, size_t points);
/* Memory as a part of its limit, 0 to 1, at most SERIES_SPARK values; NULL if there is nothing to show. */
#define SERIES_SPARK 30
json_t *series_spark(int run_fd, uint64_t limit_bytes);
/* The last sample, an object; NULL if there is none. Owned by the caller. */
json_t *series_last(int run_fd);

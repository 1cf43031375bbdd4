/* An analysis as it is handed to a service: the keys of an analysis file, every path absolute. */
#pragma once

#include "base/json.h"
#include "spec/analysis.h"

/* Only what was said; its id is not among it. -EINVAL (caller): a text is no UTF-8, and would not arrive as it is. */
int analysis_request(const struct analysis *a, json_t **ret, struct err *err);

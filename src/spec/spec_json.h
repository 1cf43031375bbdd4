/* Analyses and limits as JSON, for records and `--json`. */
#pragma once

#include "base/json.h"
#include "spec/analysis.h"
#include "spec/limits.h"

/* Everything but the limits, which only mean something once resolved. */
json_t *analysis_json(const struct analysis *a);
/* {"memory":{"value":"2G","raw":2147483648,"origin":"built-in"},...}; limits that were not set are left out. */
json_t *limits_json(const struct limits *l);
json_t *strv_json(const struct strv *list);

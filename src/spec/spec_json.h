/* Analyses and limits as JSON, for records and `--json`. */
#pragma once

#include "base/json.h"
#include "spec/analysis.h"
#include "spec/limits.h"

/* Everything but the limits, which only mean something once resolved. */
json_t *analysis_json(const struct analysis *a);
/* The analysis that an analysis.json tells of, limits and the name of its runtime included; `origin` names the record, in messages and as
 * where the limits are from. A record that does not tell all of it is refused. */
int analysis_from_json(const json_t *record, const char *origin, struct analysis *ret,
		       struct err *err);
/* {"memory":{"value":"2G","raw":2147483648,"origin":"built-in"},...}; limits that were not set are left out. */
json_t *limits_json(const struct limits *l);
json_t *strv_json(const struct strv *list);

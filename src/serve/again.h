/* The analysis of a run's record as it is submitted. Pure. */
#pragma once

#include "base/json.h"

/* Of analysis.json: the keys that an analysis file has. What was found out for the run (digests, id, fingerprints) is left out. Owned by the caller. */
json_t *again_analysis(const json_t *record);

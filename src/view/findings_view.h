/* What a verification found, for people. */
#pragma once

#include "base/json.h"

/* As in struct verify_report: a line for each part, its notes, then a line for each finding: what is wrong, where, and the command that
 * would mend it. */
void findings_print(const json_t *parts, const json_t *findings);

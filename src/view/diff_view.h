/* Two runs side by side: what was asked, in what, with what, what came out, and what it cost. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "spec/config.h"
#include "view/compare.h"

/* {"a","b","same","analysis":[{"key","a","b"}],"runtime":[...],"inputs":[...],"verdict":[...],"usage":[...],"outputs":{}}: what differs,
 * and of usage all; null for what one side lacks. "same" does not look at usage. "outputs" is as compare_outputs has it, or null
 * where a run has no list of them. */
int diff_json(const struct config *c, const char *a, const char *b,
	      const struct tolerance *tolerance, json_t **ret, struct err *err);
int diff_print(const json_t *diff, struct err *err);

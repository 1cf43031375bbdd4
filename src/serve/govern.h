/* Work by quest, and governance, as the API tells of them. In a thread of the desk. `live`: service_rows(). */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "serve/service.h"
#include "spec/config.h"

/* Over the runs that the viewer may see. What is of the host, and not of runs, is told to those who see everything; what is said of quests, to
 * everybody. With `quest` that one alone, and how it went over time ("trend"): -ENOENT (caller) if the viewer sees none of that name. */
struct quests_query {
	const struct viewer *viewer;
	const char *quest; /* or NULL */
	const json_t *live;
};
int govern_quests(const struct config *c, const struct quests_query *q, json_t **ret,
		  struct err *err);
int govern_senate(const struct config *c, const struct viewer *viewer,
		  const struct service_use *use, json_t **ret, struct err *err);
/* What is known of each runtime that was ever checked: {"name","health","reason","checked","drift"}. */
json_t *govern_runtimes(const struct config *c);

/* What is said of quests beside what their runs tell: titles, layers, priorities, states, links. In a thread of the desk.
 *
 * The configuration says it, and POST /v1/quests over it, field by field. What came by the API is in HOME/quests.json. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "spec/config.h"

/* {"NAME":{"title","layer","priority","status","link"},...}; null: not said. */
int quests_about(const struct config *c, json_t **ret, struct err *err);
/* {"quest":NAME} and the fields to change; null takes back what the API said of one. Durable when it returns. *ret is the quest as it is then. */
int quests_set(const struct config *c, const json_t *body, json_t **ret, struct err *err);

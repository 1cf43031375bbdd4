/* Which of the runs there are: by state, cause, runtime, quest and time, page by page. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "spec/config.h"

struct runs_query {
	struct strv states, causes, runtimes, quests; /* any of; none said: all */
	uint64_t since_ns;                            /* accepted then or later; 0: whenever */
	char *after;    /* owned or NULL; the last id of the page before, in the order asked for */
	uint64_t limit; /* 0: all */
	bool is_reverse;
};

void runs_query_release(struct runs_query *q);

/* In the order of their ids, as run_json tells of each; made ids are in the order of time. `ret_last` is the last one's id if there are
 * more, else "". */
int runs_query(const struct config *c, const struct runs_query *q, json_t **ret, char *ret_last,
	       struct err *err);

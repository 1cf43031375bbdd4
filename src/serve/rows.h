/* Runs as the API tells of them. What only the service knows of those that wait or run is given as `live`: an array of such rows, or NULL. In a
 * thread of the desk: nothing here belongs to the loop. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "spec/config.h"
#include "spec/viewer.h"

struct rows_query {
	struct viewer viewer;
	struct strv states, causes, runtimes, quests, submitters; /* any of; none said: all */
	char *name, *text; /* owned or NULL; parts of the name; of anything that a row shows */
	uint64_t since_ns;
	char *after; /* owned or NULL: the id of the last row before */
	uint64_t limit;
	bool is_oldest_first;
};
void rows_query_release(struct rows_query *q);

/* {"runs":[ROW...],"next":ID|null,"total":N|null} */
int rows_page(const struct config *c, const struct rows_query *q, const json_t *live, json_t **ret,
	      struct err *err);
/* The row of one by its directory: -ENOENT (caller) if it has none. `run_fd` is its directory. */
int rows_of_run(const struct config *c, const char *id, int run_fd, json_t **ret, struct err *err);
/* Every key of a row, null where nothing was set. */
void rows_complete(json_t *row);
/* The name of the owner of the home, owned by the caller: who ran what nobody submitted (`cupel run`). "uid:N" if they have no name. */
char *rows_owner(const struct config *c);
/* Whose a row is, where nobody submitted it. */
void rows_set_owner(json_t *row, const char *owner);
/* Borrowed descriptors and values of a record. */
int rows_open_run(const struct config *c, const char *id, struct err *err);

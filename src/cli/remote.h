/* What the service tells, in the form that the records of this host would be told in. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "serve/client.h"
#include "spec/config.h"
#include "view/runs_query.h"

/* A service that answers; without one `client` is NULL, and the records are all there is. */
struct remote {
	struct client *client; /* owned or NULL */
	bool is_here; /* its records are those of this caller: they tell more, and at once */
};
void remote_release(struct remote *r);
#define CLEANUP_REMOTE CLEANUP(remote_release)
/* For commands that only look: a service that does not answer is a warning, unless CUPEL_SERVICE names it. */
int remote_open(const struct config *config, struct remote *ret, struct err *err);
/* The records are to be read: there is no service, or they are the same as its own. */
static inline bool remote_has_records(const struct remote *r)
{
	return !r->client || r->is_here;
}

/* One run or pipeline, as `cupel show --json` has it, with what only the service knows: "submitter", "submitted", "priority", "pending"...
 * -ENOENT if it knows none of that id; otherwise as client_call. */
int remote_show(struct client *c, const char *id, json_t **ret, struct err *err);
/* Adds to what live_json() told, or to nothing, those that go on there, and at most so many (0: all) of those that wait. */
int remote_live(const struct remote *r, json_t *runs, size_t max_waiting, struct err *err);

/* remote_list.c: the rows of the service that a query wants, page by page, each in the form of run_json(). States may be "queued" too. */
struct remote_rows {
	const struct remote *remote;    /* borrowed */
	const struct runs_query *query; /* borrowed */
	bool is_queue; /* only those that wait, all of them at once, in the order of time */
	char *next;    /* owned or NULL: behind which id the next page begins */
	bool is_over;
};
void remote_rows_release(struct remote_rows *r);
/* An empty array: that was all. The limit is the caller's to keep. */
int remote_rows_next(struct remote_rows *r, json_t **ret, struct err *err);
/* Its place among the records, by when it was submitted; borrowed from the row. */
struct runs_key remote_key(const json_t *row);
/* One row in the form of run_json(). */
json_t *remote_run(const json_t *row);

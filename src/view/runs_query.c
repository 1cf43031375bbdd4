#include "view/runs_query.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/path.h"
#include "spec/id.h"
#include "view/runs_view.h"

void runs_query_release(struct runs_query *q)
{
	strv_release(&q->states);
	strv_release(&q->causes);
	strv_release(&q->runtimes);
	strv_release(&q->quests);
	cleanup_free(&q->after);
}

/* Those that this page could have, in its order. */
static int list_ids(const struct config *c, const struct runs_query *q, struct strv *ret,
		    struct err *err)
{
	CLEANUP_STRV struct strv all = { 0 };
	int r = id_list(c->home, "runs", &all, err);
	for (size_t i = 0; r >= 0 && i < all.n; i++) {
		const char *id = all.v[q->is_reverse ? all.n - 1 - i : i];
		int order = q->after ? strcmp(id, q->after) : 1;
		if (!q->after || (q->is_reverse ? order < 0 : order > 0))
			strv_add(ret, id);
	}
	return r;
}

static bool is_one_of(const struct strv *wanted, const char *text)
{
	return !wanted->n || (text && strv_has(wanted, text));
}

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static bool matches(const struct runs_query *q, const char *since, const json_t *run)
{
	const char *accepted = text_of(run, "accepted");
	/* RFC 3339 in UTC, all in one form: the order of the texts is that of the times. */
	if (q->since_ns && (!accepted || strcmp(accepted, since) < 0))
		return false;
	return is_one_of(&q->states, text_of(run, "state")) &&
	       is_one_of(&q->causes, text_of(run, "cause")) &&
	       is_one_of(&q->runtimes, text_of(json_object_get(run, "runtime"), "name")) &&
	       is_one_of(&q->quests, text_of(run, "quest"));
}

int runs_query(const struct config *c, const struct runs_query *q, json_t **ret, char *ret_last,
	       struct err *err)
{
	CLEANUP_STRV struct strv ids = { 0 };
	CLEANUP_JSON json_t *runs = json_array();
	char since[40];
	int r = list_ids(c, q, &ids, err);
	if (r < 0)
		return r;
	clock_write(q->since_ns, since, sizeof since);
	ret_last[0] = 0;
	for (size_t i = 0; i < ids.n && !ret_last[0]; i++) {
		CLEANUP_JSON json_t *run = NULL;
		if (run_json(c, ids.v[i], &run, NULL) < 0 || !matches(q, since, run))
			continue;
		if (q->limit && json_array_size(runs) == q->limit) {
			const json_t *last = json_array_get(runs, q->limit - 1);
			(void)snprintf(ret_last, ID_MAX + 1, "%s", text_of(last, "id"));
		} else {
			json_array_append(runs, run);
		}
	}
	*ret = take_ptr(runs);
	return 0;
}

/* `cupel list` of a service. What it is asked to leave out is left out here once more: which filters it has is its own. */
#include "cli/remote.h"

#include <string.h>

#include "base/clock.h"

#define PAGE 500

void remote_rows_release(struct remote_rows *r)
{
	free(r->next);
	r->next = NULL;
}

static void add_filter(struct str *path, const char *key, const struct strv *words)
{
	if (words->n != 1)
		return;
	CLEANUP_FREE char *word = client_escape(words->v[0]);
	str_addf(path, "&%s=%s", key, word);
}

static char *path_of(const struct remote_rows *r)
{
	CLEANUP_STR struct str path = { 0 };
	const struct runs_query *q = r->query;
	const char *after = r->next || r->is_queue ? r->next : q->after;
	bool is_small = q->limit && q->limit < PAGE && !r->is_queue;
	str_addf(&path, "/v1/runs?limit=%llu&order=%s",
		 (unsigned long long)(is_small ? q->limit : PAGE),
		 q->is_oldest_first ? "oldest" : "newest");
	if (after) {
		CLEANUP_FREE char *id = client_escape(after);
		str_addf(&path, "&after=%s", id);
	}
	if (r->is_queue)
		str_add(&path, "&state=queued");
	else
		add_filter(&path, "state", &q->states);
	add_filter(&path, "cause", &q->causes);
	add_filter(&path, "runtime", &q->runtimes);
	add_filter(&path, "quest", &q->quests);
	if (q->since_ns) {
		char when[40];
		str_addf(&path, "&since=%s", clock_write(q->since_ns, when, sizeof when));
	}
	return str_take(&path);
}

static bool is_among(const struct strv *words, const json_t *value)
{
	const char *word = json_string_value(value);
	return !words->n || (word && strv_has(words, word));
}

/* The queue is asked for as a whole. */
static bool is_before(const struct runs_query *q, const char *id, const char *time)
{
	return runs_order(q, &(struct runs_key){ id, time ? time : "" },
			  &(struct runs_key){ q->after, q->after_time }) <= 0;
}

static bool is_wanted(const struct remote_rows *r, const json_t *row)
{
	const struct runs_query *q = r->query;
	const char *submitted = json_string_value(json_object_get(row, "submitted"));
	const char *id = json_string_value(json_object_get(row, "id"));
	uint64_t when = 0;
	if (!submitted)
		submitted = json_string_value(json_object_get(row, "started"));
	if (q->since_ns && submitted && clock_read(submitted, &when) >= 0 && when < q->since_ns)
		return false;
	if (!id || (r->is_queue && q->after && is_before(q, id, submitted)))
		return false;
	return is_among(&q->states, json_object_get(row, "state")) &&
	       is_among(&q->causes, json_object_get(row, "cause")) &&
	       is_among(&q->runtimes, json_object_get(row, "runtime")) &&
	       is_among(&q->quests, json_object_get(row, "quest"));
}

/* 0 or more rows of the next page that are wanted. */
static int next_page(struct remote_rows *r, json_t *runs, struct err *err)
{
	CLEANUP_JSON json_t *page = NULL;
	CLEANUP_FREE char *path = path_of(r);
	size_t i;
	json_t *row;
	int e = client_call(r->remote->client, &(struct client_request){ .path = path }, &page,
			    err);
	if (e < 0)
		return e;
	json_array_foreach(json_object_get(page, "runs"), i, row)
	{
		if (is_wanted(r, row))
			json_array_append_new(runs, remote_run(row));
	}
	const char *next = json_string_value(json_object_get(page, "next"));
	r->is_over = !next || !i || str_eq(next, r->next);
	free(r->next);
	r->next = next ? xstrdup(next) : NULL;
	return 0;
}

struct runs_key remote_key(const json_t *row)
{
	const char *time = json_string_value(json_object_get(row, "submitted"));
	if (!time)
		time = json_string_value(json_object_get(row, "accepted"));
	return (struct runs_key){ json_string_value(json_object_get(row, "id")), time ? time : "" };
}

static int compare(const void *a, const void *b, void *data)
{
	struct runs_key x = remote_key(*(json_t *const *)a), y = remote_key(*(json_t *const *)b);
	return runs_order(data, &x, &y);
}

/* The queue stands in the order of turns; it is to be merged with the records, which are in that of time. */
static json_t *sorted(json_t *runs, const struct runs_query *q)
{
	size_t n = json_array_size(runs);
	CLEANUP_FREE json_t **list = xcalloc(n + 1, sizeof *list);
	json_t *made = json_array();
	for (size_t i = 0; i < n; i++)
		list[i] = json_array_get(runs, i);
	qsort_r(list, n, sizeof *list, compare, (void *)q);
	for (size_t i = 0; i < n; i++)
		json_array_append(made, list[i]);
	return made;
}

int remote_rows_next(struct remote_rows *r, json_t **ret, struct err *err)
{
	CLEANUP_JSON json_t *runs = json_array();
	while (!r->is_over && (r->is_queue || !json_array_size(runs))) {
		int e = next_page(r, runs, err);
		if (e < 0)
			return e;
	}
	*ret = r->is_queue ? sorted(runs, r->query) : json_incref(runs);
	return 0;
}

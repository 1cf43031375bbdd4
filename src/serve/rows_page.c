/* A page of runs by time: what the ledger has, and what is not in it yet: it waits, runs, or is not delivered. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ledger/page.h"
#include "serve/rows.h"
#include "serve/series.h"
#include "spec/id.h"

#define COUNT_MAX 10000

struct paging {
	const struct config *config;
	const struct rows_query *query;
	json_t *rows;      /* owned; what is to be shown, in no order yet */
	struct strv known; /* ids that are in it, or stand for something in it; sorted when asked */
	char *owner;       /* owned: who ran what nobody submitted */
	char since[40];
	char after_time[64];
};

static void paging_release(struct paging *p)
{
	json_decref(p->rows);
	free(p->owner);
	strv_release(&p->known);
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}

static bool is_one_of(const struct strv *wanted, const char *text)
{
	return !wanted->n || strv_has(wanted, text);
}

static bool has_part(const json_t *row, const char *key, const char *part)
{
	return strcasestr(text_of(row, key), part) != NULL;
}

static bool matches(const struct paging *p, const json_t *row)
{
	const struct rows_query *q = p->query;
	const char *submitter = text_of(row, "submitter");
	if (!viewer_sees(&q->viewer, submitter))
		return false;
	submitter = *submitter ? submitter : p->owner;
	if (q->since_ns && strcmp(text_of(row, "submitted"), p->since) < 0)
		return false;
	if (q->name && !has_part(row, "name", q->name))
		return false;
	if (q->text && !has_part(row, "id", q->text) && !has_part(row, "name", q->text) &&
	    !has_part(row, "quest", q->text) && !has_part(row, "runtime", q->text) &&
	    !strcasestr(submitter, q->text))
		return false;
	return is_one_of(&q->states, text_of(row, "state")) &&
	       is_one_of(&q->causes, text_of(row, "cause")) &&
	       is_one_of(&q->runtimes, text_of(row, "runtime")) &&
	       is_one_of(&q->quests, text_of(row, "quest")) && is_one_of(&q->submitters, submitter);
}

/* Negative if the first comes first. */
static int order(const struct rows_query *q, const char *time_a, const char *id_a,
		 const char *time_b, const char *id_b)
{
	int by = strcmp(time_a, time_b);
	if (by == 0)
		by = strcmp(id_a, id_b);
	return q->is_oldest_first ? by : -by;
}

/* The time that it has in the order: when its run was accepted; of what waits, when it was asked for. */
static const char *time_of(const json_t *row)
{
	static const char *const times[] = { "accepted", "started" };
	for (size_t i = 0; i < sizeof times / sizeof *times; i++)
		if (*text_of(row, times[i]))
			return text_of(row, times[i]);
	return text_of(row, "submitted");
}

static bool is_before_page(const struct paging *p, const json_t *row)
{
	const struct rows_query *q = p->query;
	return q->after && *p->after_time &&
	       order(q, time_of(row), text_of(row, "id"), p->after_time, q->after) <= 0;
}

static void add(struct paging *p, json_t *row)
{
	if (matches(p, row) && !is_before_page(p, row))
		json_array_append(p->rows, row);
}

static void add_live(struct paging *p, const json_t *live)
{
	size_t i;
	json_t *row;
	json_array_foreach(live, i, row)
	{
		strv_add(&p->known, text_of(row, "id"));
		if (*text_of(row, "run"))
			strv_add(&p->known, text_of(row, "run"));
		add(p, row);
	}
	strv_sort(&p->known);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_known(const struct strv *sorted, const char *id)
{
	return sorted->n && bsearch(&id, sorted->v, sorted->n, sizeof *sorted->v, by_text);
}

/* Those of a directory of the home, unless they are there already. */
static int add_directory(struct paging *p, const char *name, struct err *err)
{
	CLEANUP_STRV struct strv ids = { 0 };
	int r = id_list(p->config->home, name, &ids, err);
	size_t had = p->known.n;
	for (size_t i = 0; r >= 0 && i < ids.n; i++) {
		CLEANUP_JSON json_t *row = NULL;
		struct strv before = { p->known.v, had };
		if (is_known(&before, ids.v[i]))
			continue;
		CLEANUP_FD int fd = rows_open_run(p->config, ids.v[i], NULL);
		strv_add(&p->known, ids.v[i]);
		if (fd >= 0 && rows_of_run(p->config, ids.v[i], fd, &row, NULL) >= 0)
			add(p, row);
	}
	strv_sort(&p->known);
	return r;
}

/* Where the page goes on. A row that is nowhere any more, or somebody else's, begins it anew. */
static void find_after(struct paging *p, const json_t *live, struct ledger *l)
{
	CLEANUP_JSON json_t *row = NULL;
	size_t i;
	json_t *one;
	const char *id = p->query->after;
	json_array_foreach(live, i, one)
	{
		if (str_eq(text_of(one, "id"), id))
			row = json_incref(one);
	}
	if (!row && l)
		(void)ledger_page_row(l, p->config, id, &row, NULL);
	CLEANUP_FD int fd = row ? -1 : rows_open_run(p->config, id, NULL);
	if (!row && fd >= 0)
		(void)rows_of_run(p->config, id, fd, &row, NULL);
	bool is_seen = row && viewer_sees(&p->query->viewer, text_of(row, "submitter"));
	(void)snprintf(p->after_time, sizeof p->after_time, "%s", is_seen ? time_of(row) : "");
}

static int add_ledger(struct paging *p, struct ledger *l, uint64_t *ret_total, struct err *err)
{
	const struct rows_query *q = p->query;
	CLEANUP_JSON json_t *rows = NULL;
	size_t i;
	json_t *row;
	struct ledger_page ask = { .viewer = &q->viewer,
				   .causes = &q->causes,
				   .runtimes = &q->runtimes,
				   .quests = &q->quests,
				   .submitters = &q->submitters,
				   .owner = p->owner,
				   .name = q->name,
				   .text = q->text,
				   .since = q->since_ns ? p->since : NULL,
				   .after_time = *p->after_time ? p->after_time : NULL,
				   .after_id = q->after,
				   .is_oldest_first = q->is_oldest_first,
				   /* Some of them may be shown as what they are now. */
				   .limit = (unsigned)(q->limit + 1 +
						       (p->known.n < 1000 ? p->known.n : 1000)) };
	int r = ledger_page(l, p->config, &ask, &rows, err);
	if (r >= 0 && !q->after)
		r = ledger_page_count(l, p->config, &ask, COUNT_MAX, ret_total, err);
	if (r < 0)
		return r;
	json_array_foreach(rows, i, row)
	{
		if (!is_known(&p->known, text_of(row, "id"))) {
			json_object_set_new(row, "state", json_string("ended"));
			json_array_append(p->rows, row);
		} else if (*ret_total && *ret_total <= COUNT_MAX) {
			*ret_total -= 1; /* it is being delivered, and counted already */
		}
	}
	return 0;
}

struct place {
	json_t *row;
	const struct rows_query *query;
};

static int by_order(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	return order(x->query, time_of(x->row), text_of(x->row, "id"), time_of(y->row),
		     text_of(y->row, "id"));
}

/* What a list shows of one, whoever told of it. */
static void finish(const struct paging *p, json_t *row)
{
	uint64_t limit = (uint64_t)json_integer_value(json_object_get(row, "memory_limit_bytes"));
	if (!json_object_get(row, "submitted"))
		json_object_set(row, "submitted", json_object_get(row, "accepted"));
	json_object_del(row, "accepted");
	if (!json_object_get(row, "spark") && !json_object_get(row, "never")) {
		CLEANUP_FD int fd = rows_open_run(p->config, text_of(row, "id"), NULL);
		json_t *spark = fd < 0 ? NULL : series_spark(fd, limit);
		if (spark)
			json_object_set_new(row, "spark", spark);
	}
	json_object_del(row, "never");
	rows_set_owner(row, p->owner);
	rows_complete(row);
}

static json_t *cut(const struct paging *p, uint64_t total)
{
	size_t n = json_array_size(p->rows), shown = n < p->query->limit ? n : p->query->limit;
	CLEANUP_FREE struct place *places = xcalloc(n ? n : 1, sizeof *places);
	json_t *runs = json_array(), *next = json_null();
	for (size_t i = 0; i < n; i++)
		places[i] = (struct place){ json_array_get(p->rows, i), p->query };
	qsort(places, n, sizeof *places, by_order);
	if (n > shown)
		next = json_string(text_of(places[shown - 1].row, "id"));
	for (size_t i = 0; i < shown; i++) {
		/* Live rows belong to all who ask, in several threads: what is shown is filled in in a copy. */
		json_t *row = json_copy(places[i].row);
		finish(p, row);
		json_array_append_new(runs, row);
	}
	return json_pack("{s:o,s:o,s:o}", "runs", runs, "next", next, "total",
			 total > COUNT_MAX ? json_null() : json_u64(total));
}

int rows_page(const struct config *c, const struct rows_query *q, const json_t *live, json_t **ret,
	      struct err *err)
{
	CLEANUP(paging_release) struct paging p = { .config = c, .query = q, .rows = json_array() };
	CLEANUP_LEDGER struct ledger *l = NULL;
	uint64_t total = 0;
	p.owner = rows_owner(c);
	bool is_ended_wanted = is_one_of(&q->states, "ended");
	clock_write(q->since_ns, p.since, sizeof p.since);
	if (ledger_open_whole(c, &l, NULL) < 0)
		l = NULL;
	if (q->after)
		find_after(&p, live, l);
	add_live(&p, live);
	/* In this order: a run goes from active/ to undelivered/, and from there into the ledger. */
	int r = add_directory(&p, "active", err);
	if (r >= 0 && is_ended_wanted)
		r = add_directory(&p, l ? "undelivered" : "runs", err);
	size_t unrecorded = json_array_size(p.rows);
	if (r >= 0 && is_ended_wanted && l)
		r = add_ledger(&p, l, &total, err);
	if (r < 0)
		return r;
	*ret = cut(&p, q->after ? COUNT_MAX + 1 : total + unrecorded);
	return 0;
}

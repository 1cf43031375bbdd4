#include "view/runs_query.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ledger/ledger.h"
#include "spec/id.h"
#include "view/runs_view.h"

#define PAGE       1000 /* runs in memory at a time */
#define RECORD_MAX (8 << 20)

/* A run that is looked at in its directory, and its place in the order. */
struct place {
	char *id;      /* owned */
	char time[40]; /* when it was accepted; "": not known, which is before all others */
};

struct places {
	struct place *v; /* owned */
	size_t n;
};

struct runs {
	const struct config *config;    /* borrowed */
	const struct runs_query *query; /* borrowed */
	char since[40];
	struct ledger *ledger;       /* owned; NULL: the directories are read */
	struct ledger_filter filter; /* borrows from us and the query */
	/* Those to look at in their directories, in the order asked for: all, or what the ledger lacks. */
	struct places places;
	struct strv owed; /* the ids of what the ledger lacks, sorted: it may have them by now */
	size_t at;        /* the next of the places */
	char last[ID_MAX + 1]; /* what was asked for up to here; "": nothing yet */
	char last_time[40];
	uint64_t shown;
	char shown_last[ID_MAX + 1];
	bool has_ended, has_more, has_note;
	struct err note;
};

void runs_query_release(struct runs_query *q)
{
	strv_release(&q->states);
	strv_release(&q->causes);
	strv_release(&q->runtimes);
	strv_release(&q->quests);
	cleanup_free(&q->after);
}

static void places_release(struct places *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->v[i].id);
	free(p->v);
	*p = (struct places){ 0 };
}

void runs_free(struct runs *r)
{
	if (!r)
		return;
	ledger_close(r->ledger);
	places_release(&r->places);
	strv_release(&r->owed);
	free(r);
}

int runs_order(const struct runs_query *q, const struct runs_key *a, const struct runs_key *b)
{
	int by_time = strcmp(a->time, b->time);
	int order = by_time ? by_time : strcmp(a->id ? a->id : "", b->id ? b->id : "");
	return q->is_oldest_first ? order : -order;
}

static int order(const struct runs *r, const struct place *p, const char *id, const char *time)
{
	return runs_order(r->query, &(struct runs_key){ p->id, p->time },
			  &(struct runs_key){ id, time });
}

static int compare_places(const void *a, const void *b, void *data)
{
	const struct place *second = b;
	return order(data, a, second->id, second->time);
}

/* As the ledger has it: the verdict says when; of a run that has none yet, its events do. */
int run_accepted(const struct config *c, const char *id, char ret[static RUN_TIME_ROOM])
{
	CLEANUP_FREE char *directory = xasprintf("%s/runs/%s", c->home, id);
	CLEANUP_FD int fd = open(directory, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	CLEANUP_JSON json_t *verdict = NULL;
	if (fd < 0)
		return -errno;
	(void)json_read_file(fd, "verdict.json", RECORD_MAX, &verdict, NULL);
	CLEANUP_JSON json_t *times = verdict ? NULL : run_times_json(fd);
	const json_t *found = json_object_get(verdict ? verdict : times, "accepted");
	if (!json_is_string(found) && verdict) {
		times = run_times_json(fd);
		found = json_object_get(times, "accepted");
	}
	(void)snprintf(ret, RUN_TIME_ROOM, "%s",
		       json_is_string(found) ? json_string_value(found) : "");
	return 0;
}

/* Sorted as asked for, each once, without those that came before. */
static void take_ids(struct runs *r, struct strv *found)
{
	places_release(&r->places);
	strv_release(&r->owed);
	r->at = 0;
	strv_sort(found);
	r->places.v = xcalloc(found->n + 1, sizeof *r->places.v);
	for (size_t i = 0; i < found->n; i++) {
		struct place one = { .id = found->v[i] };
		if (i > 0 && str_eq(found->v[i - 1], one.id))
			continue;
		strv_add(&r->owed, one.id);
		if (run_accepted(r->config, one.id, one.time) < 0 ||
		    (r->last[0] && order(r, &one, r->last, r->last_time) <= 0))
			continue;
		one.id = xstrdup(one.id);
		r->places.v[r->places.n++] = one;
	}
	qsort_r(r->places.v, r->places.n, sizeof *r->places.v, compare_places, r);
}

static int list_all(struct runs *r, struct err *err)
{
	CLEANUP_STRV struct strv found = { 0 };
	int e = id_list(r->config->home, "runs", &found, err);
	if (e >= 0)
		take_ids(r, &found);
	return e;
}

/* In this order: a run goes from active/ to undelivered/, and from there into the ledger. */
static int list_undelivered(struct runs *r, struct err *err)
{
	CLEANUP_STRV struct strv found = { 0 };
	int e = id_list(r->config->home, "active", &found, err);
	if (e >= 0)
		e = id_list(r->config->home, "undelivered", &found, err);
	if (e >= 0)
		take_ids(r, &found);
	return e;
}

static bool is_owed(const struct runs *r, const char *id)
{
	size_t low = 0, high = r->owed.n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int by_bytes = strcmp(r->owed.v[middle], id);
		if (by_bytes == 0)
			return true;
		*(by_bytes < 0 ? &low : &high) = by_bytes < 0 ? middle + 1 : middle;
	}
	return false;
}

static bool is_one_of(const struct strv *wanted, const char *text)
{
	return !wanted->n || (text && strv_has(wanted, text));
}

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static bool matches(const struct runs *r, const json_t *run)
{
	const struct runs_query *q = r->query;
	const char *accepted = text_of(run, "accepted");
	/* RFC 3339 in UTC, all in one form: the order of the texts is that of the times. */
	if (q->since_ns && (!accepted || strcmp(accepted, r->since) < 0))
		return false;
	return is_one_of(&q->states, text_of(run, "state")) &&
	       is_one_of(&q->causes, text_of(run, "cause")) &&
	       is_one_of(&q->runtimes, text_of(json_object_get(run, "runtime"), "name")) &&
	       is_one_of(&q->quests, text_of(run, "quest"));
}

/* As its directory has it, if it is wanted and there. */
static void add_from_directory(const struct runs *r, const char *id, json_t *page)
{
	CLEANUP_JSON json_t *run = NULL;
	if (run_json(r->config, id, &run, NULL) >= 0 && matches(r, run))
		json_array_append(page, run);
}

static void page_from_directories(struct runs *r, size_t max, json_t *page)
{
	while (r->at < r->places.n && json_array_size(page) < max)
		add_from_directory(r, r->places.v[r->at++].id, page);
	r->has_ended = r->at == r->places.n;
}

/* The ledger's next, and between them what it does not have yet. */
static int page_from_ledger(struct runs *r, size_t max, json_t *page, struct err *err)
{
	CLEANUP_JSON json_t *known = NULL;
	size_t i;
	json_t *run;
	r->filter.after = r->last[0] ? r->last : NULL;
	r->filter.after_time = r->last_time;
	r->filter.limit = (unsigned)max;
	int e = ledger_runs(r->ledger, r->config, &r->filter, &known, err);
	if (e < 0)
		return e;
	json_array_foreach(known, i, run)
	{
		const char *id = text_of(run, "id"), *time = text_of(run, "accepted");
		while (r->at < r->places.n && order(r, &r->places.v[r->at], id, time) < 0)
			add_from_directory(r, r->places.v[r->at++].id, page);
		if (is_owed(r, id)) /* delivered meanwhile: it has its place among those */
			continue;
		if (r->query->detail == RUNS_ALL)
			add_from_directory(r, id, page);
		else
			json_array_append(page, run);
	}
	size_t n = json_array_size(known);
	if (n) {
		run = json_array_get(known, n - 1);
		(void)snprintf(r->last, sizeof r->last, "%s", text_of(run, "id"));
		(void)snprintf(r->last_time, sizeof r->last_time, "%s", text_of(run, "accepted"));
	}
	if (n < max) {
		page_from_directories(r, SIZE_MAX, page);
		r->has_ended = true;
	}
	return 0;
}

static void leave_ledger(struct runs *r)
{
	ledger_close(r->ledger);
	r->ledger = NULL;
	r->has_note = true;
}

static int next(struct runs *r, size_t max, json_t *page, struct err *err)
{
	if (r->ledger && page_from_ledger(r, max, page, &r->note) < 0) {
		leave_ledger(r);
		int e = list_all(r, err);
		if (e < 0)
			return e;
	}
	if (!r->ledger)
		page_from_directories(r, max, page);
	return 0;
}

/* -ENODATA: it is not complete yet, which is nobody's fault; the directories are. */
static int open_ledger(struct runs *r, struct err *err)
{
	const struct runs_query *q = r->query;
	r->filter = (struct ledger_filter){ .causes = &q->causes,
					    .runtimes = &q->runtimes,
					    .quests = &q->quests,
					    .since = q->since_ns ? r->since : NULL,
					    .is_oldest_first = q->is_oldest_first };
	int e = ledger_open_whole(r->config, &r->ledger, &r->note);
	if (e >= 0)
		return list_undelivered(r, err);
	leave_ledger(r);
	r->has_note = e != -ENODATA;
	return list_all(r, err);
}

int runs_open(const struct config *c, const struct runs_query *q, struct runs **ret,
	      struct err *err)
{
	CLEANUP_RUNS struct runs *r = xcalloc(1, sizeof *r);
	r->config = c;
	r->query = q;
	clock_write(q->since_ns, r->since, sizeof r->since);
	if (q->after) {
		(void)snprintf(r->last, sizeof r->last, "%s", q->after);
		(void)snprintf(r->last_time, sizeof r->last_time, "%s", q->after_time);
	}
	int e;
	if (q->source == RUNS_DIRECTORIES)
		e = list_all(r, err);
	else if (is_one_of(&q->states, "ended"))
		e = open_ledger(r, err);
	else
		e = list_undelivered(r, err); /* the ledger has only complete ones */
	if (e < 0)
		return e;
	*ret = take_ptr(r);
	return 0;
}

/* One more than is wanted tells whether there are more. */
int runs_next(struct runs *r, json_t **ret, struct err *err)
{
	CLEANUP_JSON json_t *page = json_array();
	uint64_t left = r->query->limit ? r->query->limit - r->shown : UINT64_MAX;
	size_t n = 0, max = left < PAGE ? (size_t)left + 1 : PAGE;
	while (left && !r->has_ended && (n == 0 || n == left)) {
		int e = next(r, max, page, err);
		if (e < 0)
			return e;
		n = json_array_size(page);
	}
	r->has_more = n > left || (!left && r->has_more);
	while (n > left)
		json_array_remove(page, --n);
	r->shown += n;
	if (n)
		(void)snprintf(r->shown_last, sizeof r->shown_last, "%s",
			       text_of(json_array_get(page, n - 1), "id"));
	*ret = take_ptr(page);
	return 0;
}

const char *runs_note(struct runs *r)
{
	bool is_new = r->has_note;
	r->has_note = false;
	return is_new ? r->note.text : NULL;
}

const char *runs_left_after(const struct runs *r)
{
	return r->has_more ? r->shown_last : NULL;
}

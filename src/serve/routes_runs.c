/* Runs: the list, one of them, what it used and what happened to it. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "flow/record.h"
#include "serve/live.h"
#include "serve/recorded.h"
#include "serve/routes.h"
#include "serve/rows.h"
#include "serve/series.h"
#include "serve/sse.h"

#define LIMIT_DEFAULT  50
#define LIMIT_MAX      500
#define POINTS_DEFAULT 300
#define POINTS_MAX     10000

static const struct problem malformed = { 400, "malformed", NULL };

/* What is read for a request: the question, and what came of it. */
struct asked {
	const struct config *config;
	struct rows_query query;
	json_t *live;        /* owned or NULL; of the service */
	char *id;            /* owned or NULL */
	bool is_pipeline_ok; /* a pipeline's id is answered with the pipeline */
	uint64_t number;
	json_t *answer; /* owned or NULL */
	int result;
	struct err err;
};

static void asked_release(void *data)
{
	struct asked *a = data;
	rows_query_release(&a->query);
	json_decref(a->live);
	json_decref(a->answer);
	free(a->id);
	free(a);
}

static struct asked *asked_new(const struct request *r)
{
	struct asked *a = xcalloc(1, sizeof *a);
	a->config = r->context->config;
	a->id = r->arg[0] ? xstrdup(r->arg[0]) : NULL;
	return a;
}

static void answer(struct request *r, void *data)
{
	struct asked *a = data;
	if (a->result < 0)
		respond_failure(r, a->result, &a->err);
	else
		respond_json(r, 200, take_ptr(a->answer));
}

static void answer_events(struct request *r, void *data)
{
	struct asked *a = data;
	if (a->result == -ENOENT && live_is_to_come(r, a->id))
		respond_json(r, 200, json_pack("{s:[]}", "events"));
	else
		answer(r, data);
}

static void answer_usage(struct request *r, void *data)
{
	struct asked *a = data;
	if (a->result == -ENOENT && live_is_to_come(r, a->id))
		respond_json(r, 200,
			     json_pack("{s:[],s:[],s:n}", "columns", "rows", "memory_limit_bytes"));
	else
		answer(r, data);
}

static void split(const char *text, struct strv *ret)
{
	while (text && *text) {
		size_t n = strcspn(text, ",");
		if (n)
			strv_take(ret, xstrndup(text, n));
		text += n + (text[n] == ',');
	}
}

static char *copy_of(const char *text)
{
	return text && *text ? xstrdup(text) : NULL;
}

static bool are_states_ok(struct request *r, const struct strv *states)
{
	for (size_t i = 0; i < states->n; i++) {
		const char *s = states->v[i];
		if (str_eq(s, "queued") || str_eq(s, "running") || str_eq(s, "ended"))
			continue;
		respond_problem(r, &malformed,
				"state: '%.20s' is neither queued, running nor ended", s);
		return false;
	}
	return true;
}

static bool read_query(struct request *r, struct rows_query *q)
{
	const char *since = url_value(&r->url, "since"), *order = url_value(&r->url, "order");
	split(url_value(&r->url, "state"), &q->states);
	split(url_value(&r->url, "cause"), &q->causes);
	split(url_value(&r->url, "runtime"), &q->runtimes);
	split(url_value(&r->url, "quest"), &q->quests);
	split(url_value(&r->url, "submitter"), &q->submitters);
	q->name = copy_of(url_value(&r->url, "name"));
	q->text = copy_of(url_value(&r->url, "q"));
	q->after = copy_of(url_value(&r->url, "after"));
	q->is_oldest_first = str_eq(order, "oldest");
	if (order && !q->is_oldest_first && !str_eq(order, "newest")) {
		respond_problem(r, &malformed, "order: newest or oldest is wanted");
		return false;
	}
	if (since && *since && clock_read(since, &q->since_ns) < 0) {
		respond_problem(r, &malformed,
				"since: a time such as 2026-01-31T12:00:00Z is wanted");
		return false;
	}
	if (!request_number(r, "limit", LIMIT_MAX, LIMIT_DEFAULT, &q->limit))
		return false;
	q->limit = q->limit ? q->limit : 1;
	return are_states_ok(r, &q->states);
}

static void work_list(void *data)
{
	struct asked *a = data;
	a->result = rows_page(a->config, &a->query, a->live, &a->answer, &a->err);
}

void runs_list(struct request *r)
{
	static const struct reading reading = { work_list, answer, asked_release };
	struct asked *a = asked_new(r);
	if (!read_query(r, &a->query)) {
		asked_release(a);
		return;
	}
	a->query.viewer = r->viewer;
	a->live = service_rows(r->context->service);
	request_read(r, &reading, a);
}

static void work_show(void *data)
{
	struct asked *a = data;
	bool is_pipeline =
		a->is_pipeline_ok &&
		(str_eq(json_string_value(json_object_get(a->live, "kind")), "pipeline") ||
		 flow_record_exists(a->config, a->id));
	a->result = is_pipeline
			    ? state_read_pipeline(a->config, a->id, a->live, &a->answer, &a->err)
			    : recorded_run(a->config, a->id, a->live, &a->answer, &a->err);
}

void runs_show(struct request *r)
{
	static const struct reading reading = { work_show, answer, asked_release };
	const char *kind = url_value(&r->url, "kind");
	if (kind && !str_eq(kind, "run") && !str_eq(kind, "any")) {
		respond_problem(r, &malformed, "kind: use run or any");
		return;
	}
	struct asked *a = asked_new(r);
	a->is_pipeline_ok = str_eq(kind, "any");
	a->live = service_run(r->context->service, a->id);
	request_read(r, &reading, a);
}

static void work_usage(void *data)
{
	struct asked *a = data;
	CLEANUP_JSON json_t *row = NULL;
	CLEANUP_FD int fd = rows_open_run(a->config, a->id, &a->err);
	a->result = fd < 0 ? fd : rows_of_run(a->config, a->id, fd, &row, &a->err);
	if (a->result < 0)
		return;
	a->answer = series_read(fd, (size_t)a->number);
	json_object_set(a->answer, "memory_limit_bytes",
			json_object_get(row, "memory_limit_bytes"));
}

void runs_usage(struct request *r)
{
	static const struct reading reading = { work_usage, answer_usage, asked_release };
	uint64_t points = 0;
	if (!request_number(r, "points", POINTS_MAX, POINTS_DEFAULT, &points))
		return;
	struct asked *a = asked_new(r);
	a->number = points;
	request_read(r, &reading, a);
}

static void work_events(void *data)
{
	struct asked *a = data;
	CLEANUP_FD int fd = rows_open_run(a->config, a->id, &a->err);
	a->result = fd;
	if (fd >= 0)
		a->answer = json_pack("{s:o}", "events",
				      recorded_events(fd, a->number, RECORDED_EVENTS_MAX));
}

void runs_events(struct request *r)
{
	static const struct reading reading = { work_events, answer_events, asked_release };
	uint64_t after = 0;
	if (sse_is_wanted(r)) {
		live_events(r);
		return;
	}
	if (!request_number(r, "after", INT64_MAX, 0, &after))
		return;
	struct asked *a = asked_new(r);
	a->number = after;
	request_read(r, &reading, a);
}

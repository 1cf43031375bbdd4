/* How things stand: the host, the settings, the ledger, pipelines, quests, governance, numbers. */
#include <errno.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "health/glance.h"
#include "ledger/ledger.h"
#include "serve/govern.h"
#include "serve/metrics.h"
#include "serve/quests.h"
#include "serve/routes.h"
#include "spec/id.h"
#include "view/pipeline_view.h"

struct state {
	const struct config *config;
	char *id;     /* owned or NULL */
	char *after;  /* owned or NULL */
	char *quest;  /* owned or NULL */
	json_t *body; /* owned or NULL; what was sent */
	uint64_t limit;
	json_t *live; /* owned or NULL */
	struct viewer viewer;
	struct metrics_now now;
	json_t *answer;  /* owned or NULL */
	struct str text; /* instead of it */
	int result;
	struct err err;
};

static void state_release(void *data)
{
	struct state *s = data;
	json_decref(s->live);
	json_decref(s->answer);
	json_decref(s->now.sums);
	json_decref(s->body);
	str_release(&s->text);
	free(s->id);
	free(s->after);
	free(s->quest);
	free(s);
}

static struct state *state_new(const struct request *r)
{
	struct state *s = xcalloc(1, sizeof *s);
	const char *after = url_value(&r->url, "after");
	s->config = r->context->config;
	s->viewer = r->viewer;
	s->id = r->arg[0] ? xstrdup(r->arg[0]) : NULL;
	s->after = after && *after ? xstrdup(after) : NULL;
	return s;
}

static void answer(struct request *r, void *data)
{
	struct state *s = data;
	if (s->result < 0)
		respond_failure(r, s->result, &s->err);
	else if (s->answer)
		respond_json(r, 200, take_ptr(s->answer));
	else
		respond_bytes(r, 200, s->now.is_older ? METRICS_TYPE_OLDER : METRICS_TYPE,
			      &s->text);
}

/* What was found of records, databases and leftovers tells of the runs of others. */
static json_t *host_rows(const struct state *s, json_t *taken)
{
	if (s->viewer.sees_all)
		return taken;
	json_t *rows = json_array(), *row;
	size_t i;
	json_array_foreach(taken, i, row)
	{
		const char *kind = json_string_value(json_object_get(row, "kind"));
		if (str_eq(kind, "doctor") || str_eq(kind, "runtime"))
			json_array_append(rows, row);
	}
	json_decref(taken);
	return rows;
}

static void work_host(void *data)
{
	struct state *s = data;
	struct utsname name = { 0 };
	struct sysinfo info = { 0 };
	enum glance_level worst = GLANCE_OK;
	json_t *rows = NULL;
	(void)uname(&name);
	(void)sysinfo(&info);
	s->result = glance(s->config, &rows, &worst, &s->err);
	if (s->result < 0)
		return;
	s->answer = json_pack("{s:o,s:o,s:o,s:i,s:o,s:f,s:o,s:{s:s,s:o}}", "host",
			      json_text(name.nodename), "kernel", json_text(name.release),
			      "machine", json_text(name.machine), "cpus", get_nprocs(),
			      "memory_bytes", json_u64((uint64_t)info.totalram * info.mem_unit),
			      "load", (double)info.loads[0] / (1 << SI_LOAD_SHIFT), "uptime_s",
			      json_u64((uint64_t)info.uptime), "health", "level",
			      glance_level_names[worst], "rows", host_rows(s, rows));
}

void state_host(struct request *r)
{
	static const struct reading reading = { work_host, answer, state_release };
	request_read(r, &reading, state_new(r));
}

/* As `cupel config` shows it, which shows no password. */
void state_config(struct request *r)
{
	const struct config *c = r->context->config;
	json_t *values = json_array();
	for (size_t i = 0; i < c->n_values; i++)
		json_array_append_new(values, json_pack("{s:s,s:o,s:o}", "key", c->values[i].key,
							"value", json_text(c->values[i].text),
							"origin", json_text(c->values[i].origin)));
	respond_json(r, 200, json_pack("{s:o}", "config", values));
}

/* The runs of others are not counted, and messages of the database may name anything. */
static void keep_own_ledger(struct state *s)
{
	static const char *const hidden[] = { "runs", "error", "last_error" };
	CLEANUP_STRV struct strv owed = { 0 };
	json_int_t n = 0;
	(void)id_list(s->config->home, "undelivered", &owed, NULL);
	for (size_t i = 0; i < owed.n; i++) {
		CLEANUP_FREE char *submitter = NULL;
		n += viewer_submitter_of_run(s->config, owed.v[i], &submitter) >= 0 &&
		     viewer_sees(&s->viewer, submitter);
	}
	json_object_set_new(s->answer, "owed", json_integer(n));
	for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
		json_object_del(s->answer, hidden[i]);
}

static void work_ledger(void *data)
{
	struct state *s = data;
	s->result = ledger_status(s->config, &s->answer, &s->err);
	if (s->result >= 0 && !s->viewer.sees_all)
		keep_own_ledger(s);
}

void state_ledger(struct request *r)
{
	static const struct reading reading = { work_ledger, answer, state_release };
	request_read(r, &reading, state_new(r));
}

static void work_pipelines(void *data)
{
	struct state *s = data;
	json_t *rows = NULL, *next = json_null();
	const struct pipelines_query q = { .viewer = &s->viewer,
					   .after = s->after,
					   .limit = s->limit + 1 };
	s->result = pipelines_json(s->config, &q, &rows, &s->err);
	if (s->result < 0)
		return;
	if (json_array_size(rows) > s->limit) {
		json_array_remove(rows, s->limit);
		next = json_incref(json_object_get(json_array_get(rows, s->limit - 1), "id"));
	}
	s->answer = json_pack("{s:o,s:o}", "pipelines", rows, "next", next);
}

void state_pipelines(struct request *r)
{
	static const struct reading reading = { work_pipelines, answer, state_release };
	uint64_t limit = 0;
	if (!request_number(r, "limit", 500, 50, &limit))
		return;
	struct state *s = state_new(r);
	s->limit = limit ? limit : 1;
	request_read(r, &reading, s);
}

int state_read_pipeline(const struct config *c, const char *id, const json_t *live, json_t **ret,
			struct err *err)
{
	CLEANUP_PIPELINE_DOSSIER struct pipeline_dossier d = PIPELINE_DOSSIER_INIT;
	int r = pipeline_dossier_read(c, id, &d, err);
	if (r == -ENOENT && live) { /* a queued pipeline has no record yet */
		*ret = json_copy((json_t *)live);
		json_object_set_new(*ret, "id", json_string(id));
		return 0;
	}
	if (r < 0)
		return r;
	json_t *pipeline = pipeline_json(c, &d);
	const char *state = json_string_value(json_object_get(live, "state"));
	if (str_eq(state, "queued")) { /* resumed: the recorded state is not its last */
		json_object_set_new(pipeline, "state", json_string(state));
		json_object_set(pipeline, "pending", json_object_get(live, "pending"));
	}
	*ret = pipeline;
	return 0;
}

static void work_pipeline(void *data)
{
	struct state *s = data;
	s->result = state_read_pipeline(s->config, s->id, s->live, &s->answer, &s->err);
}

void state_pipeline(struct request *r)
{
	static const struct reading reading = { work_pipeline, answer, state_release };
	struct state *s = state_new(r);
	CLEANUP_JSON json_t *live = service_run(r->context->service, s->id);
	if (str_eq(json_string_value(json_object_get(live, "kind")), "pipeline"))
		s->live = take_ptr(live);
	request_read(r, &reading, s);
}

static void work_quests(void *data)
{
	struct state *s = data;
	const struct quests_query q = { .viewer = &s->viewer, .quest = s->quest, .live = s->live };
	s->result = govern_quests(s->config, &q, &s->answer, &s->err);
}

void state_quests(struct request *r)
{
	static const struct reading reading = { work_quests, answer, state_release };
	const char *quest = url_value(&r->url, "quest");
	struct state *s = state_new(r);
	s->live = service_rows(r->context->service);
	s->quest = quest && *quest ? xstrdup(quest) : NULL;
	request_read(r, &reading, s);
}

static void work_set_quest(void *data)
{
	struct state *s = data;
	s->result = quests_set(s->config, s->body, &s->answer, &s->err);
}

void state_set_quest(struct request *r)
{
	static const struct reading reading = { work_set_quest, answer, state_release };
	json_t *body = request_object(r);
	if (!body)
		return;
	struct state *s = state_new(r);
	s->body = body;
	request_read(r, &reading, s);
}

static void work_senate(void *data)
{
	struct state *s = data;
	s->result = govern_senate(s->config, &s->viewer, &s->now.use, &s->answer, &s->err);
}

void state_senate(struct request *r)
{
	static const struct reading reading = { work_senate, answer, state_release };
	struct state *s = state_new(r);
	service_use(r->context->service, &r->viewer, &s->now.use);
	request_read(r, &reading, s);
}

static void work_metrics(void *data)
{
	struct state *s = data;
	metrics_write(s->config, &s->now, &s->text);
}

static void answer_metrics(struct request *r, void *data)
{
	struct state *s = data;
	struct metrics_kept *kept = r->context->metrics;
	if (s->now.cost_ns && s->viewer.sees_all) {
		json_decref(kept->sums);
		kept->sums = take_ptr(s->now.sums);
		kept->until_ns = clock_monotonic_ns() + 10 * s->now.cost_ns;
	}
	answer(r, data);
}

void state_metrics(struct request *r)
{
	static const struct reading reading = { work_metrics, answer_metrics, state_release };
	const struct metrics_kept *kept = r->context->metrics;
	const char *accepts = request_header(r, "Accept");
	struct state *s = state_new(r);
	s->now.is_older = !accepts || !strstr(accepts, "application/openmetrics-text");
	s->now.viewer = r->viewer;
	if (r->viewer.sees_all && kept->sums && clock_monotonic_ns() < kept->until_ns)
		s->now.sums = json_deep_copy(kept->sums);
	service_use(r->context->service, &r->viewer, &s->now.use);
	s->now.is_draining = service_is_draining(r->context->service);
	request_read(r, &reading, s);
}

/* What asks the queue for something: to take an analysis, to end a run, to say what waits. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "flow/record.h"
#include "serve/routes.h"

static const struct problem malformed = { 400, "malformed", NULL };

static bool is_pipeline(const struct context *c, const char *id)
{
	CLEANUP_JSON json_t *live = service_run(c->service, id);
	const char *kind = json_string_value(json_object_get(live, "kind"));
	return kind ? str_eq(kind, "pipeline") : flow_record_exists(c->config, id);
}

static void submitted(void *data, const struct submit_answer *answer)
{
	struct request *r = data;
	if (answer->error) {
		respond_failure(r, -answer->error, &answer->err);
		return;
	}
	CLEANUP_FREE char *location =
		xasprintf(is_pipeline(r->context, answer->id) ? "/v1/pipelines/%s" : "/v1/runs/%s",
			  answer->id);
	respond_json(r, answer->is_new ? 201 : 200,
		     json_pack("{s:s,s:s,s:s}", "id", answer->id, "state", "queued", "location",
			       location));
	respond_header(r, "Location", location);
}

static bool read_priority(struct request *r, const json_t *body, int *ret)
{
	const json_t *value = json_object_get(body, "priority");
	json_int_t number = json_integer_value(value);
	if (value && (!json_is_integer(value) || number < -100 || number > 100)) {
		respond_problem(r, &malformed,
				"priority: a whole number from -100 to 100 is wanted");
		return false;
	}
	*ret = (int)number;
	return true;
}

static bool read_text(struct request *r, const json_t *body, const char *key, const char **ret)
{
	const json_t *value = json_object_get(body, key);
	if (value && !json_is_null(value) && !json_is_string(value)) {
		respond_problem(r, &malformed, "%s: a text is wanted", key);
		return false;
	}
	*ret = json_string_value(value);
	return true;
}

static bool read_not_before(struct request *r, const json_t *body, uint64_t *ret)
{
	const char *text = NULL;
	if (!read_text(r, body, "not_before", &text))
		return false;
	if (!text || clock_read(text, ret) >= 0)
		return true;
	respond_problem(r, &malformed, "not_before: a time such as 2026-01-31T12:00:00Z is wanted");
	return false;
}

bool submit_key(struct request *r, const char **ret)
{
	const char *key = request_header(r, "Idempotency-Key");
	*ret = key;
	if (!key || (*key && strlen(key) <= SERVICE_KEY_MAX && str_is_utf8(key, strlen(key))))
		return true;
	respond_problem(r, &malformed, "Idempotency-Key: 1 to %d bytes of UTF-8 are wanted",
			SERVICE_KEY_MAX);
	return false;
}

/* A key that nobody reads is a mistake that nobody hears of. */
static bool has_only_known(struct request *r, const json_t *body)
{
	static const char *const known[] = { "analysis", "id", "priority", "retries",
					     "not_before" };
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)body, key, value)
	{
		bool is_known = false;
		for (size_t i = 0; i < sizeof known / sizeof *known; i++)
			is_known = is_known || str_eq(key, known[i]);
		if (is_known)
			continue;
		respond_problem(r, &malformed, "'%.40s' is no key of a submission", key);
		return false;
	}
	return true;
}

void submit_later(struct request *r, const struct submit_request *ask)
{
	struct err err = { 0 };
	int code = service_submit(r->context->service, ask, submitted, r, &err);
	/* What an analysis names and is not there is a mistake in it: 404 is for what the address names. */
	if (code < 0)
		respond_failure(r, code == -ENOENT ? -EINVAL : code, &err);
	else
		request_wait(r);
}

void submit_run(struct request *r)
{
	struct submit_request ask = { .who = &r->who };
	CLEANUP_JSON json_t *body = request_object(r);
	if (!body || !has_only_known(r, body) || !read_priority(r, body, &ask.priority) ||
	    !read_text(r, body, "id", &ask.id) || !read_not_before(r, body, &ask.not_before) ||
	    !submit_key(r, &ask.key))
		return;
	ask.analysis = json_object_get(body, "analysis");
	ask.retries = json_object_get(body, "retries");
	if (!json_is_object(ask.analysis)) {
		respond_problem(r, &malformed, "analysis: an object is wanted");
		return;
	}
	if (json_is_null(ask.retries))
		ask.retries = NULL;
	hash_bytes(str_text(&r->body), r->body.length, ask.sha256);
	submit_later(r, &ask);
}

static void cancelled(void *data, const char *id, int error, const struct err *err)
{
	struct request *r = data;
	if (error)
		respond_failure(r, -error, err);
	else
		respond_json(r, 202, json_pack("{s:s}", "id", id));
}

void submit_cancel(struct request *r)
{
	struct err err = { 0 };
	int code = service_cancel(r->context->service, &r->who, r->arg[0], cancelled, r, &err);
	if (code < 0)
		respond_failure(r, code, &err);
	else
		request_wait(r);
}

struct showing {
	json_t *queue; /* owned; shared with others who ask */
	struct viewer viewer;
	struct service_use use; /* what is the viewer's */
	struct str text;
};

static json_t *used_json(uint64_t used, uint64_t cap)
{
	return json_pack("{s:o,s:o}", "used", json_u64(used), "cap", json_u64(cap));
}

/* What waits for the viewer, in its place among all that waits. */
static json_t *share_of_queue(const struct showing *s)
{
	json_t *waiting = json_array(), *one;
	const struct service_use *u = &s->use;
	size_t i;
	json_array_foreach(json_object_get(s->queue, "waiting"), i, one)
	{
		if (viewer_sees(&s->viewer, json_string_value(json_object_get(one, "submitter"))))
			json_array_append(waiting, one);
	}
	return json_pack("{s:o,s:I,s:{s:o,s:o,s:o},s:O,s:O}", "waiting", waiting, "running",
			 (json_int_t)u->running, "use", "memory",
			 used_json(u->memory_used, u->memory_cap), "cpus",
			 used_json(u->cpus_used, u->cpus_cap), "pids",
			 used_json(u->pids_used, u->pids_cap), "draining",
			 json_object_get(s->queue, "draining"), "database",
			 json_object_get(s->queue, "database"));
}

static void work_queue(void *data)
{
	struct showing *s = data;
	CLEANUP_JSON json_t *shown = s->viewer.sees_all ? json_incref(s->queue) : share_of_queue(s);
	CLEANUP_FREE char *text = json_dumps_short(shown, JSON_COMPACT);
	str_add(&s->text, text);
}

static void answer_queue(struct request *r, void *data)
{
	respond_bytes(r, 200, "application/json", &((struct showing *)data)->text);
}

static void showing_release(void *data)
{
	struct showing *s = data;
	json_decref(s->queue);
	str_release(&s->text);
	free(s);
}

/* It may be long: written by a thread. */
void submit_queue(struct request *r)
{
	static const struct reading reading = { work_queue, answer_queue, showing_release };
	struct showing *s = xcalloc(1, sizeof *s);
	s->queue = service_queue(r->context->service);
	s->viewer = r->viewer;
	service_use(r->context->service, &r->viewer, &s->use);
	request_read(r, &reading, s);
}

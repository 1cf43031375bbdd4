/* The analysis of a run again, and a pipeline that is gone on with: through the queue, for whoever asks, with the rights of whose they were. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "flow/record.h"
#include "serve/again.h"
#include "serve/routes.h"
#include "serve/rows.h"

#define RECORD_MAX ((size_t)8 << 20)

static const struct problem malformed = { 400, "malformed", NULL };
static const struct problem not_yours = { 403, "forbidden", NULL };

struct again {
	char *id; /* owned */
	const struct config *config;
	json_t *record;                      /* owned or NULL */
	char *key;                           /* owned or NULL */
	char submitter[VIEWER_NAME_MAX + 1]; /* of a pipeline */
	bool is_anyway;
	int result;
	struct err err;
};

static void again_release(void *data)
{
	struct again *a = data;
	json_decref(a->record);
	free(a->id);
	free(a->key);
	free(a);
}

/* {"anyway": true}, or nothing. False: the request is answered. */
static bool read_body(struct request *r, bool *ret_anyway)
{
	if (!r->body.length)
		return true;
	CLEANUP_JSON json_t *body = request_object(r);
	const json_t *anyway = json_object_get(body, "anyway");
	if (!body)
		return false;
	if (json_object_size(body) > (anyway ? 1 : 0) || (anyway && !json_is_boolean(anyway))) {
		respond_problem(r, &malformed, "nothing, or {\"anyway\": true}, is wanted");
		return false;
	}
	*ret_anyway = json_is_true(anyway);
	return true;
}

static struct again *again_new(struct request *r)
{
	const char *key = NULL;
	bool is_anyway = false;
	if (!submit_key(r, &key) || !read_body(r, &is_anyway))
		return NULL;
	struct again *a = xcalloc(1, sizeof *a);
	a->id = xstrdup(r->arg[0]);
	a->config = r->context->config;
	a->key = key ? xstrdup(key) : NULL;
	a->is_anyway = is_anyway;
	return a;
}

/* One key for one thing that is asked for. */
static void submit_again(struct request *r, struct again *a, struct submit_request *ask)
{
	CLEANUP_FREE char *what =
		xasprintf("%s %s %d", ask->resume ? "resume" : "rerun", a->id, a->is_anyway);
	ask->key = a->key;
	hash_bytes(what, strlen(what), ask->sha256);
	submit_later(r, ask);
}

static void read_run(void *data)
{
	struct again *a = data;
	CLEANUP_FD int fd = rows_open_run(a->config, a->id, &a->err);
	a->result = fd < 0 ? fd
			   : json_read_file(fd, "analysis.json", RECORD_MAX, &a->record, &a->err);
}

/* What another's paths lead to is his to choose: for him they are read, whoever has it run again. False: the request is answered. */
static bool rights_of(struct request *r, const json_t *ids, const char *owner, struct identity *ret)
{
	static const struct problem damaged = { 500, "host", NULL };
	struct config_caller caller = { 0 };
	*ret = r->who;
	if (!ids || json_is_null(ids) || str_eq(owner, r->who.name))
		return true;
	if (!json_is_string(ids) || config_caller_parse(json_string_value(ids), &caller) < 0) {
		respond_problem(r, &damaged,
				"the record of '%s' is damaged: whom it was run for can't be read",
				r->arg[0]);
		return false;
	}
	ret->uid = caller.uid;
	ret->gid = caller.gid;
	return true;
}

static void answer_rerun(struct request *r, void *data)
{
	struct again *a = data;
	const char *owner = json_string_value(json_object_get(a->record, "submitter"));
	struct identity who = { 0 };
	if (a->result < 0) {
		respond_failure(r, a->result, &a->err);
		return;
	}
	if (!(r->who.scopes & SCOPE_ADMIN) && !viewer_owns(&r->viewer, owner)) {
		respond_problem(r, &not_yours, "'%s' is not %s's to run again", a->id, r->who.name);
		return;
	}
	if (!rights_of(r, json_object_get(a->record, "submitter_ids"), owner, &who))
		return;
	CLEANUP_JSON json_t *analysis = again_analysis(a->record);
	struct submit_request ask = {
		.who = &who, .analysis = analysis, .rerun_of = a->id, .is_anyway = a->is_anyway
	};
	submit_again(r, a, &ask);
}

void submit_rerun(struct request *r)
{
	static const struct reading reading = { read_run, answer_rerun, again_release };
	struct again *a = again_new(r);
	if (a)
		request_read(r, &reading, a);
}

static void read_begun(void *data)
{
	struct again *a = data;
	a->result = flow_record_read(a->config, a->id, FLOW_BEGUN, &a->record, &a->err);
	if (a->result == -ENOENT) /* an earlier cupel had it in there only */
		a->result =
			flow_record_read(a->config, a->id, "pipeline.json", &a->record, &a->err);
	if (a->result >= 0)
		a->result = flow_record_submitter(a->config, a->id, a->submitter);
}

static void answer_resume(struct request *r, void *data)
{
	struct again *a = data;
	const json_t *ids = json_object_get(a->record, "submitter");
	struct identity who = { 0 };
	if (a->result < 0) {
		respond_failure(r, a->result, &a->err);
		return;
	}
	if (!(r->who.scopes & SCOPE_ADMIN) && !viewer_owns(&r->viewer, a->submitter)) {
		respond_problem(r, &not_yours, "'%s' is not %s's to go on with", a->id,
				r->who.name);
		return;
	}
	if (!rights_of(r, ids, NULL, &who))
		return;
	CLEANUP_JSON json_t *analysis = json_pack("{s:s}", "resume", a->id);
	struct submit_request ask = { .who = &who, .analysis = analysis, .resume = a->id };
	submit_again(r, a, &ask);
}

void submit_resume(struct request *r)
{
	static const struct problem unknown = { 404, "not-found", NULL };
	static const struct reading reading = { read_begun, answer_resume, again_release };
	if (!flow_record_exists(r->context->config, r->arg[0])) {
		respond_problem(r, &unknown, "there is no pipeline '%s'", r->arg[0]);
		return;
	}
	struct again *a = again_new(r);
	if (a)
		request_read(r, &reading, a);
}

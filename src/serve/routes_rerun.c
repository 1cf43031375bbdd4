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
	json_t *env;                         /* owned or NULL; secret variables, given again */
	bool is_anyway;
	int result;
	struct err err;
};

static void again_release(void *data)
{
	struct again *a = data;
	json_decref(a->record);
	json_decref(a->env);
	free(a->id);
	free(a->key);
	free(a);
}

static bool is_map_of_texts(const json_t *value)
{
	const char *name;
	json_t *text;
	bool is_map = json_is_object(value);
	json_object_foreach((json_t *)value, name, text)
	{
		is_map = is_map && json_is_string(text);
	}
	return is_map;
}

/* {"anyway": true, "env": {NAME: VALUE}}, either or nothing. False: the request is answered. */
static bool read_body(struct request *r, bool *ret_anyway, json_t **ret_env)
{
	if (!r->body.length)
		return true;
	CLEANUP_JSON json_t *body = request_object(r);
	const json_t *anyway = json_object_get(body, "anyway");
	json_t *env = json_object_get(body, "env");
	if (!body)
		return false;
	if (json_object_size(body) != (anyway != NULL) + (size_t)(env != NULL) ||
	    (anyway && !json_is_boolean(anyway)) || (env && !is_map_of_texts(env))) {
		respond_problem(
			r, &malformed,
			"expected nothing, \"anyway\": true or \"env\": {NAME: VALUE} with secret variables of the run");
		return false;
	}
	*ret_anyway = json_is_true(anyway);
	*ret_env = json_incref(env);
	return true;
}

static struct again *again_new(struct request *r)
{
	const char *key = NULL;
	bool is_anyway = false;
	json_t *env = NULL;
	if (!submit_key(r, &key) || !read_body(r, &is_anyway, &env))
		return NULL;
	struct again *a = xcalloc(1, sizeof *a);
	a->id = xstrdup(r->arg[0]);
	a->config = r->context->config;
	a->key = key ? xstrdup(key) : NULL;
	a->is_anyway = is_anyway;
	a->env = env;
	return a;
}

/* One key for one thing that is asked for. */
static void submit_again(struct request *r, struct again *a, struct submit_request *ask)
{
	CLEANUP_FREE char *env = a->env ? json_dumps(a->env, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	CLEANUP_FREE char *what = xasprintf("%s %s %d%s", ask->resume ? "resume" : "rerun", a->id,
					    a->is_anyway, env ? env : "");
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
	if (!ids || json_is_null(ids) || (owner && viewer_owns(&r->viewer, owner)))
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

/* False: the request is answered. */
static bool give_env(struct request *r, const struct again *a, json_t *analysis)
{
	const json_t *secrets = json_object_get(a->record, "secret_env");
	const char *name;
	json_t *value;
	json_object_foreach(a->env, name, value)
	{
		if (json_object_get(secrets, name))
			continue;
		respond_problem(r, &malformed,
				"env: '%.60s' is not a secret variable of the run '%s'", name,
				a->id);
		return false;
	}
	if (!json_object_get(analysis, "env"))
		json_object_set_new(analysis, "env", json_object());
	json_object_update(json_object_get(analysis, "env"), a->env);
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
	if (!give_env(r, a, analysis))
		return;
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

/* It goes on with the rights that it began with. By its name it is the caller's; the uid may be somebody else's by now. */
static bool has_own_rights(const struct request *r, const json_t *ids)
{
	struct config_caller caller = { 0 };
	return !json_is_string(ids) || (config_caller_parse(json_string_value(ids), &caller) >= 0 &&
					caller.uid == r->who.uid);
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
	if (!(r->who.scopes & SCOPE_ADMIN) &&
	    (!viewer_owns(&r->viewer, a->submitter) || !has_own_rights(r, ids))) {
		respond_problem(r, &not_yours, "'%s' is not %s's to go on with", a->id,
				r->who.name);
		return;
	}
	if (!rights_of(r, ids, NULL, &who))
		return;
	if (a->env) {
		respond_problem(r, &malformed, "env: a pipeline takes its variables from its file");
		return;
	}
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

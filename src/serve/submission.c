/* What was asked of the service, checked before it is durable: whatever can be known to be wrong is refused while somebody listens. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "runtime/catalog.h"
#include "serve/queue.h"
#include "serve/starter.h"
#include "spec/caller.h"
#include "spec/limits.h"
#include "spec/yaml.h"

#define ANALYSIS_MAX (1 << 20)
#define KEEPER_BYTES (16ULL << 20) /* of one that attends a run elsewhere, with room to spare */

void submission_need(struct submission *s, const uint64_t limits[LIMIT_COUNT_],
		     const uint64_t cap[SCHEDULE_RESOURCES_])
{
	static const enum limit_id ids[] = { LIMIT_MEMORY, LIMIT_CPUS, LIMIT_PIDS };
	/* Its keeper is here: thousands of them would be too much for this host, too. */
	static const uint64_t attended[] = {
		[SCHEDULE_MEMORY] = KEEPER_BYTES, [SCHEDULE_CPUS] = 0, [SCHEDULE_PIDS] = 1
	};
	for (int i = 0; i < SCHEDULE_RESOURCES_; i++)
		s->job.need[i] = s->is_elsewhere ? attended[i] : limits[ids[i]];
	if (cap[SCHEDULE_CPUS] && s->job.need[SCHEDULE_CPUS] > cap[SCHEDULE_CPUS])
		s->job.need[SCHEDULE_CPUS] = cap[SCHEDULE_CPUS];
	s->memory_limit_bytes = limits[LIMIT_MEMORY];
}

/* Relative to what? The service has no directory of the caller's. */
static int check_absolute(const json_t *path, const char *what, struct err *err)
{
	const char *text = json_string_value(path);
	if (!text || text[0] == '/')
		return 0; /* whoever reads it says what it should be */
	return err_caller(err,
			  "%s: '%.200s' is relative; the service needs a path that begins with /",
			  what, text);
}

static int check_list(const json_t *list, const char *what, struct err *err)
{
	size_t i;
	json_t *item;
	int r = check_absolute(list, what, err);
	json_array_foreach((json_t *)list, i, item)
	{
		if (r >= 0 && json_is_object(item) && !json_object_get(item, "step"))
			r = check_absolute(json_object_get(item, "path"), what, err);
		else if (r >= 0)
			r = check_absolute(item, what, err);
	}
	return r;
}

static int check_paths(const json_t *analysis, struct err *err)
{
	int r = check_list(json_object_get(analysis, "code"), "code", err);
	if (r >= 0)
		r = check_list(json_object_get(analysis, "inputs"), "inputs", err);
	return r < 0 ? r
		     : check_absolute(json_object_get(analysis, "db_snapshot"), "db_snapshot", err);
}

static int check_step_paths(const json_t *analysis, struct err *err)
{
	const json_t *steps = json_object_get(analysis, "steps");
	const char *name;
	json_t *step;
	size_t i;
	int r = 0;
	json_array_foreach((json_t *)steps, i, step) if (r >= 0) r = check_paths(step, err);
	json_object_foreach((json_t *)steps, name, step) if (r >= 0) r = check_paths(step, err);
	return r;
}

static int check_rights(const struct config *c, const struct identity *who,
			const struct analysis *a, struct err *err)
{
	const struct starter_who by = { who->name, who->uid, who->scopes & SCOPE_ADMIN };
	if (a->allow_drift && !c->drift_allowed)
		return err_set(err, ERR_CALLER, EPERM,
			       "allow_drift: the host's policy does not allow it");
	/* Who has not said that he wants to do everything may not, whatever he could. */
	for (size_t i = 0; i < a->allow_missing.n && !by.is_admin; i++)
		if (!strv_has(&c->allow_missing, a->allow_missing.v[i]))
			return starter_no_layer(a->allow_missing.v[i], err);
	return starter_rights(c, &by, a, err);
}

int submission_fits(const struct submission *s, const uint64_t cap[SCHEDULE_RESOURCES_],
		    struct err *err)
{
	static const enum limit_id ids[] = { LIMIT_MEMORY, LIMIT_CPUS, LIMIT_PIDS };
	for (int i = 0; i < SCHEDULE_RESOURCES_; i++) {
		char need[64], most[64];
		if (!cap[i] || s->job.need[i] <= cap[i])
			continue;
		if (ids[i] == LIMIT_MEMORY) /* of the host's own, which is seldom a round number */
			(void)num_print_size(cap[i], most, sizeof most);
		else
			(void)limit_write(ids[i], cap[i], most, sizeof most);
		return err_caller(err,
				  "limits: %s %s can never be had here: all runs together have %s",
				  limit_infos[ids[i]].key,
				  limit_write(ids[i], s->job.need[i], need, sizeof need), most);
	}
	return 0;
}

/* A runtime that the script itself or a rule chooses is known only when it starts: reading the script is its submitter's right to have. */
static int find_limits(const struct config *c, const struct analysis *a, struct limits *ret,
		       struct err *err)
{
	struct runtime runtime = { 0 };
	int r = a->runtime ? catalog_find(c, a->runtime, &runtime, err) : 0;
	if (r >= 0)
		r = config_limits(c, &runtime.limits, a, ret, err);
	runtime_release(&runtime);
	return r;
}

static char *copy_text(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

void submission_chose(struct submission *s, const char *runtime)
{
	free(s->chosen);
	s->chosen = *runtime ? xstrdup(runtime) : NULL;
}

static int read_run(const struct config *c, const uint64_t cap[SCHEDULE_RESOURCES_],
		    const struct submit_request *q, struct submission *s, struct err *err)
{
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	struct limits limits = { 0 };
	uint64_t values[LIMIT_COUNT_];
	int r = check_paths(q->analysis, err);
	if (r >= 0)
		r = starter_analysis(q->analysis, &a, err);
	if (r >= 0)
		r = analysis_check(&a, err);
	if (r >= 0)
		r = check_rights(c, q->who, &a, err);
	if (r >= 0)
		r = find_limits(c, &a, &limits, err);
	if (r < 0)
		return r;
	for (int i = 0; i < LIMIT_COUNT_; i++)
		values[i] = limits.at[i].value;
	s->is_elsewhere = config_executor_is_elsewhere(c, a.executor);
	submission_need(s, values, cap);
	s->has_post = a.post_process;
	s->name = copy_text(a.name);
	s->quest = copy_text(a.quest);
	s->runtime = copy_text(a.runtime);
	if (!q->id && a.id)
		(void)snprintf(s->id, sizeof s->id, "%s", a.id);
	return submission_fits(s, cap, err);
}

/* Of one that is a file: what `cupel run` can be told of the whole. A key that nobody reads is a mistake that nobody hears of. */
static int check_keys(const json_t *analysis, struct err *err)
{
	static const struct {
		const char *key;
		json_type type;
	} known[] = { { "file", JSON_STRING },    { "parameters", JSON_OBJECT },
		      { "name", JSON_STRING },    { "quest", JSON_STRING },
		      { "labels", JSON_OBJECT },  { "keep", JSON_STRING },
		      { "force", JSON_ARRAY },    { "jobs", JSON_INTEGER },
		      { "keep_going", JSON_TRUE } };
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)analysis, key, value)
	{
		size_t i = 0, n = sizeof known / sizeof *known;
		while (i < n && !str_eq(known[i].key, key))
			i++;
		if (i == n)
			return err_caller(
				err,
				"'%.40s' can't be said of a pipeline that is a file; write it there",
				key);
		if (known[i].type == JSON_TRUE ? !json_is_boolean(value)
					       : json_typeof(value) != known[i].type)
			return err_caller(err, "%s: that is not what is wanted there", key);
	}
	return 0;
}

int submission_check_file(const json_t *analysis, struct err *err)
{
	int r = check_keys(analysis, err);
	return r < 0 ? r : check_absolute(json_object_get(analysis, "file"), "file", err);
}

/* What is in it is read with its submitter's rights, by who looks at it: serve/look.c. */
static int read_pipeline(const struct submit_request *q, struct submission *s, struct err *err)
{
	const json_t *file = json_object_get(q->analysis, "file");
	const char *name = json_string_value(json_object_get(q->analysis, "name"));
	const char *quest = json_string_value(json_object_get(q->analysis, "quest"));
	int r = file ? submission_check_file(q->analysis, err) : 0;
	if (r >= 0)
		r = check_step_paths(q->analysis, err);
	s->kind = SUBMISSION_PIPELINE_KIND;
	s->wants_look = true;
	s->name = copy_text(name);
	s->quest = copy_text(quest);
	return r;
}

static int check_retries(const json_t *retries, struct err *err)
{
	struct flow_retry unused[CAUSE_COUNT_] = { 0 };
	CLEANUP_DOCUMENT struct document *d = NULL;
	CLEANUP_FREE char *text = json_dumps_short(retries, JSON_COMPACT);
	if (!text)
		return err_caller(err, "retries: expected {CAUSE: TIMES}");
	int r = document_parse("retries", text, strlen(text), &d, err);
	return r < 0 ? r : flow_retries_read(d, document_root(d), unused, err);
}

static int check_request(const struct config *c, const struct submit_request *q, struct err *err)
{
	struct config as = { .caller = { .is_set = true, .uid = q->who->uid } };
	if (!(q->who->scopes & SCOPE_SUBMIT))
		return err_set(err, ERR_CALLER, EPERM, "%s has no scope to submit", q->who->name);
	if (q->priority > 0 && !(q->who->scopes & SCOPE_ADMIN))
		return err_set(err, ERR_CALLER, EPERM,
			       "a priority above 0 is for who has the scope admin");
	if (q->priority < -100 || q->priority > 100)
		return err_caller(err, "a priority is from -100 to 100");
	if (q->key && strlen(q->key) > SERVICE_KEY_MAX)
		return err_caller(err, "an idempotency key has at most %d bytes", SERVICE_KEY_MAX);
	if (geteuid() != 0 && caller_is_other(&as))
		return err_set(
			err, ERR_CALLER, EPERM,
			"this service runs as an ordinary user and can't read files with the rights of another");
	if (!json_is_object(q->analysis))
		return err_caller(err, "analysis: expected a map, as in an analysis file");
	int r = q->id ? id_check(q->id, err) : 0;
	return r >= 0 && q->retries ? check_retries(q->retries, err) : r;
}

int submission_make(const struct config *c, const uint64_t cap[SCHEDULE_RESOURCES_],
		    const struct submit_request *q, struct submission **ret, struct err *err)
{
	CLEANUP_SUBMISSION struct submission *s = xcalloc(1, sizeof *s);
	s->report_fd = s->pid_fd = -1;
	int r = check_request(c, q, err);
	if (r < 0)
		return r;
	s->is_resume = q->resume;
	s->is_admin = q->who->scopes & SCOPE_ADMIN;
	s->is_anyway = q->is_anyway;
	s->rerun_of = copy_text(q->rerun_of);
	s->wants_look = q->rerun_of;
	bool is_pipeline = q->resume || json_object_get(q->analysis, "steps") ||
			   json_object_get(q->analysis, "file");
	r = is_pipeline ? read_pipeline(q, s, err) : read_run(c, cap, q, s, err);
	if (r < 0)
		return r;
	if (q->id)
		(void)snprintf(s->id, sizeof s->id, "%s", q->id);
	else if (!s->id[0])
		id_generate(s->id);
	(void)snprintf(s->run, sizeof s->run, "%s", q->resume ? q->resume : s->id);
	(void)snprintf(s->body, sizeof s->body, "%s", q->sha256);
	r = submission_hide(c, q->analysis, s, err);
	if (r < 0)
		return r;
	s->retries = q->retries ? json_dumps_short(q->retries, JSON_COMPACT) : NULL;
	if (!s->analysis || strlen(s->analysis) > ANALYSIS_MAX)
		return err_set(err, ERR_CALLER, EINVAL, "the analysis is larger than %d bytes",
			       ANALYSIS_MAX);
	s->uid = q->who->uid;
	s->gid = q->who->gid;
	s->job.priority = q->priority;
	s->job.not_before_ns = q->not_before;
	s->submitted_real_ns = clock_real_ns();
	s->attempt = 1;
	s->key = copy_text(q->key);
	*ret = take_ptr(s);
	return 0;
}

const char *submission_shown(const struct submission *s)
{
	return s->is_resume ? s->run : s->id;
}

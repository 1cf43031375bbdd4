/* What the program beside us answers: plans, reasons, reports, crates, checks. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "serve/child.h"
#include "serve/live.h"
#include "serve/routes.h"
#include "serve/starter.h"
#include "spec/id.h"
#include "view/pipeline_dossier.h"

struct question {
	struct request *request; /* borrowed: it waits; NULL: nobody does */
	void (*answer)(struct request *r, const struct child_result *result, struct question *q);
	char *file; /* owned or NULL: what it makes, to be removed */
};

static void question_free(struct question *q)
{
	if (q->file)
		(void)unlink(q->file);
	free(q->file);
	free(q);
}

/* Its own words: "cupel: TEXT". */
static void fail(struct request *r, const struct child_result *result)
{
	static const struct problem late = { 504, "timeout", NULL },
				    long_ = { 507, "too-long", NULL },
				    caller = { 400, "invalid", NULL },
				    stale = { 409, "refused", NULL }, host = { 500, "host", NULL };
	const char *text = str_text(&result->err);
	const char *last = text;
	for (const char *at = text; (at = strstr(at, "cupel: ")); at++)
		last = at;
	if (str_starts(last, "cupel: "))
		last += strlen("cupel: ");
	CLEANUP_FREE char *line = xstrndup(last, strcspn(last, "\n"));
	const struct problem *p = result->is_late       ? &late
				  : result->is_too_long ? &long_
				  : result->status == 2 ? &caller
				  : result->status == 1 ? &stale
							: &host;
	respond_problem(r, p, "%s", *line ? line : "the answer could not be made");
}

static void done(void *data, const struct child_result *result)
{
	struct question *q = data;
	unsigned n_waits = q->request ? q->request->n_waits : 0;
	if (q->request) {
		q->answer(q->request, result, q);
		request_must_go_on(q->request, n_waits);
	}
	question_free(q);
}

typedef void answer_fn(struct request *, const struct child_result *, struct question *);

/* Takes `words` and `file`. */
static void ask_for(struct request *r, const char *submitter, struct strv *words, char *file,
		    answer_fn *answer)
{
	CLEANUP_STRV struct strv taken = *words;
	struct err err = { 0 };
	struct question *q = xcalloc(1, sizeof *q);
	*words = (struct strv){ 0 };
	*q = (struct question){ r, answer, file };
	request_wait(r);
	const struct child_request request = { .words = &taken,
					       .submitter = submitter,
					       .submitter_name = submitter ? r->who.name : NULL };
	int code = child_run(r->context->children, &request, done, q, &err);
	if (code >= 0)
		return;
	respond_failure(r, code, &err);
	question_free(q);
}

static void ask(struct request *r, struct strv *words, char *file, answer_fn *answer)
{
	ask_for(r, NULL, words, file, answer);
}

/* One value, or one a line, which become a list under `key`. */
static void answer_values(struct request *r, const struct child_result *result, const char *key)
{
	CLEANUP_JSON json_t *list = json_array();
	for (const char *line = str_text(&result->out); *line;) {
		size_t n = strcspn(line, "\n");
		json_t *value = n ? json_loadb(line, n, JSON_DECODE_ANY, NULL) : NULL;
		if (value)
			json_array_append_new(list, value);
		line += n + (line[n] == '\n');
	}
	if (json_array_size(list) == 0) {
		fail(r, result);
		return;
	}
	const json_t *first = json_array_get(list, 0);
	bool is_list = json_array_size(list) == 1 && json_is_array(first);
	if (key)
		respond_json(r, 200, json_pack("{s:O}", key, is_list ? first : list));
	else
		respond_json(r, 200, json_incref((json_t *)first));
}

static void answer_object(struct request *r, const struct child_result *result, struct question *q)
{
	answer_values(r, result, NULL);
}

static void answer_tasks(struct request *r, const struct child_result *result, struct question *q)
{
	answer_values(r, result, "tasks");
}

static void answer_runtimes(struct request *r, const struct child_result *result,
			    struct question *q)
{
	answer_values(r, result, "runtimes");
}

/* A name in the home that nobody has. Owned by the caller. */
static char *temporary(const struct request *r, const char *end)
{
	uint64_t random = 0;
	(void)!getrandom(&random, sizeof random, 0);
	return xasprintf("%s/tmp/serve-%016llx.%s", r->context->config->home,
			 (unsigned long long)random, end);
}

/* `cupel plan` for who asks; takes `copy`, a file of ours that is planned and removed, or NULL for his own. */
static void plan(struct request *r, const json_t *analysis, char *copy)
{
	CLEANUP_STRV struct strv words = { 0 };
	const char *file = json_string_value(json_object_get(analysis, "file"));
	/* As the run would be: what it reads, which results it reuses, which checkpoint it has. */
	CLEANUP_FREE char *submitter =
		xasprintf("%u:%u", (unsigned)r->who.uid, (unsigned)r->who.gid);
	strv_add(&words, "plan");
	strv_add(&words, "--json");
	if (file)
		starter_parameters(json_object_get(analysis, "parameters"), &words);
	strv_add(&words, copy ? copy : file);
	ask_for(r, submitter, &words, copy, answer_object);
}

/* A file that is read for who asks, before it is planned. */
struct planning {
	struct request *request; /* borrowed: it waits */
	json_t *analysis;        /* owned */
	char *copy;              /* owned */
};

static void copied(void *data, int error, const struct err *err)
{
	struct planning *p = data;
	if (error) {
		(void)unlink(p->copy); /* what was to make it may have died later */
		respond_failure(p->request, error == ENOENT ? -EINVAL : -error, err);
	} else {
		plan(p->request, p->analysis, take_ptr(p->copy));
	}
	json_decref(p->analysis);
	free(p->copy);
	free(p);
}

static void plan_copy(struct request *r, json_t *analysis, char *copy)
{
	struct planning *p = xcalloc(1, sizeof *p);
	*p = (struct planning){ r, json_incref(analysis), copy };
	const struct copy_request q = { .who = &r->who, .analysis = analysis, .path = copy };
	request_wait(r);
	service_copy(r->context->service, &q, copied, p);
}

/* What is named is looked at with the rights of who asks: spec/caller.h. */
void ask_plan(struct request *r)
{
	static const struct problem malformed = { 400, "malformed", NULL };
	CLEANUP_JSON json_t *body = request_object(r);
	if (!body)
		return;
	json_t *analysis = json_object_get(body, "analysis");
	if (!json_is_object(analysis)) {
		respond_problem(r, &malformed, "analysis: an object is wanted");
		return;
	}
	bool is_file = json_object_get(analysis, "file");
	bool is_other = r->who.uid != 0 && r->who.uid != geteuid();
	CLEANUP_FREE char *file = temporary(r, "yaml");
	struct err err = { 0 };
	int code = 0;
	if (is_file) {
		code = submission_check_file(analysis, &err);
	} else {
		CLEANUP_FREE char *text = json_dumps_short(analysis, 0);
		code = fs_write_atomic(AT_FDCWD, file, text, strlen(text), 0600, &err);
	}
	if (code < 0)
		respond_failure(r, code, &err);
	else if (is_file && is_other)
		plan_copy(r, analysis, take_ptr(file));
	else
		plan(r, analysis, is_file ? NULL : take_ptr(file));
}

static bool is_there(struct request *r)
{
	static const struct problem unknown = { 404, "not-found", NULL };
	if (live_is_known(r, r->arg[0]) || pipeline_is_there(r->context->config, r->arg[0]))
		return true;
	respond_problem(r, &unknown, "there is no run or pipeline '%s'", r->arg[0]);
	return false;
}

void ask_why(struct request *r)
{
	CLEANUP_STRV struct strv words = { 0 };
	if (!is_there(r))
		return;
	strv_add(&words, "why");
	strv_add(&words, "--json");
	strv_add(&words, r->arg[0]);
	ask(r, &words, NULL, answer_tasks);
}

static void answer_page(struct request *r, const struct child_result *result, struct question *q)
{
	CLEANUP_STR struct str page = { 0 };
	if (result->status != 0) {
		fail(r, result);
		return;
	}
	str_add_n(&page, result->out.text, result->out.length);
	respond_page(r, &page);
}

void ask_report(struct request *r)
{
	CLEANUP_STRV struct strv words = { 0 };
	if (!is_there(r))
		return;
	strv_add(&words, "report");
	strv_add(&words, r->arg[0]);
	strv_add(&words, "--to");
	strv_add(&words, "-");
	ask(r, &words, NULL, answer_page);
}

static void answer_crate(struct request *r, const struct child_result *result, struct question *q)
{
	struct stat st = { 0 };
	CLEANUP_FD int fd = result->status == 0 ? open(q->file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
						: -1;
	if (fd < 0 || fstat(fd, &st) < 0) {
		fail(r, result);
		return;
	}
	CLEANUP_FREE char *name = xasprintf("%s.zip", r->arg[0]);
	CLEANUP_FREE char *etag = xasprintf("crate-%s-%lld", r->arg[0], (long long)st.st_size);
	respond_file(r, &(struct respond_file){ .fd = take_fd(&fd),
						.size = (uint64_t)st.st_size,
						.etag = etag,
						.type = "application/zip",
						.filename = name,
						.is_sandboxed = true });
}

void ask_crate(struct request *r)
{
	CLEANUP_STRV struct strv words = { 0 };
	if (!is_there(r))
		return;
	char *file = temporary(r, "zip");
	strv_add(&words, "export");
	strv_add(&words, r->arg[0]);
	strv_add(&words, "--to");
	strv_add(&words, file);
	ask(r, &words, file, answer_crate);
}

void ask_runtimes(struct request *r)
{
	CLEANUP_STRV struct strv words = { 0 };
	strv_add(&words, "runtime");
	strv_add(&words, "list");
	strv_add(&words, "--json");
	ask(r, &words, NULL, answer_runtimes);
}

static bool is_name_ok(struct request *r)
{
	static const struct problem unknown = { 404, "not-found", NULL };
	struct err err = { 0 };
	if (id_check_runtime(r->arg[0], &err) >= 0)
		return true;
	respond_problem(r, &unknown, "%s", err.text);
	return false;
}

static void answer_runtime(struct request *r, const struct child_result *result, struct question *q)
{
	static const struct problem unknown = { 404, "not-found", NULL };
	if (result->status == 2 && !result->out.length) {
		respond_problem(r, &unknown, "there is no runtime '%s'", r->arg[0]);
		return;
	}
	answer_values(r, result, NULL);
}

void ask_runtime(struct request *r)
{
	CLEANUP_STRV struct strv words = { 0 };
	if (!is_name_ok(r))
		return;
	strv_add(&words, "runtime");
	strv_add(&words, "show");
	strv_add(&words, "--json");
	strv_add(&words, r->arg[0]);
	ask(r, &words, NULL, answer_runtime);
}

/* Begun, not waited for: what came of it is shown by the runtime. */
static void begin(struct request *r, const struct strv *words)
{
	struct err err = { 0 };
	struct question *q = xcalloc(1, sizeof *q);
	int code = child_run(r->context->children,
			     &(struct child_request){ .words = words, .goes_on = true }, done, q,
			     &err);
	if (code >= 0) {
		respond_json(r, 202, json_pack("{s:s}", "accepted", r->arg[0]));
		return;
	}
	respond_failure(r, code, &err);
	question_free(q);
}

void ask_check(struct request *r)
{
	CLEANUP_STRV struct strv words = { 0 };
	if (!is_name_ok(r))
		return;
	strv_add(&words, "runtime");
	strv_add(&words, "check");
	strv_add(&words, r->arg[0]);
	begin(r, &words);
}

/* Pipelines that were submitted: `cupel run` of the file, apart from the service. What another user submits is copied first, so that what was
 * checked with his rights is what is run. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/path.h"
#include "flow/flow.h"
#include "flow/record.h"
#include "serve/starter_parts.h"
#include "spec/caller.h"

#define FOLDER FLOW_SUBMITTED

char *starter_pipeline_file(const struct config *c, const char *id)
{
	return xasprintf("%s/" FOLDER "/%s.yaml", c->home, id);
}

char *starter_pipeline_errors(const struct config *c, const char *id)
{
	return xasprintf("%s/" FOLDER "/%s.err", c->home, id);
}

static int keep_text(const struct config *c, const char *id, const char *text, size_t length,
		     struct err *err)
{
	CLEANUP_FREE char *path = path_join(c->home, FOLDER);
	CLEANUP_FREE char *name = xasprintf("%s.yaml", id);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "make %s", path);
	CLEANUP_FD int dir_fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (dir_fd < 0)
		return err_errno(err, "open %s", path);
	return fs_write_atomic(dir_fd, name, text, length, 0600, err);
}

static int read_as_caller(const struct config *c, const char *file, char **ret, size_t *ret_length,
			  struct err *err)
{
	CLEANUP(caller_leave) struct caller_before before = { 0 };
	int r = caller_enter(c, &before);
	if (r < 0)
		return err_set(err, ERR_CALLER, -r, "%s: this service can't act for its submitter",
			       file);
	return analysis_text(file, ret, ret_length, err);
}

static int check_task(const struct config *c, const struct analysis *a, struct err *err)
{
	CLEANUP_FREE char *real = NULL;
	int r = 0;
	for (size_t i = 0; r >= 0 && i < a->code.n; i++) {
		cleanup_free(&real);
		r = caller_real(c, a->code.v[i], &real);
		if (r < 0)
			return err_set(err, ERR_CALLER, -r, "code: %s: %s", a->code.v[i],
				       strerrordesc_np(-r));
	}
	for (size_t i = 0; r >= 0 && i < a->n_inputs; i++) {
		cleanup_free(&real);
		r = caller_real(c, a->inputs[i].path, &real);
		if (r < 0)
			return err_set(err, ERR_CALLER, -r, "%s: %s: %s", a->inputs[i].origin,
				       a->inputs[i].path, strerrordesc_np(-r));
	}
	return 0;
}

/* The text and what it says, read for its submitter before anything of it is read as ourselves. */
struct pipeline_text {
	char *path; /* owned; what it is relative to: of a text that was sent or copied, our own folder, which others can't read */
	char *text; /* owned */
	size_t length;
	struct flow flow;
};

static void text_release(struct pipeline_text *p)
{
	free(p->path);
	free(p->text);
	flow_release(&p->flow);
}

static int parse_as_caller(const struct config *c, const json_t *parameters,
			   struct pipeline_text *p, struct err *err)
{
	CLEANUP_FREE char *said = parameters ? json_dumps_short(parameters, JSON_COMPACT) : NULL;
	CLEANUP(caller_leave) struct caller_before before = { 0 };
	int r = caller_enter(c, &before);
	if (r < 0)
		return err_set(err, ERR_CALLER, -r,
			       "this service can't act for the submitter of the pipeline");
	return flow_parse(p->path, p->text, p->length, said, &p->flow, err);
}

static int read_text(const struct config *c, const json_t *sent, struct pipeline_text *p,
		     struct err *err)
{
	const json_t *analysis = json_object_get(sent, "analysis");
	const char *file = json_string_value(json_object_get(analysis, "file"));
	const char *run = json_string_value(json_object_get(sent, "run"));
	const struct starter_who who = starter_who(sent);
	int r = 0;
	p->path = file && !caller_is_other(c) ? xstrdup(file) : starter_pipeline_file(c, run);
	if (file) {
		r = read_as_caller(c, file, &p->text, &p->length, err);
	} else {
		p->text = json_dumps_short(analysis, JSON_INDENT(1));
		p->length = p->text ? strlen(p->text) : 0;
	}
	if (r >= 0)
		r = parse_as_caller(c, file ? json_object_get(analysis, "parameters") : NULL, p,
				    err);
	for (size_t i = 0; r >= 0 && i < p->flow.n_tasks; i++) {
		r = starter_rights(c, &who, &p->flow.tasks[i].analysis, err);
		if (r >= 0 && caller_is_other(c))
			r = check_task(c, &p->flow.tasks[i].analysis, err);
	}
	return r;
}

int pipeline_read(struct config *config, const json_t *sent, struct flow *ret, struct str *ret_text,
		  struct err *err)
{
	CLEANUP(text_release) struct pipeline_text p = { 0 };
	int r = read_text(config, sent, &p, err);
	if (r < 0)
		return r;
	str_add_n(ret_text, p.text, p.length);
	*ret = p.flow;
	p.flow = (struct flow){ 0 };
	return 0;
}

/* The file that is run: his own if he may do all that we may, else a copy of what was checked. */
static int settle_file(const struct config *c, const json_t *sent, char **ret, struct err *err)
{
	CLEANUP(text_release) struct pipeline_text p = { 0 };
	const char *file =
		json_string_value(json_object_get(json_object_get(sent, "analysis"), "file"));
	const char *run = json_string_value(json_object_get(sent, "run"));
	const struct starter_who who = starter_who(sent);
	if (file && !caller_is_other(c) && starter_is_trusted(&who)) {
		*ret = xstrdup(file);
		return 0;
	}
	int r = read_text(c, sent, &p, err);
	if (r >= 0)
		r = keep_text(c, run, p.text, p.length, err);
	if (r >= 0)
		*ret = starter_pipeline_file(c, run);
	return r;
}

void starter_parameters(const json_t *parameters, struct strv *words)
{
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)parameters, key, value)
	{
		CLEANUP_FREE char *text = json_dumps_short(value, JSON_COMPACT | JSON_ENCODE_ANY);
		strv_add(words, "-p");
		strv_addf(words, "%s=%s", key, text ? text : "null");
	}
}

/* What its submitter says of the whole, as `cupel run` would be told. */
static void add_options(const json_t *analysis, struct strv *words)
{
	static const char *const texts[] = { "name", "quest", "keep" };
	const json_t *labels = json_object_get(analysis, "labels");
	const json_t *force = json_object_get(analysis, "force");
	const json_t *jobs = json_object_get(analysis, "jobs");
	const char *key;
	size_t i;
	json_t *value;
	for (i = 0; i < sizeof texts / sizeof *texts; i++)
		if (json_is_string(json_object_get(analysis, texts[i])))
			strv_addf(words, "--%s=%s", texts[i],
				  json_string_value(json_object_get(analysis, texts[i])));
	json_object_foreach((json_t *)labels, key, value)
	{
		if (json_is_string(value))
			strv_addf(words, "--label=%s=%s", key, json_string_value(value));
	}
	json_array_foreach(force, i, value)
	{
		if (json_is_string(value))
			strv_addf(words, "--force=%s", json_string_value(value));
	}
	if (json_is_integer(jobs))
		strv_addf(words, "--jobs=%lld", (long long)json_integer_value(jobs));
	if (json_is_true(json_object_get(analysis, "keep_going")))
		strv_add(words, "--keep-going");
}

/* Its own words go to a file beside: the first thing to read if it could not begin. */
static int set_streams(const struct config *c, const char *id, struct err *err)
{
	CLEANUP_FREE char *folder = path_join(c->home, FOLDER);
	CLEANUP_FREE char *path = starter_pipeline_errors(c, id);
	if (mkdir(folder, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "make %s", folder);
	CLEANUP_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
	    dup2(null_fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
		return err_errno(err, "open %s", path);
	return 0;
}

/* `sent`: NULL, or what the service admitted. */
static int set_environment(const struct config *c, const json_t *sent, struct err *err)
{
	CLEANUP_FREE char *caller =
		xasprintf("%u:%u", (unsigned)c->caller.uid, (unsigned)c->caller.gid);
	const char *submission = json_string_value(json_object_get(sent, "submission"));
	const char *given = json_string_value(json_object_get(sent, "given"));
	static const char *const manager[] = { "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC",
					       "LISTEN_FDS",    "LISTEN_PID",   "LISTEN_FDNAMES" };
	for (size_t i = 0; i < sizeof manager / sizeof *manager; i++)
		(void)unsetenv(manager[i]);
	if (setenv("CUPEL_HOME", c->home, 1) < 0 || setenv("CUPEL_SUBMITTER", caller, 1) < 0 ||
	    (submission && setenv("CUPEL_SUBMISSION", submission, 1) < 0) ||
	    (given && setenv("CUPEL_GIVEN", given, 1) < 0))
		return err_errno(err, "set the environment");
	return 0;
}

static void exec_cupel(struct strv *words)
{
	CLEANUP_FREE char *self = path_real("/proc/self/exe");
	CLEANUP_FREE char *directory = self ? path_parent(self) : NULL;
	CLEANUP_FREE char *beside = directory ? path_join(directory, "cupel") : NULL;
	sigset_t none;
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)setsid();
	if (beside && access(beside, X_OK) == 0)
		(void)execv(beside, strv_argv(words));
	(void)execv(BINDIR "/cupel", strv_argv(words));
}

int check_become(struct config *config, const json_t *sent, int report_fd, struct err *err)
{
	const char *runtime = json_string_value(json_object_get(sent, "runtime"));
	CLEANUP_STRV struct strv words = { 0 };
	CLEANUP_FD int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd < 0 || !runtime)
		return err_errno(err, "open /dev/null");
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (dup2(null_fd, fd) < 0)
			return err_errno(err, "let go of the standard streams");
	strv_add(&words, "cupel");
	strv_add(&words, "runtime");
	strv_add(&words, "check");
	strv_add(&words, runtime);
	config->caller =
		(struct config_caller){ .is_set = true, .uid = geteuid(), .gid = getegid() };
	int r = set_environment(config, NULL, err);
	if (r < 0)
		return r;
	if (fcntl(report_fd, F_SETFD, 0) < 0)
		return err_errno(err, "pass the report socket on");
	(void)!nice(10);
	exec_cupel(&words);
	return err_errno(err, "start cupel");
}

/* `cupel run` of the file, or `cupel resume`. */
static int command_words(struct config *config, const json_t *sent, struct strv *words,
			 struct err *err)
{
	const json_t *analysis = json_object_get(sent, "analysis");
	const char *run = json_string_value(json_object_get(sent, "run"));
	bool is_resume = json_is_true(json_object_get(sent, "resume"));
	CLEANUP_FREE char *file = NULL;
	int r = is_resume ? 0 : settle_file(config, sent, &file, err);
	if (r < 0)
		return r;
	strv_add(words, "cupel");
	strv_add(words, is_resume ? "resume" : "run");
	strv_add(words, "--quiet");
	if (is_resume) {
		strv_add(words, run);
		return 0;
	}
	strv_add(words, "--id");
	strv_add(words, run);
	if (json_object_get(analysis, "file")) {
		starter_parameters(json_object_get(analysis, "parameters"), words);
		add_options(analysis, words);
	}
	strv_add(words, file);
	return 0;
}

int pipeline_become(struct config *config, const json_t *sent, int report_fd, struct err *err)
{
	const char *run = json_string_value(json_object_get(sent, "run"));
	CLEANUP_STRV struct strv words = { 0 };
	int r = command_words(config, sent, &words, err);
	if (r >= 0)
		r = set_environment(config, sent, err);
	if (r >= 0)
		r = set_streams(config, run, err);
	if (r < 0)
		return r;
	if (fcntl(report_fd, F_SETFD, 0) < 0)
		return err_errno(err, "pass the report socket on");
	exec_cupel(&words);
	return err_errno(err, "start cupel");
}

/* A program of the site's own: each question is a line of JSON on its standard input, each answer a line on its standard output:
 * cupel-executor(7). */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "executor/base64.h"
#include "executor/kinds.h"
#include "spec/caller.h"
#include "spec/request.h"
#include "spec/spec_json.h"

#define ANSWER_MAX ((size_t)4 << 20)
#define LOGS_MAX   (256 * 1024) /* asked for at once */

struct program {
	pid_t pid; /* 0: not started */
	int fd;    /* owned; its standard input and output */
	struct str answer;
};

static void end_program(struct program *p)
{
	cleanup_fd(&p->fd);
	str_release(&p->answer);
	if (p->pid > 0) {
		(void)kill(p->pid, SIGKILL);
		while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	p->pid = 0;
}

static void program_release(struct executor *x)
{
	struct program *p = x->data;
	if (p)
		end_program(p);
	free(p);
	x->data = NULL;
}

static int start_program(struct executor *x, struct err *err)
{
	struct program *p = x->data;
	CLEANUP_STRV struct strv argv = { 0 };
	if (p->pid > 0)
		return 0;
	strv_copy(&argv, &x->settings->words);
	int r = proc_start(argv.v, &p->pid, &p->fd);
	return r < 0 ? err_set(err, ERR_HOST, -r, "start %s: %s", argv.v[0], strerrordesc_np(-r))
		     : 0;
}

static int wait_for(const struct program *p, short events, uint64_t until_ns)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct pollfd fd = { .fd = p->fd, .events = events };
	if (now_ns >= until_ns)
		return -ETIMEDOUT;
	int n = poll(&fd, 1, (int)((until_ns - now_ns) / NS_PER_MS) + 1);
	return n < 0 && errno != EINTR ? -errno : n == 0 ? -ETIMEDOUT : 0;
}

static int send_line(struct program *p, const char *line, uint64_t until_ns)
{
	for (size_t length = strlen(line); length > 0;) {
		ssize_t n = send(p->fd, line, length, MSG_NOSIGNAL | MSG_DONTWAIT);
		int r = n >= 0 ? 0 : errno == EAGAIN ? wait_for(p, POLLOUT, until_ns) : -errno;
		if (r < 0)
			return r;
		line += n > 0 ? n : 0;
		length -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* Up to the end of a line. */
static int receive_line(struct program *p, uint64_t until_ns)
{
	char buffer[16384];
	str_release(&p->answer);
	while (!p->answer.length || str_text(&p->answer)[p->answer.length - 1] != '\n') {
		ssize_t n = recv(p->fd, buffer, sizeof buffer, MSG_DONTWAIT);
		int r = n > 0             ? 0
			: n == 0          ? -EPIPE
			: errno == EAGAIN ? wait_for(p, POLLIN, until_ns)
					  : -errno;
		if (r < 0)
			return r;
		if (n > 0)
			str_add_n(&p->answer, buffer, (size_t)n);
		if (p->answer.length > ANSWER_MAX)
			return -EMSGSIZE;
	}
	return 0;
}

static int refused(const json_t *answer, const char *op, struct err *err)
{
	const char *code = json_string_value(json_object_get(answer, "code"));
	const char *text = json_string_value(json_object_get(answer, "error"));
	int number = str_eq(code, "again") ? EAGAIN : str_eq(code, "not-found") ? ENOENT : EIO;
	return err_set(err, ERR_HOST, number, "%s: %s", op, text ? text : "refused without a word");
}

/* Takes `question`. The answer is owned by the caller. A program that failed is started anew the next time. */
static int ask(struct executor *x, const char *op, json_t *question, json_t **ret, struct err *err)
{
	struct program *p = x->data;
	CLEANUP_JSON json_t *owned = question;
	uint64_t until_ns = clock_monotonic_ns() + EXECUTOR_WAIT_S * NS_PER_SEC;
	json_object_set_new(owned, "op", json_string(op));
	CLEANUP_FREE char *text = json_dumps(owned, JSON_COMPACT);
	CLEANUP_FREE char *line = text ? xasprintf("%s\n", text) : NULL;
	if (!line)
		return err_set(err, ERR_HOST, EINVAL, "%s", op);
	int r = start_program(x, err);
	if (r < 0)
		return r;
	r = send_line(p, line, until_ns);
	if (r >= 0)
		r = receive_line(p, until_ns);
	if (r < 0) {
		end_program(p);
		return err_set(err, ERR_HOST, EAGAIN, "%s: %s gave no answer: %s", op,
			       x->settings->words.v[0], strerrordesc_np(-r));
	}
	CLEANUP_JSON json_t *answer =
		json_loadb(str_text(&p->answer), p->answer.length, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(answer)) {
		end_program(p);
		return err_set(err, ERR_HOST, EBADMSG, "%s: the answer of %s is no JSON object", op,
			       x->settings->words.v[0]);
	}
	if (!json_is_true(json_object_get(answer, "ok")))
		return refused(answer, op, err);
	if (ret)
		*ret = take_ptr(answer);
	return 0;
}

static int ask_handle(struct executor *x, const char *op, const json_t *handle, struct err *err)
{
	return ask(x, op, json_pack("{s:O}", "handle", handle), NULL, err);
}

static int word_of(const json_t *answer, const char *key, const char *const *words, int count)
{
	const char *word = json_string_value(json_object_get(answer, key));
	for (int i = 0; word && i < count; i++)
		if (str_eq(word, words[i]))
			return i;
	return -1;
}

static int program_probe(struct executor *x, struct capability *ret, struct err *err)
{
	CLEANUP_JSON json_t *answer = NULL;
	int r = ask(x, "probe", json_object(), &answer, err);
	if (r < 0)
		return r;
	r = capability_read(answer, ret);
	if (r < 0)
		return err_set(err, ERR_HOST, EBADMSG,
			       "probe: 'staging' is not one of here, shared, copy");
	if (ret->staging == STAGING_COPY && ret->judging == JUDGING_HERE)
		return err_set(err, ERR_HOST, EOPNOTSUPP,
			       "probe: 'staging: copy' needs 'judged: there': what is copied and "
			       "judged here would not be brought back");
	if (!ret->engine[0])
		(void)snprintf(ret->engine, sizeof ret->engine, "%s", x->settings->words.v[0]);
	return 0;
}

static json_t *limits_of(const struct limits *l)
{
	json_t *o = json_object();
	for (int i = 0; i < LIMIT_COUNT_; i++)
		if (l->at[i].value)
			json_object_set_new(o, limit_infos[i].key, json_u64(l->at[i].value));
	return o;
}

/* What was asked, complete: whoever runs it elsewhere by the same rules needs nothing of ours. */
static int request_of(const struct job *job, json_t **ret, struct err *err)
{
	char text[32];
	int r = analysis_request(job->analysis, ret, err);
	if (r < 0)
		return r;
	json_t *limits = json_object();
	for (int i = 0; i < LIMIT_COUNT_; i++) {
		uint64_t value = job->plan->limits.at[i].value;
		if (value)
			json_object_set_new(limits, limit_infos[i].key,
					    json_string(limit_write((enum limit_id)i, value, text,
								    sizeof text)));
	}
	json_object_set_new(*ret, "limits", limits);
	json_object_set_new(*ret, "id", json_string(job->id));
	/* There it is not handed on again, perhaps in a circle, whatever is usual there. */
	json_object_set_new(*ret, "executor", json_string("local"));
	(void)json_object_del(*ret, "post_process"); /* that is done here, with what came back */
	return 0;
}

static int take_handle(json_t *answer, json_t **ret, const char *op, struct err *err)
{
	json_t *handle = json_object_get(answer, "handle");
	if (!json_is_object(handle))
		return err_set(err, ERR_HOST, EBADMSG, "%s: the answer has no handle", op);
	*ret = json_incref(handle);
	return 0;
}

/* Whoever runs it elsewhere has other rights than he: he must be told whose to keep to. */
static void add_submitter(const struct config *config, json_t *o)
{
	char text[32];
	if (!caller_is_other(config))
		return;
	(void)snprintf(text, sizeof text, "%u:%u", (unsigned)config->caller.uid,
		       (unsigned)config->caller.gid);
	json_object_set_new(o, "submitter", json_string(text));
}

/* As it is recorded, but with every variable: the program has to set the secret ones, too. */
static json_t *plan_with_env(const struct plan *plan)
{
	json_t *o = plan_json(plan);
	json_object_set_new(o, "env", strv_json(&plan->env));
	(void)json_object_del(o, "secret_env");
	return o;
}

static int program_submit(struct executor *x, const struct job *job, json_t **ret, struct err *err)
{
	CLEANUP_JSON json_t *answer = NULL;
	CLEANUP_JSON json_t *asked = NULL;
	int r = request_of(job, &asked, err);
	if (r < 0)
		return r;
	json_t *o = json_pack("{s:s,s:s,s:s,s:s,s:I,s:I,s:o,s:o,s:O,s:{s:s,s:s?}}", "id", job->id,
			      "name", job->name, "work_dir", job->work_dir, "stage", job->stage,
			      "uid", (json_int_t)job->uid, "gid", (json_int_t)job->gid, "plan",
			      plan_with_env(job->plan), "limits", limits_of(&job->plan->limits),
			      "analysis", asked, "runtime", "name", job->runtime->name, "root",
			      job->runtime->root);
	add_submitter(job->config, o);
	r = o ? ask(x, "submit", json_pack("{s:o}", "job", o), &answer, err)
	      : err_set(err, ERR_CALLER, EINVAL, "submit: a name of it is not UTF-8");
	return r < 0 ? r : take_handle(answer, ret, "submit", err);
}

static int program_find(struct executor *x, const char *name, json_t **ret, struct err *err)
{
	CLEANUP_JSON json_t *answer = NULL;
	int r = ask(x, "find", json_pack("{s:s}", "name", name), &answer, err);
	return r < 0 ? r : take_handle(answer, ret, "find", err);
}

static uint64_t count_of(const json_t *o, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(o, key));
	return value > 0 ? (uint64_t)value : 0;
}

static void read_end(const json_t *answer, struct job_report *r)
{
	const json_t *code = json_object_get(answer, "exit_code");
	const json_t *signal_number = json_object_get(answer, "signal");
	r->exited = json_is_integer(code) || json_is_integer(signal_number);
	if (json_is_integer(signal_number))
		r->wait_status = (int)(json_integer_value(signal_number) & 0x7f);
	else if (json_is_integer(code))
		r->wait_status = (int)(json_integer_value(code) & 0xff) << 8;
	r->exec_errno = (int)count_of(answer, "exec_errno");
	r->started = r->exited || json_is_true(json_object_get(answer, "started"));
}

static int program_poll(struct executor *x, const json_t *handle, struct job_report *ret,
			struct err *err)
{
	CLEANUP_JSON json_t *answer = NULL;
	struct job_report r = { 0 };
	int e = ask(x, "poll", json_pack("{s:O}", "handle", handle), &answer, err);
	if (e < 0)
		return e;
	int state = word_of(answer, "state", job_state_names, JOB_GONE + 1);
	int why = word_of(answer, "why", job_why_names, JOB_WHY_START + 1);
	const char *reason = json_string_value(json_object_get(answer, "reason"));
	const char *record = json_string_value(json_object_get(answer, "record"));
	if (state < 0)
		return err_set(err, ERR_HOST, EBADMSG,
			       "poll: 'state' is not one of queued, running, ended, gone");
	r.state = (enum job_state)state;
	r.why = why < 0 ? JOB_WHY_NONE : (enum job_why)why;
	read_end(answer, &r);
	r.started |= r.state == JOB_RUNNING;
	r.restarts = (unsigned)count_of(answer, "restarts");
	r.mem_bytes = count_of(answer, "memory_bytes");
	r.mem_peak_bytes = count_of(answer, "memory_peak_bytes");
	r.cpu_usec = count_of(answer, "cpu_usec");
	r.pids = count_of(answer, "pids");
	r.oom_kills = count_of(answer, "oom_kills");
	r.pids_limit_hits = count_of(answer, "pids_limit_hits");
	r.started_real_ns = count_of(answer, "started_unix_ns");
	r.ended_real_ns = count_of(answer, "ended_unix_ns");
	(void)snprintf(r.reason, sizeof r.reason, "%s", reason ? reason : "");
	str_clean(r.reason);
	(void)snprintf(r.record, sizeof r.record, "%s", record ? record : "");
	r.evidence = json_incref(json_object_get(answer, "evidence"));
	*ret = r;
	return 0;
}

static ssize_t program_logs(struct executor *x, const json_t *handle, int stream, uint64_t offset,
			    void *buffer, size_t room, struct err *err)
{
	CLEANUP_JSON json_t *answer = NULL;
	size_t most = room < LOGS_MAX ? room : LOGS_MAX;
	int r = ask(x, "logs",
		    json_pack("{s:O,s:s,s:I,s:I}", "handle", handle, "stream",
			      stream ? "stderr" : "stdout", "offset", (json_int_t)offset, "max",
			      (json_int_t)most),
		    &answer, err);
	if (r < 0)
		return r;
	const char *data = json_string_value(json_object_get(answer, "data"));
	ssize_t n = data ? base64_read(data, buffer, most) : -EBADMSG;
	return n < 0 ? err_set(err, ERR_HOST, EBADMSG,
			       "logs: 'data' is not base64, or more than was asked for")
		     : n;
}

static int program_signal(struct executor *x, const json_t *handle, int signal_number,
			  struct err *err)
{
	return ask(x, "signal",
		   json_pack("{s:O,s:i,s:s}", "handle", handle, "number", signal_number, "signal",
			     sigabbrev_np(signal_number)),
		   NULL, err);
}

static int program_cancel(struct executor *x, const json_t *handle, struct err *err)
{
	return ask_handle(x, "cancel", handle, err);
}

static int program_collect(struct executor *x, const json_t *handle, const struct job *job,
			   struct err *err)
{
	return ask(x, "collect",
		   json_pack("{s:O,s:s,s:s}", "handle", handle, "work_dir", job->work_dir, "stage",
			     job->stage),
		   NULL, err);
}

static int program_reap(struct executor *x, const json_t *handle, struct err *err)
{
	return ask_handle(x, "reap", handle, err);
}

int executor_open_program(struct executor *x, struct err *err)
{
	static const struct executor_ops ops = {
		.probe = program_probe,
		.submit = program_submit,
		.find = program_find,
		.poll = program_poll,
		.logs = program_logs,
		.signal = program_signal,
		.cancel = program_cancel,
		.collect = program_collect,
		.reap = program_reap,
		.release = program_release,
	};
	struct program *p = xcalloc(1, sizeof *p);
	p->fd = -1;
	x->data = p;
	x->ops = &ops;
	return 0;
}

#include "serve/starter.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/path.h"
#include "base/proc.h"
#include "health/gc.h"
#include "keeper/record.h"
#include "run/run.h"
#include "serve/starter_parts.h"
#include "spec/secret.h"
#include "spec/yaml.h"
#include "view/crate.h"

#define REQUEST_MAX ((size_t)4 << 20)

/* What is to be started, in the process that is to become it. */
struct starting {
	struct config *config; /* borrowed; ours alone: we are a fork */
	json_t *sent;          /* owned */
	const char *submission, *run, *submitter;
	int report_fd; /* owned */
};

static void say_refused(int report_fd, const struct err *err)
{
	struct keeper_msg msg = { .kind = KEEPER_MSG_REFUSED, .err = *err };
	(void)send(report_fd, &msg, sizeof msg, MSG_NOSIGNAL);
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}

/* The sender's memory, not its words: a memfd that is as long as it says. */
static int receive(struct starting *s, struct err *err)
{
	char byte = 0;
	CLEANUP_FD int fd = -1;
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	if (proc_recv_fd(s->report_fd, &byte, sizeof byte, &fd) < 0 || fd < 0)
		return err_set(err, ERR_HOST, EPIPE, "the service went away");
	CLEANUP_FREE char *path = xasprintf("/proc/self/fd/%d", fd);
	CLEANUP_FD int again = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st = { 0 };
	if (again < 0 || fstat(again, &st) < 0 || (size_t)st.st_size > REQUEST_MAX)
		return err_set(err, ERR_HOST, EBADMSG, "what the service sent can't be read");
	length = (size_t)st.st_size;
	text = xmalloc(length + 1);
	for (size_t done = 0; done < length;) {
		ssize_t n = pread(again, text + done, length - done, (off_t)done);
		if (n <= 0)
			return err_errno(err, "read what the service sent");
		done += (size_t)n;
	}
	json_error_t why;
	s->sent = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
	if (!s->sent)
		return err_set(err, ERR_HOST, EBADMSG, "what the service sent is no JSON: %s",
			       why.text);
	if (secrets_are_taken(json_object_get(s->sent, "analysis")))
		return err_set(
			err, ERR_CALLER, ENOKEY,
			"the values of its secret variables are lost (%s/secrets); submit it again",
			s->config->home);
	s->submission = text_of(s->sent, "submission");
	s->run = text_of(s->sent, "run");
	s->submitter = text_of(s->sent, "submitter");
	/* of what is run for this one: the step after it, those of a pipeline */
	if (setenv("CUPEL_SUBMITTER_NAME", s->submitter, 1) < 0)
		return err_errno(err, "set the environment");
	(void)snprintf(s->config->submitter, sizeof s->config->submitter, "%s", s->submitter);
	s->config->caller = (struct config_caller){
		.is_set = true,
		.uid = (uid_t)json_integer_value(json_object_get(s->sent, "uid")),
		.gid = (gid_t)json_integer_value(json_object_get(s->sent, "gid")),
	};
	return 0;
}

int starter_analysis(const json_t *sent, struct analysis *ret, struct err *err)
{
	CLEANUP_FREE char *text = json_dumps_short(sent, JSON_COMPACT);
	if (!text)
		return err_caller(err, "analysis: this is no analysis");
	/* JSON is YAML; the path gives relative ones a place where there is nothing. */
	return analysis_parse(DOCUMENT_SENT, text, strlen(text), ret, err);
}

void starter_set_limits(const json_t *limits, struct analysis *a)
{
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)limits, key, value)
	{
		int id = limit_find(key);
		if (id >= 0 && json_integer_value(value) > 0)
			limits_set(&a->limits, (enum limit_id)id,
				   (uint64_t)json_integer_value(value), "retries");
	}
}

static _Noreturn void keep(const struct starting *s, const struct analysis *a,
			   const struct resolved *resolved)
{
	struct starter_said said = { 0 };
	for (int i = 0; i < LIMIT_COUNT_; i++)
		said.limits[i] = said.wide[i] = resolved->limits.at[i].value;
	(void)snprintf(said.runtime, sizeof said.runtime, "%s",
		       resolved->runtime.name ? resolved->runtime.name : "");
	(void)send(s->report_fd, &said, sizeof said, MSG_NOSIGNAL);
	FAULT_PHASE("serve-resolved");
	const struct run_owner owner = { .submitter = s->submitter,
					 .submission = s->submission,
					 .report_fd = s->report_fd };
	run_keep(s->config, a, resolved, &owner);
}

static int start_again(struct starting *s, struct err *err)
{
	CLEANUP_RERUN struct rerun rerun = { 0 };
	CLEANUP_RESOLVED struct resolved resolved = { 0 };
	int r = rerun_prepare(s->config, s->sent, &rerun, &resolved, err);
	if (r < 0)
		return r;
	keep(s, &rerun.analysis, &resolved);
}

static int start_run(struct starting *s, struct err *err)
{
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	CLEANUP_RESOLVED struct resolved resolved = { 0 };
	int r = starter_analysis(json_object_get(s->sent, "analysis"), &a, err);
	if (r < 0)
		return r;
	starter_set_limits(json_object_get(s->sent, "limits"), &a);
	free(a.id);
	a.id = xstrdup(s->run);
	r = run_resolve(s->config, &a, &resolved, err);
	if (r < 0)
		return r;
	keep(s, &a, &resolved);
}

/* Sockets that a manager passed are not the starter's, nor its children's. */
static void keep_only(int a_fd, int b_fd)
{
	int low = a_fd < b_fd ? a_fd : b_fd, high = a_fd < b_fd ? b_fd : a_fd;
	if (low > STDERR_FILENO + 1)
		(void)close_range(STDERR_FILENO + 1, (unsigned)low - 1, 0);
	if (high > low + 1)
		(void)close_range((unsigned)low + 1, (unsigned)high - 1, 0);
	(void)close_range((unsigned)high + 1, ~0U, 0);
}

/* Nothing is being started: the lock that says so is let go. */
static int look(struct starting *s, struct err *err)
{
	struct starter_said said = { 0 };
	keep_only(s->report_fd, s->report_fd);
	int r = starter_look(s->config, s->sent, &said, err);
	if (r >= 0 && send(s->report_fd, &said, sizeof said, MSG_NOSIGNAL) == sizeof said)
		_exit(0);
	return r;
}

static void sweep(const struct config *c)
{
	struct gc_report report;
	struct err err = { 0 };
	(void)run_sweep(c, &report, &err);
}

/* What is started is nobody's child to wait for. */
static _Noreturn void become(struct config *config, enum starter_kind kind, int report_fd)
{
	struct starting s = { .config = config, .report_fd = report_fd };
	struct err err = { 0 };
	(void)signal(SIGCHLD, SIG_DFL);
	if (kind == STARTER_SWEEP)
		sweep(config);
	if (kind == STARTER_DELIVER)
		run_deliver(config, crate_write);
	if (kind == STARTER_SWEEP || kind == STARTER_DELIVER)
		_exit(0);
	int r = receive(&s, &err);
	if (kind == STARTER_LOOK)
		FAULT_PHASE("serve-looking");
	else
		FAULT_PHASE("serve-received");
	if (r >= 0 && kind == STARTER_LOOK)
		r = look(&s, &err);
	else if (r >= 0 && json_object_get(s.sent, "rerun_of"))
		r = start_again(&s, &err);
	else if (r >= 0 && kind == STARTER_RUN)
		r = start_run(&s, &err);
	else if (r >= 0 && kind == STARTER_PIPELINE)
		r = pipeline_become(config, s.sent, report_fd, &err);
	else if (r >= 0)
		r = check_become(config, s.sent, report_fd, &err);
	if (r < 0)
		say_refused(report_fd, &err);
	_exit(125);
}

static _Noreturn void serve_requests(struct config *config, int fd)
{
	enum starter_kind kind = STARTER_RUN;
	(void)prctl(PR_SET_NAME, "cupel-starter");
	(void)setsid(); /* the terminal's signals are the service's */
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int stream = STDIN_FILENO; null_fd >= 0 && stream <= STDOUT_FILENO; stream++)
		(void)dup2(null_fd,
			   stream); /* whoever reads the service's is not to wait for runs */
	cleanup_fd(&null_fd);
	(void)signal(SIGCHLD, SIG_IGN);
	(void)signal(SIGPIPE, SIG_IGN);
	for (;;) {
		CLEANUP_FD int report_fd = -1;
		ssize_t n = proc_recv_fd(fd, &kind, sizeof kind, &report_fd);
		if (n < 0 && errno == EINTR)
			continue;
		if (n != sizeof kind)
			_exit(0); /* the service is gone */
		FAULT_PHASE("serve-asked");
		pid_t pid = fork();
		if (pid == 0) {
			(void)close(fd);
			become(config, kind, report_fd);
		}
		if (pid < 0 && kind <= STARTER_LOOK) {
			struct err err = { 0 };
			(void)err_errno(&err, "start the keeper");
			say_refused(report_fd, &err);
		}
	}
}

int starter_fork(struct config *config, int lock_fd, struct err *err)
{
	int sockets[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return err_errno(err, "make the starter's socket");
	CLEANUP_FD int ours = sockets[0];
	CLEANUP_FD int theirs = sockets[1];
	pid_t pid = fork();
	if (pid < 0)
		return err_errno(err, "fork the starter");
	if (pid == 0) {
		keep_only(theirs, lock_fd);
		serve_requests(config, theirs);
	}
	if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
		return err_errno(err, "set up the starter's socket");
	return take_fd(&ours);
}

static int make_text(const json_t *what, struct err *err)
{
	CLEANUP_FREE char *text = json_dumps_short(what, JSON_COMPACT);
	CLEANUP_FD int fd = memfd_create("cupel-start", MFD_CLOEXEC);
	if (fd < 0 || !text)
		return err_errno(err, "make room for a request");
	int r = fs_write_all(fd, text, strlen(text));
	return r < 0 ? err_set(err, ERR_HOST, -r, "write a request: %s", strerrordesc_np(-r))
		     : take_fd(&fd);
}

int starter_ask(int starter_fd, enum starter_kind kind, const json_t *what, struct err *err)
{
	int sockets[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return err_errno(err, "make the keeper's socket");
	CLEANUP_FD int ours = sockets[0];
	CLEANUP_FD int theirs = sockets[1];
	if (what) {
		CLEANUP_FD int text_fd = make_text(what, err);
		if (text_fd < 0)
			return text_fd;
		int r = proc_send_fd(ours, "", 1, text_fd);
		if (r < 0)
			return err_set(err, ERR_HOST, -r, "send a request: %s",
				       strerrordesc_np(-r));
	}
	int r = proc_send_fd(starter_fd, &kind, sizeof kind, theirs);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "ask the starter: %s", strerrordesc_np(-r));
	return take_fd(&ours);
}

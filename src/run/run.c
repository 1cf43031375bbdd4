/* Outside the box and outside the keeper: starts the keeper and follows it. The analysis's output is read back from its log files, so
 * a slow reader of our output slows nothing but us. */
#include "run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fault.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/path.h"
#include "base/proc.h"
#include "health/gc.h"
#include "keeper/record.h"

#define VERDICT_MAX (1 << 20)

/* One log of the run, passed on to one of our own streams. */
struct tail {
	const char *name;
	int log_fd; /* owned */
	int to_fd;  /* borrowed; -1 once nobody reads it */
};

struct following {
	const struct run_request *q;
	int socket_fd; /* owned */
	int signal_fd; /* owned */
	int run_fd;    /* owned; the run directory, once it is there */
	pid_t keeper;
	struct tail tails[2];
	bool ended;
	bool cancelled; /* a signal asked us to end */
	struct keeper_msg last;
};

static void following_release(struct following *f)
{
	cleanup_fd(&f->socket_fd);
	cleanup_fd(&f->signal_fd);
	cleanup_fd(&f->run_fd);
	cleanup_fd(&f->tails[0].log_fd);
	cleanup_fd(&f->tails[1].log_fd);
}

static bool open_run(struct following *f)
{
	if (f->run_fd < 0) {
		CLEANUP_FREE char *path =
			xasprintf("%s/runs/%s", f->q->config->home, f->q->resolved->id);
		f->run_fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	}
	return f->run_fd >= 0;
}

static void on_signal(struct following *f)
{
	struct signalfd_siginfo info;
	while (read(f->signal_fd, &info, sizeof info) == sizeof info) {
		struct keeper_cmd cmd = { .cancel_signal = (int)info.ssi_signo };
		(void)send(f->socket_fd, &cmd, sizeof cmd, MSG_NOSIGNAL);
		f->cancelled = true;
	}
}

/* Waits until our reader takes more, still hearing signals. False if it is gone, or if it does not read and we are to end. A write of
 * at most PIPE_BUF does not block after this (pipe(7)). */
static bool wait_for_reader(struct following *f, int to_fd)
{
	for (;;) {
		struct pollfd fds[] = { { .fd = to_fd, .events = POLLOUT },
					{ .fd = f->signal_fd, .events = POLLIN } };
		if (poll(fds, 2, f->cancelled ? 0 : -1) < 0 && errno != EINTR)
			return false;
		if (fds[1].revents)
			on_signal(f);
		if (fds[0].revents & POLLOUT)
			return true;
		if (fds[0].revents || f->cancelled)
			return false;
	}
}

static void pass_on(struct following *f, struct tail *t)
{
	char buffer[PIPE_BUF];
	if (t->log_fd < 0 && open_run(f)) {
		int fd = fs_open_beneath(f->run_fd, t->name, O_RDONLY | O_CLOEXEC, 0);
		t->log_fd = fd < 0 ? -1 : fd;
	}
	while (t->log_fd >= 0 && t->to_fd >= 0) {
		ssize_t n = read(t->log_fd, buffer, sizeof buffer);
		if (n <= 0)
			return;
		if (f->q->viewer && f->q->viewer->clear)
			f->q->viewer->clear(f->q->viewer->data);
		if (!wait_for_reader(f, t->to_fd) || fs_write_all(t->to_fd, buffer, (size_t)n) < 0)
			t->to_fd = -1; /* our reader is gone; the log has it all */
	}
}

static void on_message(struct following *f)
{
	struct keeper_msg msg;
	ssize_t n = proc_recv(f->socket_fd, &msg, sizeof msg, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n != sizeof msg) {
		f->ended = true; /* the keeper died: the sweep below records what is left */
		return;
	}
	if (msg.kind == KEEPER_MSG_LOG)
		for (int i = 0; i < 2; i++)
			pass_on(f, &f->tails[i]);
	if (msg.kind == KEEPER_MSG_SAMPLE && f->q->viewer && f->q->viewer->sample)
		f->q->viewer->sample(f->q->viewer->data, &msg);
	if (msg.kind == KEEPER_MSG_REFUSED || msg.kind == KEEPER_MSG_ENDED ||
	    msg.kind == KEEPER_MSG_UNRECORDED) {
		f->last = msg;
		f->ended = true;
	}
}

static int take_signals(struct following *f, sigset_t *old, struct err *err)
{
	sigset_t set;
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		struct sigaction action;
		/* What the caller lets us ignore stays ignored: nohup, background jobs. A descriptor would show it all the same. */
		if (sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			sigaddset(&set, signals[i]);
	}
	(void)signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, old) < 0)
		return err_errno(err, "block signals");
	f->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return f->signal_fd < 0 ? err_errno(err, "read signals") : 0;
}

static int start_keeper(struct following *f, struct err *err)
{
	int sockets[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return err_errno(err, "make the keeper's socket");
	const struct run_request *q = f->q;
	struct keeper_request request = {
		.id = q->resolved->id,
		.config = q->config,
		.analysis = q->analysis,
		.runtime = &q->resolved->runtime,
		.host = &q->resolved->host,
		.plan = &q->resolved->plan,
		.keep = q->resolved->keep,
		.report_fd = sockets[1],
	};
	f->socket_fd = sockets[0];
	f->keeper = fork();
	if (f->keeper == 0) {
		(void)close(sockets[0]);
		(void)close(f->signal_fd);
		keeper_main(&request);
	}
	FAULT_PHASE("run-forked");
	(void)close(sockets[1]);
	if (f->keeper < 0)
		return err_errno(err, "start the keeper");
	return 0;
}

/* What the record says is what we say: the keeper may have died after its last line. */
static int read_exit_status(const struct following *f, int *ret, struct err *err)
{
	CLEANUP_JSON json_t *verdict = NULL;
	int r = json_read_file(f->run_fd, "verdict.json", VERDICT_MAX, &verdict, err);
	if (r < 0)
		return r;
	const json_t *status = json_object_get(verdict, "exit_status");
	if (!json_is_integer(status))
		return err_set(err, ERR_HOST, EINVAL, "verdict.json has no exit status");
	*ret = (int)json_integer_value(status);
	return 0;
}

/* The keeper died without a last word, and its box with it: recorded now, not at the next command. Where that one is already at it,
 * we wait for it. */
static int record_death(struct following *f, int *ret_exit_status, struct err *err)
{
	const char *home = f->q->config->home, *id = f->q->resolved->id;
	struct gc_report report;
	for (;;) {
		int r = gc_sweep(f->q->config, &report, err);
		if (r < 0)
			return r;
		if (!open_run(f))
			return err_set(
				err, ERR_HOST, ECHILD,
				"the keeper was killed before it had recorded anything; nothing was started");
		r = record_wait(home, id);
		if (faccessat(f->run_fd, "verdict.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return read_exit_status(f, ret_exit_status, err);
		if (report.failed) {
			*err = report.last_error;
			return -(err->code ? err->code : EIO);
		}
		if (r < 0)
			return err_set(err, ERR_HOST, -r,
				       "record that the keeper of '%s' was killed: %s", id,
				       strerrordesc_np(-r));
	}
}

static int conclude(struct following *f, int *ret_exit_status, struct err *err)
{
	switch (f->last.kind) {
	case KEEPER_MSG_ENDED:
		*ret_exit_status = f->last.ended.exit_status;
		if (f->q->ret_stages)
			*f->q->ret_stages = f->last.ended.stages;
		return 0;
	case KEEPER_MSG_REFUSED:
	case KEEPER_MSG_UNRECORDED:
		*err = f->last.err;
		return -(err->code ? err->code : EIO);
	default:
		return record_death(f, ret_exit_status, err);
	}
}

static int follow(struct following *f, int *ret_exit_status, struct err *err)
{
	while (!f->ended) {
		struct pollfd fds[] = { { .fd = f->socket_fd, .events = POLLIN },
					{ .fd = f->signal_fd, .events = POLLIN } };
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return err_errno(err, "wait for the keeper");
		if (fds[1].revents)
			on_signal(f);
		if (fds[0].revents)
			on_message(f);
	}
	if (f->last.kind != KEEPER_MSG_REFUSED)
		for (int i = 0; i < 2; i++)
			pass_on(f, &f->tails[i]);
	if (f->q->viewer && f->q->viewer->clear)
		f->q->viewer->clear(f->q->viewer->data);
	FAULT_PHASE("run-followed");
	(void)waitpid(f->keeper, NULL, 0);
	return conclude(f, ret_exit_status, err);
}

int run_local(const struct run_request *request, int *ret_exit_status, struct err *err)
{
	struct gc_report report;
	sigset_t old;
	sigemptyset(&old);
	CLEANUP(following_release)
	struct following f = {
		.q = request,
		.socket_fd = -1,
		.signal_fd = -1,
		.run_fd = -1,
		.tails = { { "stdout.log", -1, STDOUT_FILENO },
			   { "stderr.log", -1, STDERR_FILENO } },
		.last = { .kind = KEEPER_MSG_NONE },
	};
	int r = record_home(request->config->home, err);
	FAULT_PHASE("run-home");
	if (r >= 0)
		r = gc_sweep(request->config, &report, err);
	FAULT_PHASE("run-swept");
	if (r >= 0)
		r = take_signals(&f, &old, err);
	if (r >= 0)
		r = start_keeper(&f, err);
	if (r >= 0)
		r = follow(&f, ret_exit_status, err);
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	return r;
}

/* One run, followed to its end for somebody who watches. The analysis's output is read back from its log files, so a slow reader of
 * our output slows nothing but us. */
#include "run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/terminal.h"
#include "keeper/alive.h"

#define NEXT_LOOK_MS  100
#define NEXT_SWEEP_NS NS_PER_SEC /* an executor that is down is not asked more often */

/* One log of the run, passed on to one of our own streams. */
struct tail {
	const char *name;
	int log_fd; /* owned */
	struct terminal_out to;
	bool is_read; /* somebody reads what is written */
};

struct following {
	const struct run_request *q;
	struct running run;
	int signal_fd; /* owned */
	struct tail tails[2];
	bool cancelled; /* a signal asked us to end */
};

static void following_release(struct following *f)
{
	running_release(&f->run);
	cleanup_fd(&f->signal_fd);
	cleanup_fd(&f->tails[0].log_fd);
	cleanup_fd(&f->tails[1].log_fd);
}

static void on_signal(struct following *f)
{
	struct signalfd_siginfo info;
	while (read(f->signal_fd, &info, sizeof info) == sizeof info) {
		run_cancel(&f->run, (int)info.ssi_signo);
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
	/* Filtered text is up to four times as long. */
	size_t room = t->to.is_filtered ? sizeof buffer / 4 : sizeof buffer;
	if (t->log_fd < 0 && run_dir(&f->run) >= 0) {
		int fd = fs_open_beneath(f->run.dir_fd, t->name, O_RDONLY | O_CLOEXEC, 0);
		t->log_fd = fd < 0 ? -1 : fd;
	}
	while (t->log_fd >= 0 && t->is_read) {
		ssize_t n = read(t->log_fd, buffer, room);
		if (n <= 0)
			return;
		if (f->q->viewer && f->q->viewer->clear)
			f->q->viewer->clear(f->q->viewer->data);
		/* When our reader is gone, the log has it all. */
		t->is_read = wait_for_reader(f, t->to.fd) &&
			     terminal_out_write(&t->to, buffer, (size_t)n) >= 0;
	}
}

/* The run has ended: nothing completes a character any more. */
static void end_tails(struct following *f)
{
	for (int i = 0; i < 2; i++) {
		pass_on(f, &f->tails[i]);
		if (f->tails[i].is_read)
			(void)terminal_out_end(&f->tails[i].to);
	}
}

static void on_message(struct following *f)
{
	struct keeper_msg msg;
	if (!run_hear(&f->run, &msg))
		return;
	if (msg.kind == KEEPER_MSG_LOG)
		for (int i = 0; i < 2; i++)
			pass_on(f, &f->tails[i]);
	if (msg.kind == KEEPER_MSG_SAMPLE && f->q->viewer && f->q->viewer->sample)
		f->q->viewer->sample(f->q->viewer->data, &msg);
}

int run_take_signals(sigset_t *ret_old, struct err *err)
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
	if (sigprocmask(SIG_BLOCK, &set, ret_old) < 0)
		return err_errno(err, "block signals");
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? err_errno(err, "read signals") : fd;
}

static bool is_recorded(struct following *f)
{
	return run_dir(&f->run) >= 0 &&
	       faccessat(f->run.dir_fd, "verdict.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Somebody asks us to end for the second time, and there is nobody to tell. */
static int nobody_attends(const struct following *f, struct err *err)
{
	return err_set(
		err, ERR_HOST, EAGAIN,
		"%s: its keeper was killed, and its executor can't be reached, so it may go on there; the next cupel command that reaches "
		"it has it attended again, and `cupel cancel` ends it then",
		f->run.id);
}

/* Its keeper died, and what it attended goes on elsewhere: the next one has no socket to us, but its lock and its logs can be seen, and it
 * hears signals as from `cupel cancel`. */
static int follow_the_next(struct following *f, struct err *err)
{
	struct gc_report report;
	pid_t asked = 0;
	uint64_t sweep_at = 0;
	while (run_dir(&f->run) >= 0 && !is_recorded(f)) {
		struct pollfd fd = { .fd = f->signal_fd, .events = POLLIN };
		uint64_t now_ns = clock_monotonic_ns();
		bool alive = run_is_alive(f->run.config, f->run.id, NULL);
		int r = alive || now_ns < sweep_at ? 0 : run_sweep(f->run.config, &report, err);
		if (r < 0)
			return r;
		if (!alive && now_ns >= sweep_at)
			sweep_at = now_ns + NEXT_SWEEP_NS;
		if (poll(&fd, 1, NEXT_LOOK_MS) > 0) {
			bool again = f->cancelled;
			on_signal(f);
			if (again && !alive)
				return nobody_attends(f, err);
			asked = 0;
		}
		if (f->cancelled)
			run_ask_to_end(f->run.config, f->run.id, &asked);
		for (int i = 0; i < 2; i++)
			pass_on(f, &f->tails[i]);
	}
	return 0;
}

static int follow(struct following *f, int *ret_exit_status, struct err *err)
{
	while (!f->run.ended) {
		struct pollfd fds[] = { { .fd = f->run.fd, .events = POLLIN },
					{ .fd = f->signal_fd, .events = POLLIN } };
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return err_errno(err, "wait for the keeper");
		if (fds[1].revents)
			on_signal(f);
		if (fds[0].revents)
			on_message(f);
	}
	int r = 0;
	if (f->run.last.kind == KEEPER_MSG_NONE && f->q->resolved->attended)
		r = follow_the_next(f, err);
	if (f->run.last.kind != KEEPER_MSG_REFUSED)
		end_tails(f);
	if (f->q->viewer && f->q->viewer->clear)
		f->q->viewer->clear(f->q->viewer->data);
	FAULT_PHASE("run-followed");
	if (r >= 0)
		r = run_finish(&f->run, ret_exit_status, err);
	if (r >= 0 && f->q->ret_stages && f->run.last.kind == KEEPER_MSG_ENDED)
		*f->q->ret_stages = f->run.last.ended.stages;
	if (r >= 0 && f->q->ret_keeper) {
		*f->q->ret_keeper = f->run.keeper;
		f->run.keeper = 0;
	}
	return r;
}

int run_local(const struct run_request *request, int *ret_exit_status, struct err *err)
{
	sigset_t old;
	sigemptyset(&old);
	CLEANUP(following_release)
	struct following f = {
		.q = request,
		.run = RUNNING_INIT,
		.signal_fd = -1,
		.tails = { { "stdout.log", -1, terminal_out(STDOUT_FILENO, request->bytes),
			     !request->is_silent },
			   { "stderr.log", -1, terminal_out(STDERR_FILENO, request->bytes),
			     !request->is_silent } },
	};
	int r = run_prepare(request->config, err);
	if (r >= 0)
		r = f.signal_fd = run_take_signals(&old, err);
	if (r >= 0)
		r = run_start(request->config, request->analysis, request->resolved, &f.run, err);
	if (r >= 0)
		r = follow(&f, ret_exit_status, err);
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	return r;
}

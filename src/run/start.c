/* A run from its start to its end, as seen by the process that asked for it: the keeper is a child that speaks over a socket. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/proc.h"
#include "base/str.h"
#include "keeper/record.h"
#include "run/attended.h"
#include "run/post.h"
#include "runtime/rootfs.h"

#define VERDICT_MAX (1 << 20)

void run_reap(pid_t *pid)
{
	if (*pid > 0)
		while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
			;
	*pid = 0;
}

void running_release(struct running *r)
{
	cleanup_fd(&r->fd);
	cleanup_fd(&r->dir_fd);
	run_reap(&r->keeper);
}

int run_prepare(const struct config *config, struct err *err)
{
	struct gc_report report;
	int r = record_home(config->home, err);
	FAULT_PHASE("run-home");
	if (r >= 0)
		r = run_sweep(config, &report, err);
	FAULT_PHASE("run-swept");
	return r;
}

/* What else this process has open is not the keeper's: it would hold the sockets of other runs, whose keepers could then not see us
 * die. A filter that refuses this refuses it to the box too, which says so. */
static void close_all_but(int fd, int other_fd)
{
	unsigned first = STDERR_FILENO + 1;
	const int kept[] = { fd < other_fd ? fd : other_fd, fd < other_fd ? other_fd : fd };
	for (size_t i = 0; i < 2; i++) {
		if (kept[i] < (int)first)
			continue;
		if ((unsigned)kept[i] > first)
			(void)close_range(first, (unsigned)kept[i] - 1, 0);
		first = (unsigned)kept[i] + 1;
	}
	(void)close_range(first, ~0U, 0);
}

/* No signal may end the keeper, or run a handler of ours in it, before it has taken charge of its signals. */
static pid_t fork_keeper(const struct keeper_request *request)
{
	sigset_t all, old;
	sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &old);
	pid_t pid = fork();
	if (pid == 0) {
		const struct rootfs *tree = request->runtime->tree;
		close_all_but(request->report_fd, tree ? tree->fd : -1);
		keeper_main(request);
	}
	int error = errno;
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	errno = error;
	return pid;
}

static struct keeper_request request_of(const struct config *config,
					const struct analysis *analysis,
					const struct resolved *resolved, int report_fd)
{
	return (struct keeper_request){
		.id = resolved->id,
		.config = config,
		.analysis = analysis,
		.runtime = &resolved->runtime,
		.chosen = &resolved->chosen,
		.host = &resolved->host,
		.plan = &resolved->plan,
		.keep = resolved->keep,
		.has_uid = resolved->has_uid,
		.uid = resolved->uid,
		.gid = resolved->gid,
		.report_fd = report_fd,
		.capability = resolved->attended ? &resolved->capability : NULL,
		.submitter = config->submitter[0] ? config->submitter : NULL,
		.oci = resolved->has_oci ? &resolved->oci : NULL,
		.writes = resolved->writes,
		.written_by = resolved->written_by,
	};
}

_Noreturn void run_keep(const struct config *config, const struct analysis *analysis,
			const struct resolved *resolved, const struct run_owner *owner)
{
	struct keeper_request request = request_of(config, analysis, resolved, owner->report_fd);
	struct post post;
	struct keeper_after after;
	sigset_t all;
	request.detached = true;
	request.submitter = owner->submitter;
	request.submission = owner->submission;
	if (analysis->post_process) {
		post_after(config, analysis, resolved->id, &post, &after);
		request.after = &after;
	}
	sigfillset(&all); /* until it takes charge of its signals */
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	close_all_but(owner->report_fd, resolved->runtime.tree ? resolved->runtime.tree->fd : -1);
	keeper_main(&request);
}

_Noreturn void run_keep_again(const struct config *config, const struct analysis *analysis,
			      const struct resolved *resolved)
{
	struct keeper_request request = request_of(config, analysis, resolved, -1);
	struct post post;
	struct keeper_after after;
	sigset_t all;
	request.detached = request.again = true;
	if (analysis->post_process) {
		post_after(config, analysis, resolved->id, &post, &after);
		request.after = &after;
	}
	sigfillset(&all); /* until it takes charge of its signals */
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	close_all_but(-1, -1);
	keeper_main(&request);
}

int run_start(const struct config *config, const struct analysis *analysis,
	      const struct resolved *resolved, struct running *ret, struct err *err)
{
	int sockets[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return err_errno(err, "make the keeper's socket");
	CLEANUP_FD int ours = sockets[0];
	CLEANUP_FD int theirs = sockets[1];
	struct keeper_request request = request_of(config, analysis, resolved, theirs);
	struct post post;
	struct keeper_after after;
	if (analysis->post_process) {
		post_after(config, analysis, resolved->id, &post, &after);
		request.after =
			&after; /* of use in the keeper only, which has a copy of all this */
	}
	struct running r = RUNNING_INIT;
	r.config = config;
	json_seed();
	(void)snprintf(r.id, sizeof r.id, "%s", resolved->id);
	r.keeper = fork_keeper(&request);
	FAULT_PHASE("run-forked");
	if (r.keeper < 0)
		return err_errno(err, "start the keeper");
	r.fd = take_fd(&ours);
	*ret = r;
	return 0;
}

bool run_hear(struct running *r, struct keeper_msg *ret)
{
	struct keeper_msg msg;
	ssize_t n = proc_recv(r->fd, &msg, sizeof msg, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n != sizeof msg) {
		r->ended = true; /* it died: run_finish records what is left */
		return false;
	}
	if (msg.kind == KEEPER_MSG_REFUSED || msg.kind == KEEPER_MSG_ENDED ||
	    msg.kind == KEEPER_MSG_UNRECORDED) {
		r->last = msg;
		r->ended = true;
	}
	*ret = msg;
	return true;
}

void run_cancel(struct running *r, int signal_number)
{
	struct keeper_cmd cmd = { .cancel_signal = signal_number };
	(void)send(r->fd, &cmd, sizeof cmd, MSG_NOSIGNAL);
}

int run_dir(struct running *r)
{
	if (r->dir_fd < 0) {
		CLEANUP_FREE char *path = xasprintf("%s/runs/%s", r->config->home, r->id);
		r->dir_fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	}
	return r->dir_fd;
}

/* What the record says is what we say: the keeper may have died after its last line. */
static int read_exit_status(const struct running *run, int *ret, struct err *err)
{
	CLEANUP_JSON json_t *verdict = NULL;
	int r = json_read_file(run->dir_fd, "verdict.json", VERDICT_MAX, &verdict, err);
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
static int record_death(struct running *run, int *ret_exit_status, struct err *err)
{
	struct gc_report report;
	for (;;) {
		int r = run_sweep(run->config, &report, err);
		if (r < 0)
			return r;
		if (run_dir(run) < 0)
			return err_set(
				err, ERR_HOST, ECHILD,
				"the keeper was killed before it had recorded anything; nothing was started");
		r = record_wait(run->config->home, run->id);
		if (faccessat(run->dir_fd, "verdict.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return read_exit_status(run, ret_exit_status, err);
		if (report.failed) {
			*err = report.last_error;
			return -(err->code ? err->code : EIO);
		}
		if (report.n_unattended) /* elsewhere, and its executor may be out of reach */
			(void)nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
		else if (r < 0)
			return err_set(err, ERR_HOST, -r,
				       "record that the keeper of '%s' was killed: %s", run->id,
				       strerrordesc_np(-r));
	}
}

int run_finish(struct running *r, int *ret_exit_status, struct err *err)
{
	/* Without a last word it may still be at its record. One that has ended takes its time to be gone, which running_release awaits. */
	if (r->last.kind != KEEPER_MSG_ENDED)
		run_reap(&r->keeper);
	switch (r->last.kind) {
	case KEEPER_MSG_ENDED:
		*ret_exit_status = r->last.ended.exit_status;
		return 0;
	case KEEPER_MSG_REFUSED:
	case KEEPER_MSG_UNRECORDED:
		*err = r->last.err;
		return -(err->code ? err->code : EIO);
	default:
		return record_death(r, ret_exit_status, err);
	}
}

/* cupel logs: what a run wrote, and with -f what it goes on to write. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/inotify.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/terminal.h"
#include "cli/await.h"
#include "cli/follow.h"
#include "cli/records.h"
#include "cli/remote.h"
#include "run/run.h"
#include "spec/id.h"
#include "view/runs_view.h"

#define LOOK_MS  1000 /* where the keeper can't be waited for */
#define BEGIN_MS 20   /* between a start and its record */

struct logs_args {
	bool json;
	bool follow;
	bool raw;
};

static int set_flag(void *target, const struct option_row *row, const char *value, struct err *err)
{
	struct logs_args *a = target;
	bool *const flags[] = { &a->json, &a->follow, &a->raw };
	*flags[row->number] = true;
	return 0;
}

static const struct option_row rows[] = {
	{ 'f', "follow", NULL, "go on until the run has ended", set_flag, 1 },
	{ 0, "raw", NULL, "do not escape control characters on a terminal", set_flag, 2 },
	{ 0, "json", NULL, "print where the logs are, as JSON", set_flag, 0 },
};
static const struct options logs_options = { rows, sizeof rows / sizeof *rows };

struct following {
	const struct config *config;
	const char *id;
	int dir_fd;     /* owned */
	int log_fds[2]; /* owned; -1 as long as it is not there */
	struct terminal_out to[2];
	int inotify_fd; /* owned */
	int keeper_fd;  /* owned; -1 if there is none to be had */
};

static void following_release(struct following *f)
{
	cleanup_fd(&f->dir_fd);
	cleanup_fd(&f->log_fds[0]);
	cleanup_fd(&f->log_fds[1]);
	cleanup_fd(&f->inotify_fd);
	cleanup_fd(&f->keeper_fd);
}

/* The stored bytes, as far as they go: stdout.log to stdout, stderr.log to stderr. */
static int pass_on(struct following *f, struct err *err)
{
	static const char *const names[] = { "stdout.log", "stderr.log" };
	char buffer[65536];
	for (int i = 0; i < 2; i++) {
		if (f->log_fds[i] < 0) {
			int fd = fs_open_beneath(f->dir_fd, names[i], O_RDONLY | O_CLOEXEC, 0);
			if (fd < 0 && fd != -ENOENT)
				return err_set(err, ERR_HOST, -fd, "open %s: %s", names[i],
					       strerrordesc_np(-fd));
			f->log_fds[i] = fd < 0 ? -1 : fd; /* it never came to that, or not yet */
		}
		for (ssize_t n;
		     f->log_fds[i] >= 0 && (n = read(f->log_fds[i], buffer, sizeof buffer)) > 0;)
			if (terminal_out_write(&f->to[i], buffer, (size_t)n) < 0)
				return err_errno(err, "write the log");
	}
	return 0;
}

static bool has_ended(const struct following *f)
{
	return faccessat(f->dir_fd, "verdict.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Waits for a change in the run directory, or for the end of the keeper. */
static int wait_for_more(struct following *f, struct err *err)
{
	char events[4096];
	struct pollfd fds[] = { { .fd = f->inotify_fd, .events = POLLIN },
				{ .fd = f->keeper_fd, .events = POLLIN } };
	if (poll(fds, 2, f->keeper_fd < 0 ? LOOK_MS : -1) < 0 && errno != EINTR)
		return err_errno(err, "wait for the run");
	while (read(f->inotify_fd, events, sizeof events) > 0)
		;
	return 0;
}

static int begin_following(struct following *f, struct err *err)
{
	pid_t keeper = 0;
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", f->config->home, f->id);
	f->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (f->inotify_fd < 0 ||
	    inotify_add_watch(f->inotify_fd, path, IN_MODIFY | IN_CREATE | IN_MOVED_TO) < 0)
		return err_errno(err, "watch %s", path);
	/* A pid that has a new owner by now is no harm: the lock is asked each time the wait ends. */
	if (run_is_alive(f->config, f->id, &keeper) && keeper > 0)
		f->keeper_fd = proc_pidfd_open(keeper);
	return 0;
}

/* Until its verdict is there. A run whose keeper died gets it here. */
static int follow(struct following *f, struct err *err)
{
	int r = begin_following(f, err);
	while (r >= 0) {
		bool ended = has_ended(f), alive = run_is_alive(f->config, f->id, NULL);
		r = pass_on(f, err);
		if (r < 0 || ended)
			return r;
		if (!alive) {
			struct gc_report report;
			r = run_sweep(f->config, &report, err);
			if (r < 0 || !has_ended(f))
				return r;
			continue;
		}
		r = wait_for_more(f, err);
	}
	return r;
}

static void end_both(struct terminal_out to[2])
{
	(void)terminal_out_end(&to[0]);
	(void)terminal_out_end(&to[1]);
}

static void print_paths(const struct config *c, const char *id)
{
	CLEANUP_FREE char *out = xasprintf("%s/runs/%s/stdout.log", c->home, id);
	CLEANUP_FREE char *errors = xasprintf("%s/runs/%s/stderr.log", c->home, id);
	CLEANUP_JSON json_t *paths =
		json_pack("{s:o,s:o}", "stdout", json_text(out), "stderr", json_text(errors));
	json_print(paths);
}

/* As the record has them. */
static int by_record(const struct config *c, const char *id, const struct logs_args *args,
		     struct err *err)
{
	enum terminal_bytes bytes = args->raw ? TERMINAL_RAW : TERMINAL_SAFE;
	CLEANUP(following_release)
	struct following f = { .config = c,
			       .id = id,
			       .dir_fd = -1,
			       .log_fds = { -1, -1 },
			       .to = { terminal_out(STDOUT_FILENO, bytes),
				       terminal_out(STDERR_FILENO, bytes) },
			       .inotify_fd = -1,
			       .keeper_fd = -1 };
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", c->home, id);
	if (args->json) {
		print_paths(c, id);
		return 0;
	}
	f.dir_fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (f.dir_fd < 0)
		return err_errno(err, "open %s", path);
	int r = args->follow ? follow(&f, err) : pass_on(&f, err);
	end_both(f.to);
	return r;
}

static bool has_record(const struct config *c, const struct remote *remote, const char *id,
		       struct err *err)
{
	CLEANUP_JSON json_t *run = NULL;
	return remote_has_records(remote) && run_json(c, id, &run, err) >= 0;
}

/* One that waits in the queue has nothing to show yet. Where its record will be, it is there a moment after the service has begun with it. */
static int until_it_begins(const struct config *c, const struct remote *remote, const char *id,
			   struct err *err)
{
	CLEANUP_AWAITING struct awaiting a = { .config = c,
					       .client = remote->client,
					       .until_begun = true };
	struct err unused = { 0 };
	awaiting_add(&a, id);
	int r = await_ends(&a, err);
	while (r >= 0 && remote->is_here && !a.v[0].is_over &&
	       !has_record(c, remote, id, &unused)) {
		(void)poll(NULL, 0, BEGIN_MS);
		r = await_look(&a, &a.v[0], err);
	}
	return r < 0 ? r : 0;
}

static int by_service(const struct config *c, const struct remote *remote, const char *id,
		      const struct logs_args *args, struct err *err)
{
	CLEANUP_JSON json_t *told = NULL;
	struct err unused = { 0 };
	int r = remote_show(remote->client, id, &told, err);
	if (r >= 0 && args->json)
		return err_caller(
			err,
			"there are no files of '%s' here: the service at %s has them, or it has not begun",
			id, client_where(remote->client));
	if (r >= 0 && args->follow)
		r = until_it_begins(c, remote, id, err);
	if (r < 0)
		return r;
	if (has_record(c, remote, id, &unused))
		return by_record(c, id, args, err);
	const char *state = json_string_value(json_object_get(told, "state"));
	if (remote->is_here || (str_eq(state, "queued") && !args->follow))
		return 0; /* it has not begun, or never did */
	enum terminal_bytes bytes = args->raw ? TERMINAL_RAW : TERMINAL_SAFE;
	struct terminal_out to[] = { terminal_out(STDOUT_FILENO, bytes),
				     terminal_out(STDERR_FILENO, bytes) };
	r = args->follow ? follow_stream(remote->client, id, to, err)
			 : follow_fetch(remote->client, id, to, err);
	end_both(to);
	return r;
}

static int main_logs(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_REMOTE struct remote remote = { 0 };
	struct logs_args args = { 0 };
	struct records_begin begin = { self, argc, argv, 1, &args };
	struct operands rest;
	struct err err = { 0 };
	int r = records_begin(&begin, &c, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	const char *id = argv[rest.first];
	r = id_check(id, &err);
	if (r >= 0)
		r = remote_open(&c, &remote, &err);
	if (r < 0)
		return cli_fail(&err);
	if (has_record(&c, &remote, id, &err))
		r = by_record(&c, id, &args, &err);
	else if (remote.client)
		r = by_service(&c, &remote, id, &args, &err);
	else
		r = -ENOENT; /* and has_record said why */
	return r < 0 ? cli_fail(&err) : 0;
}

const struct command command_logs = {
	.name = "logs",
	.usage = "[-f] [--raw] [--json] ID",
	.operands = COMPLETE_RUNS,
	.summary = "what a run wrote; with -f also what it goes on to write",
	.details =
		"Its stdout goes to stdout, its stderr to stderr. On a terminal, control characters are escaped (\\x1b);\n"
		"files and pipes get every byte.",
	.options = &logs_options,
	.main = main_logs,
};

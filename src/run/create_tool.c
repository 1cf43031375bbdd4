/* Runs a tool: its output to the log, its last line to whoever watches, its end to the caller. */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/proc.h"
#include "run/create_parts.h"

#define LINE_MAX_   400
#define GRACE_MS    10000
#define EXEC_FAILED 127

void tool_release(struct tool *t)
{
	strv_release(&t->argv);
}

char *tool_find(const char *name)
{
	const char *path = getenv("PATH");
	if (strchr(name, '/'))
		return access(name, X_OK) == 0 ? xstrdup(name) : NULL;
	if (!path || !*path)
		path = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
	while (*path) {
		size_t length = strcspn(path, ":");
		CLEANUP_FREE char *candidate = xasprintf("%.*s/%s", (int)length, path, name);
		struct stat st = { 0 };
		/* Relative parts of PATH name whatever the current directory has. */
		if (*path == '/' && stat(candidate, &st) == 0 && S_ISREG(st.st_mode) &&
		    access(candidate, X_OK) == 0)
			return take_ptr(candidate);
		path += length;
		path += *path == ':';
	}
	return NULL;
}

void create_tell(const struct creation *c, const char *phase)
{
	if (c->q->viewer)
		c->q->viewer->tell(c->q->viewer->data, phase, "");
}

/* What a tool needs to find programs, its own settings in the caller's home, and the network. Nothing that would bend what it makes:
 * no PYTHON*, PIP_*, CONDA_*, VIRTUAL_ENV, LD_*. */
static void make_env(const struct tool *t, struct strv *ret)
{
	static const char *const passed[] = {
		"PATH",         "HOME",
		"USER",         "LOGNAME",
		"TZ",           "http_proxy",
		"https_proxy",  "no_proxy",
		"HTTP_PROXY",   "HTTPS_PROXY",
		"NO_PROXY",     "SSL_CERT_FILE",
		"SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
		"TMPDIR",
	};
	static const char *const fixed[] = { "LC_ALL=C.UTF-8", "PIP_DISABLE_PIP_VERSION_CHECK=1",
					     "PIP_NO_INPUT=1", "CONDA_ALWAYS_YES=true",
					     "DEBIAN_FRONTEND=noninteractive" };
	for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		if (getenv(passed[i]) && !(t->temp && str_eq(passed[i], "TMPDIR")))
			strv_addf(ret, "%s=%s", passed[i], getenv(passed[i]));
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		strv_add(ret, fixed[i]);
	if (t->temp)
		strv_addf(ret, "TMPDIR=%s", t->temp);
}

struct running {
	struct creation *c; /* borrowed */
	const struct tool *t;
	struct strv env;
	pid_t pid;
	int pid_fd, out_fd, file_fd, signal_fd; /* owned */
	sigset_t old;
	bool cancelled;
	char line[LINE_MAX_], last[LINE_MAX_],
		fault[LINE_MAX_]; /* being read; the last; the one that tells of an error */
	size_t length;
};

static void running_release(struct running *r)
{
	strv_release(&r->env);
	cleanup_fd(&r->pid_fd);
	cleanup_fd(&r->out_fd);
	cleanup_fd(&r->file_fd);
	if (r->signal_fd >= 0)
		(void)sigprocmask(SIG_SETMASK, &r->old, NULL);
	cleanup_fd(&r->signal_fd);
}

/* In the child, until exec: only system calls. `out_fd` is where its output goes. The lock is kept open for as long as the tool and what
 * it starts live. */
_Noreturn static void become_tool(const struct running *r, pid_t parent, int out_fd,
				  char *const *argv, char *const *env)
{
	sigset_t none;
	int lock_fd = r->c->making.lock_fd;
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)umask(022); /* a run has another uid, and must be able to read it */
	(void)setsid();
	/* Not SIGKILL: mmdebstrap unmounts and clears up when it is asked to end. */
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
		_exit(EXEC_FAILED);
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
	    dup2(r->file_fd >= 0 ? r->file_fd : out_fd, STDOUT_FILENO) < 0 ||
	    dup2(out_fd, STDERR_FILENO) < 0 || (lock_fd != 3 && dup2(lock_fd, 3) < 0) ||
	    fcntl(3, F_SETFD, 0) < 0)
		_exit(EXEC_FAILED);
	(void)close_range(4, ~0U, CLOSE_RANGE_CLOEXEC);
	(void)execve(argv[0], argv, env);
	_exit(EXEC_FAILED);
}

static int take_signals(struct running *r, struct err *err)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	sigset_t set;
	(void)sigemptyset(&set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct sigaction action;
		/* What the caller lets us ignore stays ignored. */
		if (sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
			(void)sigaddset(&set, signals[i]);
	}
	if (sigprocmask(SIG_BLOCK, &set, &r->old) < 0)
		return err_errno(err, "block signals");
	r->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return r->signal_fd < 0 ? err_errno(err, "read signals") : 0;
}

static int start(struct running *r, struct strv *argv, struct err *err)
{
	int ends[2];
	pid_t self = getpid();
	make_env(r->t, &r->env);
	if (r->t->out) {
		r->file_fd =
			open(r->t->out, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (r->file_fd < 0)
			return err_errno(err, "make %s", r->t->out);
	}
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "make a pipe");
	r->out_fd = ends[0];
	CLEANUP_FD int write_fd = ends[1];
	(void)fcntl(r->out_fd, F_SETFL, O_NONBLOCK);
	char *const *words = strv_argv(argv), *const *env = strv_argv(&r->env);
	r->pid = fork();
	if (r->pid == 0)
		become_tool(r, self, write_fd, words, env);
	if (r->pid < 0)
		return err_errno(err, "start %s", words[0]);
	int fd = proc_pidfd_of_child(r->pid);
	if (fd < 0)
		return err_set(err, ERR_HOST, -fd, "watch %s: %s", words[0], strerrordesc_np(-fd));
	r->pid_fd = fd;
	return 0;
}

/* Of apt and mmdebstrap the first counts: they go on to say, each in turn, that what they called has failed. Of others the last. */
static bool tells_fault(const char *line)
{
	return strstr(line, "rror") || str_starts(line, "E: ") || strstr(line, "ERROR");
}

/* One line is over: carriage returns end lines too, as progress bars have it. */
static void end_line(struct running *r)
{
	r->line[r->length] = '\0';
	str_clean(r->line);
	if (r->length > 0 && r->line[strspn(r->line, " ?")]) {
		memcpy(r->last, r->line, sizeof(r->last));
		if (tells_fault(r->line) && !str_starts(r->fault, "E: "))
			memcpy(r->fault, r->line, sizeof(r->fault));
		if (r->c->q->viewer)
			r->c->q->viewer->tell(r->c->q->viewer->data, r->t->phase, r->line);
	}
	r->length = 0;
}

/* False when there is nothing more to read, for now or for ever. */
static bool read_output(struct running *r)
{
	char buffer[8192];
	ssize_t n = read(r->out_fd, buffer, sizeof(buffer));
	if (n <= 0)
		return n < 0 && errno == EINTR;
	(void)fs_write_all(r->c->log_fd, buffer, (size_t)n);
	for (ssize_t i = 0; i < n; i++) {
		if (buffer[i] == '\n' || buffer[i] == '\r')
			end_line(r);
		else if (r->length < sizeof(r->line) - 1)
			r->line[r->length++] = buffer[i];
	}
	return true;
}

/* Asks once, then insists. */
static void on_signal(struct running *r)
{
	struct signalfd_siginfo info;
	while (read(r->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		(void)kill(-r->pid, r->cancelled ? SIGKILL : SIGTERM);
		r->cancelled = true;
	}
}

static void watch(struct running *r)
{
	for (bool open = true;;) {
		struct pollfd fds[] = { { .fd = r->pid_fd, .events = POLLIN },
					{ .fd = r->signal_fd, .events = POLLIN },
					{ .fd = open ? r->out_fd : -1, .events = POLLIN } };
		int n = poll(fds, 3, r->cancelled ? GRACE_MS : -1);
		if (n == 0)
			(void)kill(-r->pid, SIGKILL);
		if (fds[1].revents)
			on_signal(r);
		if (fds[2].revents && !read_output(r) && (fds[2].revents & POLLHUP))
			open = false;
		if (fds[0].revents)
			break; /* whatever it left behind may still hold the pipe: what it said itself is in there */
	}
	/* It is dead; what is left of it must not go on building, nor writing: the next loop would not end. */
	(void)kill(-r->pid, SIGKILL);
	while (read_output(r))
		;
	end_line(r);
}

static int conclude(struct running *r, int status, struct err *err)
{
	const char *words = r->fault[0] ? r->fault : r->last;
	if (r->cancelled)
		return err_set(err, ERR_HOST, ECANCELED, "cancelled; nothing of it is left");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	char how[64];
	if (WIFEXITED(status))
		(void)snprintf(how, sizeof(how), "status %d", WEXITSTATUS(status));
	else
		(void)snprintf(how, sizeof(how), "signal %d", WTERMSIG(status));
	return err_set(err, ERR_HOST, EIO, "%s: %s ended with %s%s%s; all it said is in %s",
		       r->t->phase, r->t->argv.v[0], how, words[0] ? ": " : "", words, r->c->log);
}

int tool_run(struct creation *c, struct tool *t, struct err *err)
{
	CLEANUP(running_release)
	struct running r = {
		.c = c, .t = t, .pid_fd = -1, .out_fd = -1, .file_fd = -1, .signal_fd = -1
	};
	int status = 0;
	create_tell(c, t->phase);
	(void)dprintf(c->log_fd, "# %s:", t->phase);
	for (size_t i = 0; i < t->argv.n; i++)
		(void)dprintf(c->log_fd, " %s", t->argv.v[i]);
	(void)dprintf(c->log_fd, "\n");
	int e = take_signals(&r, err);
	if (e >= 0)
		e = start(&r, &t->argv, err);
	if (e < 0)
		return e;
	watch(&r);
	e = proc_wait(r.pid_fd, &status);
	return e < 0 ? err_set(err, ERR_HOST, -e, "wait for %s", t->argv.v[0])
		     : conclude(&r, status, err);
}

/* Pid 1 of a container that another program made, for runs whose box is not cupel's own. A static program, so that it starts on any root:
 *
 *   init [OPTION...] STATUS PROGRAM [ARGUMENT...]
 *
 * starts the analysis, passes every signal on to it, reaps, and exits with its code, or 128 plus its signal. What that cannot say is in
 * the file STATUS, a line each: "started", "refused ERRNO" if it could not be executed, "ended STATUS" as from waitpid. With options
 * (struct orders has them; usage() names them) it confines itself first, and needs nobody outside: it waits for leave to start, keeps
 * what is printed, and notes what the kernel counted. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/exec.h"
#include "executor/pid1.h"

#define FAILED 125 /* of this program itself */

struct container {
	struct orders orders;
	char *const *argv;
	int status_fd;
	int signal_fd;
	int write_fds[2]; /* of the analysis's streams; -1: it has ours */
	struct pump pumps[2];
	struct counters counters;
	pid_t main_pid;
	bool is_log_lost; /* and that is noted */
};

void note(int status_fd, const char *what, int64_t number)
{
	char line[64];
	int n = number < 0 ? snprintf(line, sizeof line, "%s\n", what)
			   : snprintf(line, sizeof line, "%s %" PRId64 "\n", what, number);
	for (const char *at = line; n > 0;) {
		ssize_t done = write(status_fd, at, (size_t)n);
		if (done < 0 && errno != EINTR)
			return;
		at += done > 0 ? done : 0;
		n -= done > 0 ? (int)done : 0;
	}
}

/* Not of ours: a limit of the size of files would be one of the log, and of the status. */
static int limit(const struct orders *o)
{
	for (size_t i = 0; i < o->n_limits; i++) {
		struct rlimit l = { o->limits[i].value, o->limits[i].value };
		if (setrlimit((__rlimit_resource_t)o->limits[i].resource, &l) < 0)
			return errno;
	}
	return 0;
}

/* In a child that shares our memory until it is another program. */
static _Noreturn void analysis(const struct container *c, volatile int *ret_error)
{
	sigset_t none;
	sigemptyset(&none);
	/* By the system call, since glibc refuses to touch two of them. The struct is the kernel's. */
	static const unsigned long by_default[4];
	for (int number = 1; number < NSIG; number++)
		(void)syscall(SYS_rt_sigaction, number, by_default, NULL, sizeof by_default[3]);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)setsid();
	for (int i = 0; i < 2; i++)
		if (c->write_fds[i] >= 0)
			(void)dup2(c->write_fds[i], i + 1);
	int error = limit(&c->orders);
	if (!error)
		error = exec_search(c->argv, environ); /* by the container's PATH */
	*ret_error = error;
	_exit(error == ENOENT ? 127 : 126);
}

static void start(struct container *c)
{
	volatile int error = 0;
	/* NOLINTBEGIN(clang-analyzer-security.insecureAPI.vfork, clang-analyzer-unix.Vfork) */
	c->main_pid = vfork();
	if (c->main_pid == 0)
		analysis(c, &error);
	/* NOLINTEND(clang-analyzer-security.insecureAPI.vfork, clang-analyzer-unix.Vfork) */
	if (c->main_pid < 0)
		error = errno;
	if (error)
		note(c->status_fd, "refused", error);
	else
		note(c->status_fd, "started", -1);
	if (c->main_pid < 0)
		_exit(126);
	for (int i = 0; i < 2; i++)
		if (c->write_fds[i] >= 0)
			(void)close(c->write_fds[i]);
}

/* At once: whoever looks says that the log is not whole. */
static void note_lost_log(struct container *c)
{
	for (int i = 0; i < 2; i++)
		if (c->pumps[i].error && !c->is_log_lost) {
			note(c->status_fd, "log-failed", c->pumps[i].error);
			c->is_log_lost = true;
		}
}

/* Nobody else looks: everything that is left is ended, so that what was printed is whole and the counters have their last value. */
static void finish(struct container *c)
{
	static const char *const names[] = { "stdout-bytes", "stderr-bytes" };
	(void)kill(-1, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	for (int i = 0; i < 2; i++) {
		pump_end(&c->pumps[i]);
		note(c->status_fd, names[i], (int64_t)c->pumps[i].all_bytes);
	}
	note_lost_log(c);
	counters_note(&c->counters, c->status_fd);
}

/* Exits with the analysis: the kernel, or who made the container, ends what it left. */
static void reap(struct container *c)
{
	int status = 0;
	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
		if (pid == c->main_pid) {
			if (c->orders.logs[0])
				finish(c);
			note(c->status_fd, "ended", status);
			_exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
		}
}

/* But not what our own writes brought us: SIGXFSZ. */
static void pass_on(const struct container *c)
{
	struct signalfd_siginfo info;
	uint32_t own = (uint32_t)getpid();
	while (read(c->signal_fd, &info, sizeof info) == sizeof info) {
		if (info.ssi_signo == PID1_END_ALL && c->orders.gate)
			(void)kill(-1, SIGKILL);
		else if (info.ssi_signo != SIGCHLD && info.ssi_pid != own)
			(void)kill(c->main_pid, (int)info.ssi_signo);
	}
}

/* A container that is alone is ended this way too before it was let go. */
static void wait_for_leave(const struct container *c)
{
	char byte;
	struct signalfd_siginfo info;
	int gate_fd = open(c->orders.gate, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	struct pollfd fds[] = { { .fd = gate_fd, .events = POLLIN },
				{ .fd = c->signal_fd, .events = POLLIN } };
	if (gate_fd < 0)
		_exit(FAILED);
	note(c->status_fd, "ready", -1);
	for (;;) {
		if (poll(fds, 2, -1) < 0)
			continue;
		if ((fds[0].revents & POLLIN) && read(gate_fd, &byte, 1) == 1)
			break;
		/* Somebody looked in and left; a new descriptor waits for the next. */
		if (fds[0].revents & POLLHUP) {
			(void)close(gate_fd);
			fds[0].fd = gate_fd = open(c->orders.gate,
						   O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
		}
		while (read(c->signal_fd, &info, sizeof info) == sizeof info)
			if (info.ssi_signo == SIGTERM || info.ssi_signo == PID1_END_ALL) {
				note(c->status_fd, "ended", SIGKILL);
				_exit(128 + SIGKILL);
			}
	}
	(void)close(gate_fd);
}

/* The variables stay where they were read. */
static int take_environment(const char *path)
{
	struct stat st = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	size_t size = (size_t)st.st_size, count = 0, n = 0;
	char *text = calloc(1, size + 1);
	if (!text || read(fd, text, size) != st.st_size)
		return -EIO;
	(void)close(fd);
	for (size_t i = 0; i < size; i++)
		count += !text[i];
	char **list = calloc(count + 1, sizeof *list);
	for (char *at = text; list && at < text + size; at += strlen(at) + 1)
		list[n++] = at;
	if (!list)
		return -ENOMEM;
	environ = list;
	return 0;
}

static int prepare(struct container *c)
{
	struct orders *o = &c->orders;
	int abi = 0, r = 0;
	for (int i = 0; i < 2; i++) {
		c->write_fds[i] = c->pumps[i].pipe_fd = -1;
		if (r >= 0 && o->logs[i])
			r = pump_open(&c->pumps[i], o->logs[i], o->log_max, &c->write_fds[i]);
	}
	if (r >= 0 && o->env)
		r = take_environment(o->env);
	if (o->logs[0])
		counters_open(&c->counters);
	if (r >= 0)
		r = confine(o, &abi);
	if (o->n_rules)
		note(c->status_fd, "landlock", abi);
	return r;
}

static int usage(void)
{
	static const char text[] =
		"init [-g GATE] [-E ENVIRONMENT] [-o OUT -e ERR -m BYTES] [-r|-w|-d PATH]... [-f] [-l NUMBER=VALUE]... STATUS PROGRAM [ARGUMENT...]\n";
	return write(2, text, sizeof text - 1) < 0 ? 1 : FAILED;
}

static int add_rule(struct orders *o, char *path, enum access access)
{
	if (o->n_rules == PID1_RULES_MAX)
		return -E2BIG;
	o->rules[o->n_rules++] = (struct rule){ .path = path, .access = access };
	return 0;
}

/* What is more than we have ourselves is not ours to give. */
static int add_limit(struct orders *o, const char *text)
{
	char *end = NULL;
	struct rlimit have = { 0 };
	if (o->n_limits == PID1_LIMITS_MAX)
		return -E2BIG;
	struct plan_rlimit *l = &o->limits[o->n_limits++];
	l->resource = (int)strtol(text, &end, 10);
	if (*end != '=' || getrlimit((__rlimit_resource_t)l->resource, &have) < 0)
		return -EINVAL;
	l->value = strtoull(end + 1, NULL, 10);
	if (l->value > have.rlim_max)
		l->value = have.rlim_max;
	return 0;
}

static int read_orders(int argc, char **argv, struct orders *o)
{
	int r = 0;
	for (int option; r >= 0 && (option = getopt(argc, argv, "+g:E:o:e:m:r:w:d:fl:")) != -1;) {
		if (option == 'g')
			o->gate = optarg;
		else if (option == 'E')
			o->env = optarg;
		else if (option == 'o' || option == 'e')
			o->logs[option == 'e'] = optarg;
		else if (option == 'm')
			o->log_max = strtoull(optarg, NULL, 10);
		else if (option == 'r' || option == 'w' || option == 'd')
			r = add_rule(o, optarg,
				     option == 'r'   ? ACCESS_READ
				     : option == 'w' ? ACCESS_WRITE
						     : ACCESS_DEVICE);
		else if (option == 'f')
			o->filter = true;
		else if (option == 'l')
			r = add_limit(o, optarg);
		else
			r = -EINVAL;
	}
	if (r < 0 || optind + 2 > argc || !o->logs[0] != !o->logs[1])
		return -EINVAL;
	o->status = argv[optind];
	return optind + 1;
}

static _Noreturn void watch(struct container *c)
{
	for (;;) {
		struct pollfd fds[] = { { .fd = c->signal_fd, .events = POLLIN },
					{ .fd = c->pumps[0].pipe_fd, .events = POLLIN },
					{ .fd = c->pumps[1].pipe_fd, .events = POLLIN } };
		if (poll(fds, 3, -1) < 0)
			continue;
		for (int i = 0; i < 2; i++)
			if (fds[i + 1].revents)
				pump_some(&c->pumps[i]);
		note_lost_log(c);
		pass_on(c);
		reap(c);
	}
}

int main(int argc, char **argv)
{
	struct container c = { 0 };
	sigset_t all;
	int first = read_orders(argc, argv, &c.orders);
	if (first < 0)
		return usage();
	/* It ends every process it can see; anywhere else these would be the host's. */
	if ((c.orders.logs[0] || c.orders.gate) && getpid() != 1)
		return FAILED;
	c.argv = argv + first;
	/* O_CREAT: where the place is a directory and not a file that is there. */
	c.status_fd =
		open(c.orders.status, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (c.status_fd < 0)
		return FAILED;
	sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)prctl(PR_SET_DUMPABLE, 0); /* nothing in the container reads or traces it */
	c.signal_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	int r = c.signal_fd < 0 ? -errno : prepare(&c);
	if (r < 0) {
		note(c.status_fd, "failed", -r);
		return FAILED;
	}
	if (c.orders.gate)
		wait_for_leave(&c);
	start(&c);
	watch(&c);
}

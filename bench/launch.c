/* Starts commands and measures how long each takes, from posix_spawn to the reaped child; itself it does next to nothing.
 *
 *	launch -n ROUNDS [-g GAP_MS] COMMAND... [+ COMMAND...]...   each once a round, in changing order: "INDEX MICROSECONDS" a line
 *	launch -s SECONDS -j JOBS COMMAND...                        JOBS at a time: "RUNS SECONDS"
 *	launch -x COMMAND...                                        only becomes the command
 *
 * A command may begin with hide=PATH: it is then started where the mount PATH is not there, in a mount namespace of launch's own. In
 * its arguments {} is the number of the job. A command that fails ends the measurement. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/num.h"
#include "base/str.h"

#define COMMANDS_MAX 32
#define JOBS_MAX     64

struct command {
	char **argv; /* borrowed; ends with NULL */
	int ns_fd;   /* owned; the mount namespace to start it in, -1: ours */
};

struct bench {
	uint64_t rounds, gap_ms, seconds, jobs;
	bool only_exec;
	int own_ns_fd; /* owned; where we came from */
	struct command commands[COMMANDS_MAX];
	size_t n_commands;
};

/* Nothing here touches the host's mounts: the new namespace is cut off before anything is unmounted in it. */
static int hide(struct bench *b, const char *path, int *ret_ns_fd, struct err *err)
{
	if (b->own_ns_fd < 0)
		b->own_ns_fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (b->own_ns_fd < 0 || unshare(CLONE_NEWNS) < 0)
		return err_errno(err, "make a mount namespace");
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_errno(err, "cut the mount namespace off");
	if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
		return err_errno(err, "hide %s", path);
	CLEANUP_FD int fd = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(b->own_ns_fd, CLONE_NEWNS) < 0)
		return err_errno(err, "leave the mount namespace");
	*ret_ns_fd = take_fd(&fd);
	return 0;
}

static int add_command(struct bench *b, char **argv, struct err *err)
{
	static const char prefix[] = "hide=";
	int ns_fd = -1;
	int r = 0;
	if (b->n_commands == COMMANDS_MAX)
		return err_caller(err, "more than %d commands", COMMANDS_MAX);
	if (*argv && strncmp(*argv, prefix, strlen(prefix)) == 0)
		r = hide(b, *argv++ + strlen(prefix), &ns_fd, err);
	if (r >= 0 && !*argv)
		r = err_caller(err, "a command is empty");
	if (r >= 0)
		b->commands[b->n_commands++] = (struct command){ argv, ns_fd };
	return r;
}

static void bench_release(struct bench *b)
{
	for (size_t i = 0; i < b->n_commands; i++)
		cleanup_fd(&b->commands[i].ns_fd);
	cleanup_fd(&b->own_ns_fd);
}

/* The arguments with each {} replaced; the caller releases them. */
static struct strv arguments(const struct command *c, uint64_t job)
{
	struct strv v = { 0 };
	for (char **arg = c->argv; *arg; arg++) {
		const char *mark = strstr(*arg, "{}");
		CLEANUP_FREE char *text = mark ? xasprintf("%.*s%llu%s", (int)(mark - *arg), *arg,
							   (unsigned long long)job, mark + 2)
					       : xstrdup(*arg);
		strv_add(&v, text);
	}
	return v;
}

struct started {
	pid_t pid; /* 0: none */
	uint64_t at_ns;
};

static int start(const struct bench *b, const struct command *c, uint64_t job, struct started *ret,
		 struct err *err)
{
	posix_spawn_file_actions_t actions;
	CLEANUP_STRV struct strv argv = arguments(c, job);
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	(void)posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	if (c->ns_fd >= 0 && setns(c->ns_fd, CLONE_NEWNS) < 0)
		return err_errno(err, "enter the mount namespace");
	struct started s = { .at_ns = clock_monotonic_ns() };
	int error = posix_spawnp(&s.pid, c->argv[0], &actions, NULL, argv.v, environ);
	if (c->ns_fd >= 0 && setns(b->own_ns_fd, CLONE_NEWNS) < 0)
		return err_errno(err, "leave the mount namespace");
	(void)posix_spawn_file_actions_destroy(&actions);
	if (error)
		return err_set(err, ERR_HOST, error, "start %s: %s", c->argv[0],
			       strerrordesc_np(error));
	*ret = s;
	return 0;
}

static int check_end(int status, const char *name, struct err *err)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return err_set(err, ERR_HOST, EIO, "%s: %s %d", name,
		       WIFEXITED(status) ? "exit status" : "signal",
		       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static int measure(const struct bench *b, size_t index, struct err *err)
{
	const struct command *c = &b->commands[index];
	struct started s = { 0 };
	int status = 0;
	int r = start(b, c, 0, &s, err);
	if (r < 0)
		return r;
	if (waitpid(s.pid, &status, 0) != s.pid)
		return err_errno(err, "wait for %s", c->argv[0]);
	uint64_t took_ns = clock_monotonic_ns() - s.at_ns;
	printf("%zu %.1f\n", index, (double)took_ns / 1e3);
	return check_end(status, c->argv[0], err);
}

/* Another order each round, the same each time: nobody always follows the same neighbour, whose remains the kernel is still clearing. */
static void shuffle(size_t *order, size_t n, uint64_t *state)
{
	for (size_t i = n; i > 1; i--) {
		*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
		size_t j = (size_t)(*state >> 33) % i, taken = order[i - 1];
		order[i - 1] = order[j];
		order[j] = taken;
	}
}

static int run_rounds(const struct bench *b, struct err *err)
{
	struct timespec gap = { .tv_sec = (time_t)(b->gap_ms / 1000),
				.tv_nsec = (long)(b->gap_ms % 1000) * 1000000 };
	size_t order[COMMANDS_MAX];
	uint64_t state = 1;
	int r = 0;
	for (size_t i = 0; i < b->n_commands; i++)
		order[i] = i;
	for (uint64_t round = 0; r >= 0 && round < b->rounds; round++) {
		shuffle(order, b->n_commands, &state);
		for (size_t i = 0; r >= 0 && i < b->n_commands; i++) {
			if (b->gap_ms)
				(void)nanosleep(&gap, NULL);
			r = measure(b, order[i], err);
		}
	}
	return r;
}

static int run_rate(const struct bench *b, struct err *err)
{
	const struct command *c = &b->commands[0];
	struct started slots[JOBS_MAX] = { 0 };
	uint64_t began_ns = clock_monotonic_ns(), runs = 0;
	int r = 0;
	for (;;) {
		uint64_t busy = 0;
		bool more = clock_monotonic_ns() - began_ns < b->seconds * NS_PER_SEC;
		for (uint64_t i = 0; r >= 0 && i < b->jobs; i++) {
			if (!slots[i].pid && more)
				r = start(b, c, i, &slots[i], err);
			busy += slots[i].pid > 0;
		}
		if (r < 0 || !busy)
			break;
		int status = 0;
		pid_t pid = waitpid(-1, &status, 0);
		for (uint64_t i = 0; i < b->jobs; i++)
			if (slots[i].pid == pid)
				slots[i].pid = 0;
		r = check_end(status, c->argv[0], err);
		runs++;
	}
	printf("%llu %.6f\n", (unsigned long long)runs,
	       (double)(clock_monotonic_ns() - began_ns) / NS_PER_SEC);
	return r;
}

static int become(const struct bench *b, struct err *err)
{
	const struct command *c = &b->commands[0];
	CLEANUP_STRV struct strv argv = arguments(c, 0);
	if (c->ns_fd >= 0 && setns(c->ns_fd, CLONE_NEWNS) < 0)
		return err_errno(err, "enter the mount namespace");
	(void)execvp(c->argv[0], argv.v);
	return err_errno(err, "start %s", c->argv[0]);
}

static int read_options(struct bench *b, int argc, char **argv, struct err *err)
{
	int r = 0;
	for (int option; r >= 0 && (option = getopt(argc, argv, "+n:g:s:j:x")) >= 0;) {
		uint64_t *number = option == 'n'   ? &b->rounds
				   : option == 'g' ? &b->gap_ms
				   : option == 's' ? &b->seconds
						   : &b->jobs;
		if (option == '?')
			r = err_caller(err, "usage: see the head of bench/launch.c");
		else if (option == 'x')
			b->only_exec = true;
		else
			r = num_count(optarg, number, err);
	}
	if (r >= 0 && b->jobs > JOBS_MAX)
		r = err_caller(err, "-j: at most %d", JOBS_MAX);
	char **first = argv + optind;
	for (char **arg = first; r >= 0 && *arg; arg++) {
		if (strcmp(*arg, "+") != 0)
			continue;
		*arg = NULL;
		r = add_command(b, first, err);
		first = arg + 1;
	}
	return r < 0 ? r : add_command(b, first, err);
}

int main(int argc, char **argv)
{
	CLEANUP(bench_release) struct bench b = { .jobs = 1, .own_ns_fd = -1 };
	struct err err = { 0 };
	int r = read_options(&b, argc, argv, &err);
	if (r >= 0)
		r = b.only_exec ? become(&b, &err)
		    : b.rounds  ? run_rounds(&b, &err)
				: run_rate(&b, &err);
	if (r < 0)
		fprintf(stderr, "launch: %s\n", err.text);
	return r < 0;
}

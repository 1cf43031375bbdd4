/* What the budget's tests share: a parent group of this process's own, members that wait for the word, reaping. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/str.h"
#include "budget/budget.h"
#include "budget/group.h"
#include "spec/config.h"

#define MIB     (1024ULL * 1024)
#define WAIT_NS (60 * NS_PER_SEC)

/* "cupel-test-PID" */
struct fixture {
	char parent[48];
	struct limits limits;
	struct limits aggregate;
	unsigned cpu_weight;
	struct hierarchies host;
};

static inline struct budget_request fixture_request(struct fixture *f, const char *id)
{
	return (struct budget_request){ .id = id,
					.parent = f->parent,
					.manager = CGROUP_AUTO,
					.limits = &f->limits,
					.aggregate = &f->aggregate,
					.cpu_weight = f->cpu_weight };
}

static inline int fixture_setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	(void)snprintf(f->parent, sizeof(f->parent), "cupel-test-%d", (int)getpid());
	f->limits.at[LIMIT_MEMORY].value = 48 * MIB + 1000;
	f->limits.at[LIMIT_CPUS].value = 500;
	f->limits.at[LIMIT_PIDS].value = 24;
	f->aggregate.at[LIMIT_MEMORY].value = 400 * MIB;
	f->aggregate.at[LIMIT_CPUS].value = 900;
	f->aggregate.at[LIMIT_PIDS].value = 300;
	struct err err = { 0 };
	if (hierarchies_read(&f->host, &err) < 0) {
		print_error("%s\n", err.text);
		return -1;
	}
	/* Orphans of killed members come here, so that nothing is left as a zombie of somebody else. */
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	*state = f;
	return 0;
}

/* Everything of this test's parent, in every tree; the names are its own. */
static inline int fixture_teardown(void **state)
{
	struct fixture *f = *state;
	CLEANUP_STRV struct strv ids = { 0 };
	(void)budget_list(f->parent, &ids, NULL);
	for (size_t i = 0; i < ids.n; i++) /* those of tests that failed */
		(void)budget_sweep(f->parent, ids.v[i], NULL);
	for (size_t i = 0; i <= f->host.n_v1; i++) {
		const struct hierarchy *h = i < f->host.n_v1 ? &f->host.v1[i] : &f->host.v2;
		CLEANUP_FD int fd = h->mount ? open(h->mount, O_PATH | O_CLOEXEC) : -1;
		if (fd >= 0 && group_remove(fd, f->parent, NULL) < 0)
			print_error("%s/%s could not be removed\n", h->mount, f->parent);
	}
	hierarchies_release(&f->host);
	free(f);
	return 0;
}

static inline struct budget *fixture_create(struct fixture *f, const char *id)
{
	struct budget_request request = fixture_request(f, id);
	struct budget *b = NULL;
	struct err err = { 0 };
	if (budget_create(&request, &b, &err) < 0)
		fail_msg("budget_create: %s", err.text);
	return b;
}

/* Kill, remove, free, and see that it went well. */
static inline void fixture_end(struct budget *b)
{
	struct err err = { 0 };
	if (b->ops->kill_all(b, WAIT_NS, &err) < 0)
		fail_msg("kill_all: %s", err.text);
	if (b->ops->remove(b, &err) < 0)
		fail_msg("remove: %s", err.text);
	budget_free(b);
	/* Not waiting: a member of a test that failed may still be alive until the teardown. */
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

static inline struct usage fixture_usage(struct budget *b)
{
	struct usage u = { 0 };
	struct err err = { 0 };
	if (b->ops->read_usage(b, &u, &err) < 0)
		fail_msg("read_usage: %s", err.text);
	return u;
}

/* Puts another process into the group, as an administrator would. */
static inline int fixture_attach(struct budget *b, pid_t pid, struct err *err)
{
	int fds[BUDGET_JOIN_MAX] = { 0 };
	int n = b->ops->join_fds(b, fds, err);
	if (n == 0 && b->ops->clone_fd(b) >= 0) {
		fds[0] = openat(b->ops->clone_fd(b), "cgroup.procs", O_WRONLY | O_CLOEXEC);
		n = fds[0] < 0 ? err_errno(err, "open cgroup.procs") : 1;
	}
	int r = n < 0 ? n : 0;
	for (int i = 0; i < n; i++) {
		if (r >= 0 && dprintf(fds[i], "%d", (int)pid) < 0)
			r = err_errno(err, "put process %d into the group", (int)pid);
		(void)close(fds[i]);
	}
	return r;
}

/* Forks a member that runs body(fd) once it is in the group; it may report through fd, whose other end is *ret_fd. */
static inline pid_t fixture_member(struct budget *b, void (*body)(int), int *ret_fd)
{
	int go[2], report[2];
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(report, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		char byte;
		(void)close(go[1]);
		(void)close(report[0]);
		if (read(go[0], &byte, 1) == 1)
			body(report[1]);
		_exit(0);
	}
	(void)close(go[0]);
	(void)close(report[1]);
	struct err err = { 0 };
	int r = fixture_attach(b, pid, &err);
	if (r < 0) {
		(void)kill(pid, SIGKILL);
		fail_msg("attach: %s", err.text);
	}
	assert_int_equal(write(go[1], "g", 1), 1);
	(void)close(go[1]);
	if (ret_fd)
		*ret_fd = report[0];
	else
		(void)close(report[0]);
	return pid;
}

/* Is there a group PARENT/ID in any tree? */
static inline bool fixture_exists(const struct fixture *f, const char *id)
{
	CLEANUP_STRV struct strv ids = { 0 };
	assert_int_equal(budget_list(f->parent, &ids, NULL), 0);
	return strv_has(&ids, id);
}

/* The directory of a v1 tree or of v2 below its mount point; -1 if it is not there. */
static inline int fixture_open(const struct fixture *f, enum controller c, const char *path)
{
	const struct hierarchy *h = &f->host.v2;
	for (size_t i = 0; i < f->host.n_v1; i++)
		if (f->host.v1[i].controllers & CONTROLLER_BIT(c))
			h = &f->host.v1[i];
	CLEANUP_FREE char *full = xasprintf("%s/%s", h->mount, path);
	return open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

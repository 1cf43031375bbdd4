/* An ordinary user's budget without systemd: refused with the remedy, and working once a part of the tree is delegated. */
#include "budget_fixture.h"

#include <grp.h>

#define USER_ID 65534

static void become_user(void)
{
	if (setgroups(0, NULL) < 0 || setresgid(USER_ID, USER_ID, USER_ID) < 0 ||
	    setresuid(USER_ID, USER_ID, USER_ID) < 0)
		_exit(99);
}

/* In the child: creates, uses, ends. Writes what went wrong to standard error. */
static int user_run(struct fixture *f, const char *parent)
{
	struct budget_request request = fixture_request(f, "mine");
	struct budget *b = NULL;
	struct err err = { 0 };
	request.parent = parent;
	int r = budget_create(&request, &b, &err);
	if (r >= 0) {
		pid_t pid = fork();
		if (pid == 0)
			for (;;)
				(void)pause();
		r = fixture_attach(b, pid, &err);
		struct usage u = { 0 };
		if (r >= 0)
			r = b->ops->read_usage(b, &u, &err);
		if (r >= 0 && u.pids != 1)
			r = err_set(&err, ERR_HOST, EIO, "%u pids", (unsigned)u.pids);
		if (r >= 0)
			r = b->ops->kill_all(b, WAIT_NS, &err);
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		if (r >= 0)
			r = b->ops->remove(b, &err);
		budget_free(b);
	}
	if (r < 0)
		print_error("%s\n", err.text);
	return r < 0;
}

static void test_not_delegated_is_refused_with_the_remedy(void **state)
{
	struct fixture *f = *state;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		become_user();
		struct budget_request request = fixture_request(f, "mine");
		struct budget *b = NULL;
		struct err err = { 0 };
		request.parent = "cupel-test-nowhere/sub";
		int r = budget_create(&request, &b, &err);
		_exit(r == -EOPNOTSUPP && err.layer[0] && strstr(err.text, "Remedy") &&
				      strstr(err.text, "chown -R 65534")
			      ? 0
			      : 1);
	}
	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void shell(const char *command)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)execl("/bin/sh", "sh", "-ec", command, (char *)NULL);
		_exit(127);
	}
	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* The remedies as the errors give them: a place for the runs and, on v2, one for the user's other processes. */
static void delegate(const struct fixture *f, pid_t pid)
{
	const char *p = f->parent;
	if (f->host.v2.controllers & LIMITER_ALL) {
		const char *m = f->host.v2.mount;
		CLEANUP_FREE char *command =
			xasprintf("echo '+memory +cpu +pids' >%s/cgroup.subtree_control; "
				  "mkdir -p %s/%s/shell %s/%s/cupel; "
				  "echo '+memory +cpu +pids' >%s/%s/cgroup.subtree_control; "
				  "chown -R %d %s/%s; echo %d >%s/%s/shell/cgroup.procs",
				  m, m, p, m, p, m, p, USER_ID, m, p, (int)pid, m, p);
		shell(command);
		return;
	}
	for (size_t i = 0; i < f->host.n_v1; i++) {
		const char *m = f->host.v1[i].mount;
		CLEANUP_FREE char *command =
			xasprintf("mkdir -p %s/%s/cupel; chown -R %d %s/%s", m, p, USER_ID, m, p);
		shell(command);
	}
}

static void test_delegated_works(void **state)
{
	struct fixture *f = *state;
	int go[2];
	char byte;
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)close(go[1]);
		become_user();
		CLEANUP_FREE char *parent = xasprintf("%s/cupel", f->parent);
		(void)!read(go[0], &byte, 1);
		_exit(user_run(f, parent));
	}
	delegate(f, pid);
	assert_int_equal(write(go[1], "g", 1), 1);
	(void)close(go[0]);
	(void)close(go[1]);
	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (size_t i = 0; i <= f->host.n_v1; i++) {
		const struct hierarchy *h = i < f->host.n_v1 ? &f->host.v1[i] : &f->host.v2;
		CLEANUP_FREE char *top = xasprintf("%s/%s", h->mount ? h->mount : "", f->parent);
		CLEANUP_FD int fd = h->mount ? open(top, O_PATH | O_CLOEXEC) : -1;
		if (fd < 0)
			continue;
		assert_int_equal(group_remove(fd, "cupel", NULL), 0);
		assert_int_equal(group_remove(fd, "shell", NULL), 0);
	}
}

int main(void)
{
	if (geteuid() != 0) {
		(void)fprintf(stderr, "skipped: needs root to delegate groups\n");
		return 77;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_not_delegated_is_refused_with_the_remedy),
		cmocka_unit_test(test_delegated_works),
	};
	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}

/* Several connections to one SQLite file, of one process and of another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/wait.h>

#include "ledger/backend.h"
#include "ledger/ledger.h"
#include "place.h"

static struct ledger *opened(const char *path)
{
	struct ledger *l = NULL;
	struct err err = { 0 };
	if (ledger_sqlite(path, &l, &err) < 0)
		fail_msg("%s", err.text);
	return l;
}

static void done(struct ledger *l, const char *sql)
{
	struct err err = { 0 };
	if (l->ops->script(l, sql, &err) < 0)
		fail_msg("%s: %s", sql, err.text);
}

/* Somebody else, who comes when he is told to, adds a row and goes. Forked before this process has a connection: SQLite's do not cross a fork. */
static pid_t other_process(const char *path, int told_fd)
{
	pid_t pid = fork();
	if (pid != 0)
		return pid;
	char word;
	struct ledger *l = NULL;
	struct err err = { 0 };
	bool is_good = read(told_fd, &word, 1) == 1 && ledger_sqlite(path, &l, &err) >= 0 &&
		       l->ops->script(l, "INSERT INTO t VALUES (2)", &err) >= 0;
	ledger_closep(&l);
	_exit(is_good ? 0 : 1);
}

/* Locks of a process go with any descriptor of the file that it closes. Without them the other process, being the last as far as it can see,
 * would take the log away from the connection that stays. */
static void who_goes_takes_no_locks_of_others(void **state)
{
	const struct place *p = *state;
	CLEANUP_FREE char *path = xasprintf("%s/l.db", p->path);
	CLEANUP_FREE char *log = xasprintf("%s-wal", path);
	int pipe_fds[2], status = -1;
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	pid_t pid = other_process(path, pipe_fds[0]);
	assert_true(pid > 0);

	CLEANUP_LEDGER struct ledger *stays = opened(path);
	done(stays, "CREATE TABLE t (a INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)");
	struct ledger *goes = opened(path);
	ledger_closep(&goes);
	assert_int_equal(write(pipe_fds[1], "x", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);

	assert_int_equal(access(log, F_OK), 0);
	done(stays, "INSERT INTO t VALUES (3)");
	CLEANUP_LEDGER struct ledger *comes = opened(path);
	done(comes, "INSERT INTO t SELECT 4 WHERE (SELECT count(*) FROM t) = 3");
	struct err err = { 0 };
	assert_true(stays->ops->script(stays, "INSERT INTO t VALUES (4)", &err) <
		    0); /* it is there */
	(void)close(pipe_fds[0]);
	(void)close(pipe_fds[1]);
}

static void a_link_is_no_ledger(void **state)
{
	const struct place *p = *state;
	CLEANUP_FREE char *path = xasprintf("%s/link.db", p->path);
	struct ledger *l = NULL;
	struct err err = { 0 };
	assert_int_equal(symlinkat("elsewhere.db", p->fd, "link.db"), 0);
	assert_int_equal(ledger_sqlite(path, &l, &err), -ELOOP);
	assert_int_equal(faccessat(p->fd, "elsewhere.db", F_OK, 0), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_goes_takes_no_locks_of_others, place_set_up,
						place_tear_down),
		cmocka_unit_test_setup_teardown(a_link_is_no_ledger, place_set_up, place_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

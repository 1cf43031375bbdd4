/* Who delivers to the ledger: a process of its own, that outlives the command which has seen that something is owed. So no run waits for
 * a database, be it down, locked or slow. If it is killed, the marks stay, and the next command starts another. */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "ledger/ledger.h"
#include "run/run.h"

#define DELIVERY_SECONDS 900 /* an end for whatever could hang in a library */

/* It holds nothing of the caller's: neither terminal, nor pipes that somebody reads to their end, nor a directory. */
static void let_go(void)
{
	sigset_t none;
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	(void)setsid();
	for (int fd = 0; fd <= STDERR_FILENO && null_fd >= 0; fd++)
		(void)dup2(null_fd, fd);
	(void)close_range(STDERR_FILENO + 1, ~0U, 0);
	(void)!chdir("/");
	(void)prctl(PR_SET_NAME, "cupel-ledger");
	(void)setpriority(PRIO_PROCESS, 0, 10);
	(void)signal(SIGPIPE, SIG_IGN);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)alarm(DELIVERY_SECONDS);
}

struct describing {
	const struct config *config;
	run_describe *describe;
};

/* Before the ledger has it and its mark is gone. Whatever fails there is tried again by the next who delivers, and holds up nobody. */
static void describe_owed(void *data, const struct strv *ids)
{
	const struct describing *d = data;
	struct err err = { 0 };
	for (size_t i = 0; i < ids->n; i++)
		(void)d->describe(d->config, ids->v[i], &err);
}

/* A run that ended after we had looked, and found us at work, has started nobody: so we look again once the lock is free. */
static void deliver_all(const struct config *config, run_describe *describe)
{
	struct describing describing = { config, describe };
	struct ledger_delivery d;
	struct err err;
	do {
		if (ledger_deliver_soon(config, describe_owed, &describing, &d, &err) < 0)
			return; /* noted in the home, for `cupel ledger status` */
	} while (d.settled > 0 && ledger_owes(config));
}

void run_deliver(const struct config *config, run_describe *describe)
{
	if (!ledger_owes(config))
		return;
	pid_t pid = fork();
	if (pid != 0)
		return; /* nobody's child to wait for: it is adopted when we end */
	let_go();
	deliver_all(config, describe);
	_exit(0);
}

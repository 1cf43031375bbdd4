/* How runs end: each by its own cause, told exactly. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "conform/parts.h"

#define QUEUE_RUNS    8
#define QUEUE_WAIT_NS (5 * NS_PER_SEC)

static bool gives(const struct conform *c, const char *layer, struct outcome *o)
{
	if (!strv_has(c->without, layer))
		return true;
	return outcome_skip(o, "%s does not enforce it: %s", c->name, layer);
}

void case_success(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	json_t *a = shell_analysis("echo said; echo complained >&2; echo result > out/result");
	if (!attempt_run(c, a, &t, "ok", o) || !attempt_log_is(c, &t, "stdout.log", "said\n", o) ||
	    !attempt_log_is(c, &t, "stderr.log", "complained\n", o))
		return;
	(void)attempt_output_is(c, &t, "out/result", "result\n", 7, o);
	if (attempt_output_count(c, &t) != 1)
		(void)outcome_fail(o, "%s: there is more than the one output", t.id);
}

void case_exit(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	if (attempt_run(c, shell_analysis("exit 7"), &t, "exit", o) &&
	    attempt_number(&t, "exit_code") != 7)
		(void)outcome_fail(o, "%s: exit_code is %ld, not 7", t.id,
				   attempt_number(&t, "exit_code"));
}

void case_signal(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	CLEANUP_ATTEMPT struct attempt same = ATTEMPT_INIT;
	if (attempt_run(c, shell_analysis("kill -SEGV $$"), &t, "signal", o) &&
	    attempt_number(&t, "signal") != SIGSEGV)
		(void)outcome_fail(o, "%s: signal is %ld, not %d", t.id,
				   attempt_number(&t, "signal"), SIGSEGV);
	/* The status that a shell gives for it is another thing. */
	if (o->status == OUTCOME_PASSED &&
	    attempt_run(c, shell_analysis("exit 139"), &same, "exit", o) &&
	    attempt_number(&same, "exit_code") != 139)
		(void)outcome_fail(o, "%s: exit_code is %ld, not 139", same.id,
				   attempt_number(&same, "exit_code"));
}

void case_oom(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	char text[8] = "";
	if (!gives(c, "memory", o))
		return;
	if (fs_read_small(AT_FDCWD, "/proc/sys/vm/panic_on_oom", text, sizeof text) > 0 &&
	    str_eq(text, "2")) {
		(void)outcome_skip(o, "vm.panic_on_oom is 2: the host would stop");
		return;
	}
	json_t *a = shell_analysis("tail /dev/zero");
	set_limit(a, "memory", "48M");
	(void)attempt_run(c, a, &t, "oom", o);
	/* Killed alike, by itself: that is no shortage of memory. */
	CLEANUP_ATTEMPT struct attempt same = ATTEMPT_INIT;
	if (o->status == OUTCOME_PASSED)
		(void)attempt_run(c, shell_analysis("kill -KILL $$"), &same, "signal", o);
}

void case_deadline(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	json_t *a = shell_analysis("trap '' TERM; echo begun; while :; do sleep 1; done");
	set_limit(a, "time", "2s");
	set_limit(a, "grace", "1s");
	if (attempt_run(c, a, &t, "deadline", o))
		(void)attempt_log_is(c, &t, "stdout.log", "begun\n", o);
}

void case_pids(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	if (!gives(c, "pids", o))
		return;
	json_t *a = shell_analysis(
		"i=0; while [ $i -lt 800 ]; do sleep 100 & i=$((i + 1)); done; kill -9 -1");
	set_limit(a, "pids", "560"); /* some need hundreds for themselves */
	set_limit(a, "memory", "1G");
	(void)attempt_run(c, a, &t, "pids", o);
}

void case_disk(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	if (!gives(c, "disk", o))
		return;
	json_t *a = shell_analysis("head -c 67108864 /dev/zero > out/fill && sleep 30");
	set_limit(a, "disk", "16M");
	(void)attempt_run(c, a, &t, "disk", o);
}

/* As `cupel cancel` asks for it. */
static bool ask_to_end(struct conform *c, struct attempt *t, struct outcome *o)
{
	pid_t keeper = 0;
	if (!attempt_keeper(c, t, &keeper) || kill(keeper, SIGTERM) < 0)
		return outcome_fail(o, "%s: nobody keeps it", t->id);
	return true;
}

void case_cancel(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	json_t *a = shell_analysis("echo first; sleep 100");
	if (attempt_begin(c, a, &t, o) &&
	    attempt_until(c, &t, attempt_is_started, " for its start", o) && ask_to_end(c, &t, o) &&
	    attempt_end(c, &t, o))
		(void)attempt_cause_is(&t, "cancelled", o);
}

static bool is_queued(struct conform *c, struct attempt *t)
{
	CLEANUP_JSON json_t *noted = attempt_json(c, t, "executor.json");
	CLEANUP_JOB_REPORT struct job_report report = { 0 };
	struct err err = { 0 };
	return c->x->ops->poll(c->x, json_object_get(noted, "handle"), &report, &err) >= 0 &&
	       report.state == JOB_QUEUED;
}

/* It has been submitted, and does not begin. */
static bool stays_queued(struct conform *c, struct attempt *t)
{
	uint64_t until_ns = clock_monotonic_ns() + QUEUE_WAIT_NS;
	while (clock_monotonic_ns() < until_ns)
		if (!conform_pause(c) || !is_queued(c, t))
			return false;
	return true;
}

static void cancel_the_waiting(struct conform *c, struct attempt *t, struct outcome *o)
{
	if (!ask_to_end(c, t, o) || !attempt_end(c, t, o) || !attempt_cause_is(t, "cancelled", o))
		return;
	if (attempt_is_started(c, t))
		(void)outcome_fail(o, "%s: it was started all the same", t->id);
}

/* Runs that take all there is, until one has to wait. */
void case_cancel_queued(struct conform *c, struct outcome *o)
{
	struct attempt runs[QUEUE_RUNS];
	size_t n = 0;
	bool found = false;
	CLEANUP_FREE char *cpus = xasprintf("%ld", sysconf(_SC_NPROCESSORS_ONLN));
	if (!c->x || !c->can.queues) {
		(void)outcome_skip(o, "%s has no queue", c->name);
		return;
	}
	while (n < QUEUE_RUNS && !found && o->status == OUTCOME_PASSED) {
		json_t *a = shell_analysis("echo first; sleep 100");
		runs[n] = (struct attempt)ATTEMPT_INIT;
		set_limit(a, "cpus", cpus);
		struct attempt *t = &runs[n++];
		if (attempt_begin(c, a, t, o) &&
		    attempt_until(c, t, attempt_is_submitted, " for its submission", o) &&
		    stays_queued(c, t)) {
			found = true;
			cancel_the_waiting(c, t, o);
		}
	}
	if (!found)
		(void)outcome_skip(o, "it started %d runs at once: none had to wait", QUEUE_RUNS);
	for (size_t i = 0; i < n; i++)
		attempt_release(&runs[i]);
}

void case_follower_killed(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	json_t *a = shell_analysis("echo first; sleep 100");
	if (!attempt_begin(c, a, &t, o) ||
	    !attempt_until(c, &t, attempt_is_started, " for its start", o))
		return;
	if (t.pid > 0)
		(void)kill(t.pid, SIGKILL);
	if (!attempt_until(c, &t, attempt_has_verdict, " for its verdict", o))
		return;
	t.verdict = attempt_json(c, &t, "verdict.json");
	(void)attempt_cause_is(&t, "cancelled", o);
}

/* What happens when the executor can't be reached for a while: nothing is lost, and nothing waits for ever. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "conform/parts.h"
#include "run/run.h"

#define AWAY_NS NS_PER_SEC

static bool applies(const struct conform *c, struct outcome *o)
{
	return c->x || outcome_skip(o, "nothing has to be reached: a keeper on this host runs it");
}

/* `operations`: words. From now on, or from now on no more. */
static bool set_away(const struct conform *c, const char *operations, bool is_away,
		     struct outcome *o)
{
	CLEANUP_FREE char *dir = xasprintf("%s/away", c->home);
	CLEANUP_FREE char *words = xstrdup(operations);
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return outcome_fail(o, "make %s: %s", dir, strerrordesc_np(errno));
	for (char *rest = words, *word; (word = strsep(&rest, " "));) {
		CLEANUP_FREE char *path = xasprintf("%s/%s", dir, word);
		CLEANUP_FD int fd = is_away ? open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) : -1;
		if (is_away ? fd < 0 : unlink(path) < 0 && errno != ENOENT)
			return outcome_fail(o, "%s: %s", path, strerrordesc_np(errno));
	}
	return true;
}

static bool let_pass(struct conform *c, uint64_t ns, struct outcome *o)
{
	uint64_t until_ns = clock_monotonic_ns() + ns;
	while (clock_monotonic_ns() < until_ns)
		if (!conform_pause(c))
			return outcome_fail(o, "interrupted");
	return true;
}

static bool is_submitting(struct conform *c, struct attempt *t)
{
	CLEANUP_JSON json_t *noted = attempt_json(c, t, "executor.json");
	(void)attempt_is_followed_to_its_end(c, t);
	return noted != NULL;
}

static bool is_missed(struct conform *c, struct attempt *t)
{
	(void)attempt_is_followed_to_its_end(c, t);
	return attempt_has_event(c, t, "unreachable");
}

static bool is_stopping(struct conform *c, struct attempt *t)
{
	(void)attempt_is_followed_to_its_end(c, t);
	return attempt_has_event(c, t, "stopping");
}

/* There; or here, if whoever attends it did not wait. */
static bool has_ended(struct conform *c, struct attempt *t)
{
	return attempt_is_followed_to_its_end(c, t) || attempt_has_ended_there(c, t);
}

/* Before anything was recorded: it is refused. */
static void try_probe(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	if (!attempt_begin(c, two_lines("0"), &t, o) ||
	    !attempt_until(c, &t, attempt_is_followed_to_its_end, " for its end", o))
		return;
	CLEANUP_FREE char *dir = xasprintf("%s/runs/%s", c->home, t.id);
	if (t.status == 0 || access(dir, F_OK) == 0)
		(void)outcome_fail(o, "%s: it was recorded or run, though nobody could be asked",
				   t.id);
}

void case_away_start(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	if (!applies(c, o) || !set_away(c, "probe", true, o))
		return;
	try_probe(c, o);
	if (!set_away(c, "probe", false, o) || o->status != OUTCOME_PASSED ||
	    !set_away(c, "submit", true, o))
		return;
	bool waits = attempt_begin(c, two_lines("0"), &t, o) &&
		     attempt_until(c, &t, is_submitting, " for its submission", o) &&
		     let_pass(c, AWAY_NS, o);
	if (set_away(c, "submit", false, o) && waits && attempt_end(c, &t, o))
		(void)attempt_is_whole(c, &t, o);
}

/* Neither while it runs, nor when it ends. */
void case_away_running(struct conform *c, struct outcome *o)
{
	static const char all[] = "find poll logs collect";
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	if (!applies(c, o) || !attempt_begin(c, two_lines("2"), &t, o) ||
	    !attempt_until(c, &t, attempt_has_printed, " for its first line", o) ||
	    !set_away(c, all, true, o))
		return;
	bool ended = attempt_until(c, &t, is_missed, " for word that it is not reached", o) &&
		     attempt_until(c, &t, has_ended, " for its end there", o);
	/* What it left is asked for a moment later than how it ended. */
	bool waited = set_away(c, "find poll logs", false, o) && ended && let_pass(c, AWAY_NS, o);
	if (set_away(c, "collect", false, o) && waited && attempt_end(c, &t, o))
		(void)attempt_is_whole(c, &t, o);
}

void case_away_cancel(struct conform *c, struct outcome *o)
{
	static const char all[] = "poll logs signal cancel";
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	pid_t keeper = 0;
	if (!applies(c, o) || !attempt_begin(c, shell_analysis("echo first; sleep 100"), &t, o) ||
	    !attempt_until(c, &t, attempt_has_printed, " for its first line", o) ||
	    !set_away(c, all, true, o))
		return;
	bool asked = attempt_keeper(c, &t, &keeper) && kill(keeper, SIGTERM) == 0 &&
		     attempt_until(c, &t, is_stopping, " for word that it is to end", o) &&
		     let_pass(c, AWAY_NS, o);
	if (set_away(c, all, false, o) && !asked)
		(void)outcome_fail(o, "%s: nobody keeps it", t.id);
	else if (asked && attempt_end(c, &t, o))
		(void)attempt_cause_is(&t, "cancelled", o);
}

/* The verdict does not wait for it; what is left is removed by whoever comes next. */
void case_away_left(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	struct gc_report report = { 0 };
	struct err err = { 0 };
	if (!applies(c, o) || !set_away(c, "reap", true, o))
		return;
	bool begun = attempt_begin(c, two_lines("0"), &t, o);
	if (begun && attempt_end(c, &t, o))
		(void)attempt_is_whole(c, &t, o);
	if (!set_away(c, "reap", false, o) || !begun || o->status != OUTCOME_PASSED)
		return;
	CLEANUP_FREE char *before = conform_left(c, t.id);
	if (!before)
		(void)outcome_fail(o, "%s: nothing was left that could be removed", t.id);
	(void)run_sweep(&c->config, &report, &err);
	(void)conform_until_gone(c, t.id, o);
}

/* What happens when the one who attends a run dies; that nothing is done twice; and that nothing is left. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "conform/parts.h"
#include "run/run.h"

#define LEFT_NS (60 * NS_PER_SEC)

json_t *two_lines(const char *seconds)
{
	CLEANUP_FREE char *script =
		xasprintf("echo first; sleep %s; echo result > out/result; echo last", seconds);
	return shell_analysis(script);
}

bool attempt_is_whole(struct conform *c, struct attempt *t, struct outcome *o)
{
	return attempt_cause_is(t, "ok", o) &&
	       attempt_log_is(c, t, "stdout.log", "first\nlast\n", o) &&
	       attempt_output_is(c, t, "out/result", "result\n", 7, o);
}

bool attempt_has_event(const struct conform *c, const struct attempt *t, const char *name)
{
	size_t length = 0;
	CLEANUP_FREE char *events = attempt_file(c, t, "events.jsonl", &length);
	CLEANUP_FREE char *word = xasprintf("\"%s\"", name);
	return events && strstr(events, word);
}

/* Where jobs outlive their keeper, another took over and lost nothing; where they do not, the run is lost, and that is said. */
static void judge_death(struct conform *c, struct attempt *t, struct outcome *o)
{
	if (!attempt_end(c, t, o))
		return;
	if (!c->can.reattaches) {
		if (attempt_cause_is(t, "lost", o))
			outcome_remark(o, "lost, as it has to be: its box dies with its keeper");
		return;
	}
	if (!attempt_is_whole(c, t, o))
		return;
	if (!attempt_has_event(c, t, "taken-over"))
		(void)outcome_fail(o, "%s: nobody took over: the keeper was not killed", t->id);
}

static bool kill_keeper(struct conform *c, struct attempt *t, struct outcome *o)
{
	pid_t keeper = 0;
	if (!attempt_keeper(c, t, &keeper) || kill(keeper, SIGKILL) < 0)
		return outcome_fail(o, "%s: nobody keeps it", t->id);
	return true;
}

void case_killed_submitted(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	if (attempt_begin(c, two_lines("3"), &t, o) &&
	    attempt_until(c, &t, attempt_is_submitted, " for its submission", o) &&
	    kill_keeper(c, &t, o))
		judge_death(c, &t, o);
}

void case_killed_running(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	if (attempt_begin(c, two_lines("3"), &t, o) &&
	    attempt_until(c, &t, attempt_has_printed, " for its first line", o) &&
	    kill_keeper(c, &t, o))
		judge_death(c, &t, o);
}

/* Stopped meanwhile, the keeper does not see the end. */
void case_killed_ended(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	pid_t keeper = 0;
	if (!attempt_begin(c, two_lines("3"), &t, o) ||
	    !attempt_until(c, &t, attempt_is_started, " for its start", o))
		return;
	if (!attempt_keeper(c, &t, &keeper) || kill(keeper, SIGSTOP) < 0) {
		(void)outcome_fail(o, "%s: nobody keeps it", t.id);
		return;
	}
	bool ended = attempt_until(c, &t, attempt_has_ended_there, " for its end there", o);
	(void)kill(keeper, SIGKILL);
	if (ended)
		judge_death(c, &t, o);
}

/* The very job of the run, once more. */
static int submit_again(struct conform *c, const struct attempt *t, const json_t *noted,
			json_t **ret, struct err *err)
{
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	CLEANUP_RESOLVED struct resolved resolved = { 0 };
	CLEANUP_FREE char *file = xasprintf("%s/%s.yaml", c->top, t->id);
	CLEANUP_FREE char *stage = xasprintf("%s/jobs/%s", c->home, t->id);
	int r = analysis_read(file, &a, err);
	if (r < 0)
		return r;
	a.executor = xstrdup(c->name);
	r = run_resolve(&c->config, &a, &resolved, err);
	if (r < 0)
		return r;
	struct job job = {
		.id = t->id,
		.name = json_string_value(json_object_get(noted, "job")),
		.config = &c->config,
		.analysis = &a,
		.runtime = &resolved.runtime,
		.plan = &resolved.plan,
		.work_dir = resolved.plan.host_work_dir,
		.stage = stage,
		.uid = (uid_t)json_integer_value(json_object_get(noted, "uid")),
		.gid = (gid_t)json_integer_value(json_object_get(noted, "gid")),
	};
	return c->x->ops->submit(c->x, &job, ret, err);
}

void case_submit_twice(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	CLEANUP_JSON json_t *again = NULL;
	struct err err = { 0 };
	if (!c->x) {
		(void)outcome_skip(o, "nothing is submitted: a keeper on this host runs it");
		return;
	}
	if (!attempt_begin(c, two_lines("3"), &t, o) ||
	    !attempt_until(c, &t, attempt_is_submitted, " for its submission", o))
		return;
	CLEANUP_JSON json_t *noted = attempt_json(c, &t, "executor.json");
	if (submit_again(c, &t, noted, &again, &err) < 0)
		(void)outcome_fail(o, "%s: submitted again, it fails: %s", t.id, err.text);
	else if (!json_equal(again, json_object_get(noted, "handle")))
		(void)outcome_fail(o, "%s: submitted again, it is another job", t.id);
	if (attempt_end(c, &t, o))
		(void)attempt_is_whole(c, &t, o);
}

void case_same_id(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt first = ATTEMPT_INIT;
	CLEANUP_ATTEMPT struct attempt second = ATTEMPT_INIT;
	if (!attempt_run(c, shell_analysis("echo first"), &first, "ok", o))
		return;
	size_t length = 0, length_after = 0;
	CLEANUP_FREE char *before = attempt_file(c, &first, "verdict.json", &length);
	if (!attempt_begin_as(c, shell_analysis("echo second"), first.id, &second, o) ||
	    !attempt_until(c, &second, attempt_is_followed_to_its_end, " for its end", o))
		return;
	CLEANUP_FREE char *after = attempt_file(c, &first, "verdict.json", &length_after);
	if (!WIFEXITED(second.status) || WEXITSTATUS(second.status) != 2)
		(void)outcome_fail(o, "%s: the second run of that id was not refused", first.id);
	if (!str_eq(before, after))
		(void)outcome_fail(o, "%s: the second run changed the first one's record",
				   first.id);
	(void)attempt_log_is(c, &first, "stdout.log", "first\n", o);
}

/* A layer that neither the executor's settings nor the host's policy let pass. */
static const char *refused_layer(const struct conform *c)
{
	const struct executor_settings *s = config_executor(&c->config, c->name);
	for (size_t i = 0; i < c->without->n; i++) {
		const char *layer = c->without->v[i];
		if (!strv_has(&c->config.allow_missing, layer) &&
		    !(s && strv_has(&s->allow_missing, layer)))
			return layer;
	}
	return NULL;
}

/* Something that it can't give; NULL if it gives all there is. */
static json_t *too_much(const struct conform *c, const char **ret_what)
{
	json_t *a = shell_analysis("echo started");
	*ret_what = refused_layer(c);
	if (*ret_what) {
		json_object_set_new(a, "allow_missing", json_array());
		return a;
	}
	if (!c->can.checkpoints) {
		*ret_what = "a checkpoint";
		json_object_set_new(a, "checkpoint", json_string("saved"));
		return a;
	}
	if (!c->can.network_host || !c->config.network_host_allowed) {
		*ret_what = "the host's network";
		json_object_set_new(a, "network", json_string("host"));
		return a;
	}
	if (!c->can.limits[LIMIT_CPU_TIME]) {
		*ret_what = "cpu_time";
		set_limit(a, "cpu_time", "60s");
		return a;
	}
	json_decref(a);
	return NULL;
}

/* Neither here nor there is anything of it. */
static bool is_unknown_there(struct conform *c, const char *id)
{
	CLEANUP_FREE char *name = executor_job_name(c->home, id);
	CLEANUP_JSON json_t *handle = NULL;
	struct err err = { 0 };
	return !c->x || c->x->ops->find(c->x, name, &handle, &err) == -ENOENT;
}

void case_refusal(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	const char *what = NULL;
	json_t *a = too_much(c, &what);
	if (!a) {
		(void)outcome_skip(o, "%s gives everything that can be asked for", c->name);
		return;
	}
	if (!attempt_begin(c, a, &t, o) ||
	    !attempt_until(c, &t, attempt_is_followed_to_its_end, " for its end", o))
		return;
	CLEANUP_FREE char *said = attempt_said(c, &t);
	CLEANUP_FREE char *dir = xasprintf("%s/runs/%s", c->home, t.id);
	if (!WIFEXITED(t.status) || (WEXITSTATUS(t.status) != 2 && WEXITSTATUS(t.status) != 125) ||
	    !said[0])
		(void)outcome_fail(o, "%s: it was not refused, though it asks for %s", t.id, what);
	else if (access(dir, F_OK) == 0)
		(void)outcome_fail(o, "%s: it was recorded before it was refused", t.id);
	else if (!is_unknown_there(c, t.id))
		(void)outcome_fail(o, "%s: it was submitted before it was refused", t.id);
	else
		outcome_remark(o, "%s", said);
}

char *conform_left(struct conform *c, const char *id)
{
	CLEANUP_FREE char *work = config_work_dir(&c->config, id);
	CLEANUP_FREE char *active = xasprintf("%s/active/%s", c->home, id);
	CLEANUP_FREE char *stage = xasprintf("%s/jobs/%s", c->home, id);
	const char *const places[] = { work, active, stage };
	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (access(places[i], F_OK) == 0)
			return xstrdup(places[i]);
	return is_unknown_there(c, id) ? NULL : xasprintf("the job of %s", id);
}

bool conform_until_gone(struct conform *c, const char *id, struct outcome *o)
{
	uint64_t until_ns = clock_monotonic_ns() + LEFT_NS;
	for (;;) {
		CLEANUP_FREE char *left = conform_left(c, id);
		if (!left)
			return true;
		if (clock_monotonic_ns() > until_ns || !conform_pause(c))
			return outcome_fail(o, "%s is left", left);
	}
}

void case_left(struct conform *c, struct outcome *o)
{
	CLEANUP_ATTEMPT struct attempt t = ATTEMPT_INIT;
	struct gc_report report = { 0 };
	struct err err = { 0 };
	if (!c->ids.n && !attempt_run(c, shell_analysis("echo alone"), &t, "ok", o))
		return;
	(void)run_sweep(&c->config, &report, &err);
	for (size_t i = 0; i < c->ids.n; i++)
		if (!conform_until_gone(c, c->ids.v[i], o))
			return;
	outcome_remark(o, "%zu runs", c->ids.n);
}

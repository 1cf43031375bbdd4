/* The story of a run that is carried out elsewhere: the job is submitted or found again, watched, and its end recorded here. Only when the
 * verdict is durable is the job removed there, so that whoever takes over finds one or the other. */
#include "keeper/attend.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "keeper/describe.h"
#include "keeper/traces.h"

#define REAP_TRIES 3 /* what remains then is the next sweep's */

const char *const attend_phase_names[] = { [ATTEND_SUBMITTING] = "submitting",
					   [ATTEND_SUBMITTED] = "submitted",
					   [ATTEND_REAPED] = "reaped" };

static void attendance_release(struct attendance *t)
{
	executor_release(&t->x);
	free(t->name);
	free(t->stage);
	json_decref(t->handle);
	job_report_release(&t->report);
}

/* Nothing of it runs, and nothing will: the caller is told why. */
static void note_failure(struct attendance *t, const struct err *err)
{
	struct ending *e = &t->s->k.ending;
	if (e->stop == STOP_NONE)
		e->stop = chosen_refused(t->s->k.q->chosen) ? STOP_RUNTIME : STOP_SETUP;
	e->setup = *err;
}

/* How it ended, in the words of the verdict. */
static void note_end(struct attendance *t)
{
	struct ending *e = &t->s->k.ending;
	const struct job_report *r = &t->report;
	e->started = r->started;
	e->exec_errno = r->exec_errno;
	e->exited = r->exited;
	e->wait_status = r->wait_status;
	e->usage.oom_kills = r->why == JOB_WHY_OOM && !r->oom_kills ? 1 : r->oom_kills;
	e->usage.pids_limit_hits = r->pids_limit_hits;
	if (e->stop != STOP_NONE || e->usage.oom_kills)
		return;
	struct err why = { 0 };
	(void)err_set(&why, ERR_HOST, EIO, "%s: %s%s%s", t->x->settings->name,
		      r->why == JOB_WHY_NONE ? job_state_names[r->state] : job_why_names[r->why],
		      r->reason[0] ? ": " : "", r->reason);
	if (r->why == JOB_WHY_DEADLINE)
		e->stop = STOP_DEADLINE;
	if (r->why == JOB_WHY_CANCELLED) {
		e->stop = STOP_CANCEL;
		e->stop_by = "somebody ended it where it was carried out";
	}
	if (r->why == JOB_WHY_START) {
		e->stop = STOP_SETUP;
		e->setup = why;
	}
	if (r->why == JOB_WHY_NODE || r->why == JOB_WHY_PREEMPTED || r->state == JOB_GONE ||
	    (r->why == JOB_WHY_NONE && !r->exited && !r->exec_errno)) {
		e->stop = STOP_LOST;
		e->setup = why;
	}
}

/* For the verdict: who carried it out, and its own evidence. */
static void note_executor(struct attendance *t)
{
	struct keeping *k = &t->s->k;
	const struct job_report *r = &t->report;
	json_t *o = json_pack("{s:s,s:s,s:o,s:s,s:s,s:s,s:i}", "name", t->x->settings->name, "kind",
			      executor_kind_names[t->x->settings->kind], "engine",
			      json_text(t->capability.engine), "job", t->name, "state",
			      job_state_names[r->state], "why", job_why_names[r->why], "restarts",
			      (int)r->restarts);
	json_object_set_new(o, "reason", json_text(r->reason));
	if (t->handle)
		json_object_set(o, "handle", t->handle);
	if (r->evidence)
		json_object_set(o, "evidence", r->evidence);
	k->executor = o;
}

static int begin(struct attendance *t, struct err *err)
{
	int r = attend_open(t, err);
	if (r < 0)
		return r;
	return t->s->k.q->again ? attend_find(t, err) : attend_submit(t, err);
}

static void conclude(struct attendance *t)
{
	struct keeper_state *s = t->s;
	struct keeping *k = &s->k;
	bool there = t->capability.judging == JUDGING_THERE;
	if (t->gave_up) { /* it may be alive: what it has is not looked at */
		k->ending.stop = STOP_LOST;
		(void)err_set(&k->ending.setup, ERR_HOST, ETIMEDOUT, "%s: %s", t->x->settings->name,
			      t->report.reason);
		keeper_read_end(s);
		return;
	}
	note_end(t);
	if (there)
		attend_take(t);
	keeper_read_end(s);
	if (k->started_ns && !there)
		guard_end(s);
	if (k->started_ns && (k->has_scratch || k->scratch.dir_fd >= 0))
		keeper_collect(s);
	if (k->started_ns && !there)
		keeper_keep(s);
}

/* The working directory: ours, or what the keeper before us noted of it. */
static int remove_place(struct attendance *t, bool has_scratch, struct err *err)
{
	struct keeping *k = &t->s->k;
	struct fs_removed removed = { 0 };
	CLEANUP_TRACES struct traces traces = { 0 };
	if (has_scratch)
		return scratch_remove(&k->scratch, &removed, err);
	if (!k->q->again)
		return 0;
	traces_read(&k->record, k->q->config, &traces);
	struct scratch_dead dead = { .path = traces.work_dir,
				     .home = k->q->config->home,
				     .mark = traces.has_mark ? &traces.mark : NULL };
	return scratch_sweep(&dead, &removed, err);
}

/* The job is gone from where it was, and only then its working directory. False: the rest is the next sweep's. */
static bool clear(struct attendance *t, bool has_scratch)
{
	struct err why = { 0 };
	int r = -EAGAIN;
	for (int tries = 0; r == -EAGAIN && tries < REAP_TRIES; tries++)
		r = attend_reap(t, &why);
	return r >= 0 && remove_place(t, has_scratch, &why) >= 0;
}

/* active/ID stays until the job is gone from where it was: whoever finds it there without a keeper does the rest. The working directory
 * stays until the verdict is there: without it nothing could be collected again. */
static void finish(struct attendance *t, bool has_scratch, struct verdict *v, struct err *err)
{
	struct record *record = &t->s->k.record;
	bool leaves_traces = record->leaves_traces;
	if (t->x)
		note_executor(t);
	record->leaves_traces |= t->x != NULL;
	if (keeper_finish(t->s, v, err) < 0)
		return;
	*err = (struct err){ 0 };
	FAULT_PHASE("attend-recorded");
	if (t->x && clear(t, has_scratch) && !leaves_traces)
		(void)record_owe(record);
	FAULT_PHASE("attend-reaped");
}

/* A complete run whose job was still to be removed. */
static bool is_recorded(const struct record *r)
{
	return faccessat(r->dir_fd, "verdict.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void keeper_attend(struct keeper_state *s, struct verdict *v, struct err *err)
{
	struct keeping *k = &s->k;
	CLEANUP(attendance_release) struct attendance t = { .s = s };
	if (k->q->again && is_recorded(&k->record)) {
		if (attend_open(&t, err) >= 0 && attend_read(&t, err) >= 0 && clear(&t, false))
			(void)record_owe(&k->record);
		return;
	}
	int r = begin(&t, err);
	if (k->q->again &&
	    !t.x) /* as it is set up now, there is no such executor: nothing is known of the job */
		return;
	if (r < 0)
		note_failure(&t, err);
	else
		attend_watch(&t);
	stages_mark(&k->stages, STAGE_RUN);
	if (r >= 0)
		conclude(&t);
	else
		keeper_read_end(s);
	stages_mark(&k->stages, STAGE_COLLECT);
	bool has_scratch = k->has_scratch;
	k->has_scratch = false;
	keeper_clean(s);
	stages_mark(&k->stages, STAGE_CLEAN);
	finish(&t, has_scratch, v, err);
	stages_mark(&k->stages, STAGE_VERDICT);
}

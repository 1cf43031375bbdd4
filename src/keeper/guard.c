#include "keeper/guard.h"

#include <errno.h>

#include "base/clock.h"
#include "base/fault.h"
#include "keeper/alive.h"
#include "keeper/state.h"
#include "ledger/health_record.h"
#include "protect/protect.h"
#include "spec/dburl.h"

#define NAMED_MAX 20

struct guarded {
	const char *what;             /* borrowed from the configuration */
	struct protect_state *before; /* owned or NULL: could not be looked at */
	bool is_read; /* a step's own SQLite file of which only the schema or the rows count: its stat tells nothing of them */
	struct err err;
};

struct guard {
	struct task task;
	uint64_t since_real_ns;
	size_t n;
	struct guarded v[];
};

static bool is_steps_own(const struct keeper_state *s, const char *what)
{
	const char *writes = s->k.q->writes;
	return writes && dburl_is(what) && dburl_same(writes, what);
}

static enum depth depth_of(const struct guarded *one)
{
	return one->is_read ? DEPTH_CONTENT : DEPTH_STAT;
}

static int look(const struct keeper_state *s, const struct guarded *one, struct protect_state **ret,
		struct err *err)
{
	struct protect_baseline b = { 0 };
	const char *what = one->what;
	const struct protect_look q = { .config = s->k.q->config,
					.what = what,
					.depth = depth_of(one),
					.is_around = !one->is_read,
					.max = PROTECT_AROUND_MAX };
	bool is_huge = protect_baseline_read(q.config, what, &b, NULL) >= 0 &&
		       b.files > PROTECT_AROUND_MAX;
	protect_baseline_release(&b);
	if (is_huge) /* known beforehand: not even begun */
		return err_set(
			err, ERR_HOST, E2BIG,
			"%s has more than %d files: it is looked at by `cupel protect check` only",
			what, PROTECT_AROUND_MAX);
	return protect_look(&q, ret, err);
}

static void look_before(void *data)
{
	struct keeper_state *s = data;
	struct guard *g = s->guard;
	for (size_t i = 0; i < g->n; i++)
		if (!g->v[i].is_read)
			(void)look(s, &g->v[i], &g->v[i].before, &g->v[i].err);
}

/* No other thread may run meanwhile: reading takes the rights of the file's owner. */
static void read_before(struct keeper_state *s, struct guarded *one)
{
	if (!is_steps_own(s, one->what) || !str_starts(one->what, "sqlite:") ||
	    config_watch_level(s->k.q->config, one->what) == WATCH_CONTENT)
		return;
	one->is_read = true;
	task_join(&s->sync_task);
	(void)look(s, one, &one->before, &one->err);
}

void guard_begin(struct keeper_state *s)
{
	const struct strv *watch = &s->k.q->config->watch;
	if (watch->n == 0)
		return;
	s->guard = xcalloc(1, sizeof *s->guard + watch->n * sizeof *s->guard->v);
	s->guard->n = watch->n;
	s->guard->since_real_ns = clock_real_ns();
	for (size_t i = 0; i < watch->n; i++) {
		s->guard->v[i].what = watch->v[i];
		read_before(s, &s->guard->v[i]);
	}
	task_start(&s->guard->task, look_before, s);
}

void guard_join(struct keeper_state *s)
{
	if (s->guard)
		task_join(&s->guard->task);
}

static void say_unchecked(struct keeper_state *s, const char *what, const struct err *err)
{
	CLEANUP_FREE char *shown = dburl_shown(what);
	(void)record_event(
		&s->k.record, "protected-unchecked",
		json_pack("{s:o,s:o}", "what", json_text(shown), "error", json_text(err->text)),
		NULL);
}

/* Not this run's doing, and once said in each run until it is accepted: whoever reads the record of a run knows on what it stood. */
static void say_differs(struct keeper_state *s, const struct guarded *one)
{
	CLEANUP_PROTECT_BASELINE struct protect_baseline b = { 0 };
	if (protect_baseline_read(s->k.q->config, one->what, &b, NULL) < 0 || !b.exists ||
	    protect_same(&b, one->before))
		return;
	CLEANUP_FREE char *shown = dburl_shown(one->what);
	(void)record_event(
		&s->k.record, "protected-differs",
		json_pack("{s:o,s:o}", "what", json_text(shown), "accepted", json_text(b.time)),
		NULL);
}

void guard_ready(struct keeper_state *s)
{
	guard_join(s);
	for (size_t i = 0; s->guard && i < s->guard->n; i++) {
		const struct guarded *one = &s->guard->v[i];
		if (one->before)
			say_differs(s, one);
		else
			say_unchecked(s, one->what, &one->err);
	}
	FAULT_PHASE("guard-ready");
}

void guard_missed(struct keeper_state *s)
{
	const struct strv *watch = &s->k.q->config->watch;
	struct err err = { 0 };
	(void)err_set(&err, ERR_HOST, ESRCH, "the keeper that had looked at it died");
	for (size_t i = 0; i < watch->n; i++)
		say_unchecked(s, watch->v[i], &err);
}

static json_t *describe_change(const struct keeper_state *s, const char *shown,
			       const struct drifts *d)
{
	CLEANUP_STRV struct strv alive = { 0 };
	CLEANUP_JSON json_t *all = drifts_json(d);
	char from[40], to[40];
	json_t *runs = json_array(), *first = json_array();
	const struct keeper_request *q = s->k.q;
	(void)runs_alive_since(q->config, q->id, s->guard->since_real_ns, &alive, NULL);
	for (size_t i = 0; i < alive.n && i < NAMED_MAX; i++)
		json_array_append_new(runs, json_text(alive.v[i]));
	for (size_t i = 0; i < d->n && i < NAMED_MAX; i++)
		json_array_append(first, json_array_get(json_object_get(all, "drifts"), i));
	return json_pack("{s:o,s:o,s:o,s:s,s:s,s:o,s:o}", "what", json_text(shown), "changes",
			 json_u64(d->n_all), "first", first, "after",
			 clock_write(s->guard->since_real_ns, from, sizeof from), "before",
			 clock_write(clock_real_ns(), to, sizeof to), "runs", runs, "runs_alive",
			 json_u64(alive.n));
}

static void say_changed(struct keeper_state *s, const char *what, const struct drifts *d)
{
	CLEANUP_FREE char *shown = dburl_shown(what);
	CLEANUP_JSON json_t *data = describe_change(s, shown, d);
	CLEANUP_FREE char *summary = xasprintf("%llu changes while %s ran, first: %s",
					       (unsigned long long)d->n_all, s->k.q->id,
					       d->n ? d->v[0].what : "?");
	const struct health_record h = { .kind = "protect",
					 .subject = shown,
					 .status = "changed",
					 .summary = summary,
					 .detail = data };
	(void)ledger_health_keep(s->k.q->config, &h, NULL);
	(void)record_event(&s->k.record, "protected-changed", json_incref(data), NULL);
}

/* One health record and one event: what a step of the host's wrote is no alarm, unless the database was not as accepted before. */
static void say_written(struct keeper_state *s, const char *what, const char *by, bool is_accepted,
			const struct drifts *d)
{
	CLEANUP_FREE char *shown = dburl_shown(what);
	CLEANUP_JSON json_t *data = describe_change(s, shown, d);
	json_object_set_new(data, "by", json_text(by));
	json_object_set_new(data, "accepted", json_boolean(is_accepted));
	(void)record_event(&s->k.record, "protected-written", json_incref(data), NULL);
	if (!is_accepted)
		return;
	CLEANUP_FREE char *summary = xasprintf("%llu changes by %s, first: %s",
					       (unsigned long long)d->n_all, by,
					       d->n ? d->v[0].what : "?");
	const struct health_record h = { .kind = "protect",
					 .subject = shown,
					 .status = "ok",
					 .summary = summary,
					 .detail = data };
	(void)ledger_health_keep(s->k.q->config, &h, NULL);
}

/* Was it right before the step what had been accepted? */
static bool was_accepted(const struct protect_baseline *b, const struct guarded *one)
{
	CLEANUP_PROTECT_STATE struct protect_state *then = NULL;
	CLEANUP_DRIFTS struct drifts d = { 0 };
	if (!one->is_read)
		return protect_same(b, one->before);
	if (protect_baseline_state(b, one->what, &then, NULL) < 0)
		return false;
	protect_compare(then, one->before, depth_of(one), &d);
	return d.n_all == 0;
}

/* The step's database as it is now becomes what was accepted, if that is what it was right before the step. */
static bool accept_written(struct keeper_state *s, const struct guarded *one)
{
	CLEANUP_PROTECT_BASELINE struct protect_baseline b = { 0 };
	CLEANUP_PROTECT_STATE struct protect_state *now = NULL;
	const struct protect_look q = { .config = s->k.q->config,
					.what = one->what,
					.depth = DEPTH_CONTENT,
					.max = PROTECT_FILES_MAX };
	struct err err = { 0 };
	if (protect_baseline_read(q.config, one->what, &b, NULL) < 0 || !b.exists ||
	    !was_accepted(&b, one))
		return false;
	int r = protect_look(&q, &now, &err);
	if (r >= 0)
		r = protect_baseline_write(q.config, now, s->k.q->written_by, &err);
	if (r < 0)
		say_unchecked(s, one->what, &err);
	return r >= 0;
}

/* Another run saw what a step wrote: the step has accepted it. */
static char *writer_of(const struct keeper_state *s, const char *what,
		       const struct protect_state *now)
{
	CLEANUP_PROTECT_BASELINE struct protect_baseline b = { 0 };
	return protect_baseline_read(s->k.q->config, what, &b, NULL) >= 0 && b.by &&
			       protect_same(&b, now)
		       ? take_ptr(b.by)
		       : NULL;
}

static void say_difference(struct keeper_state *s, const struct guarded *one,
			   const struct protect_state *now, const struct drifts *d)
{
	const struct keeper_request *q = s->k.q;
	if (is_steps_own(s, one->what)) {
		say_written(s, one->what, q->written_by, accept_written(s, one), d);
		return;
	}
	CLEANUP_FREE char *by = writer_of(s, one->what, now);
	if (by)
		say_written(s, one->what, by, true, d);
	else
		say_changed(s, one->what, d);
}

void guard_end(struct keeper_state *s)
{
	for (size_t i = 0; s->guard && i < s->guard->n; i++) {
		struct guarded *one = &s->guard->v[i];
		CLEANUP_PROTECT_STATE struct protect_state *now = NULL;
		CLEANUP_DRIFTS struct drifts d = { 0 };
		struct err err = { 0 };
		if (!one->before)
			continue;
		if (look(s, one, &now, &err) < 0) {
			say_unchecked(s, one->what, &err);
			continue;
		}
		protect_compare(one->before, now, depth_of(one), &d);
		if (d.n_all > 0)
			say_difference(s, one, now, &d);
		protect_state_freep(&one->before);
	}
	FAULT_PHASE("guard-ended");
}

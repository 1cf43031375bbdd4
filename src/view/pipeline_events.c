/* What steps.jsonl and result.json say of each step. The events tell the course, the result how it ended; where they differ the result
 * counts, which is written last and at once. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "view/dossier.h"
#include "view/pipeline_dossier.h"

#define EVENTS_MAX   ((size_t)512 << 20)
#define TASKS_MAX    1000000 /* of all steps */
#define ATTEMPTS_MAX 1000    /* of one */
#define VERDICT_MAX  ((size_t)1 << 20)

/* Tasks by "step\nshard": no name has a line in it, and one that had would only be taken for another's. */
struct fold {
	struct pipeline_dossier *d;
	json_t *steps; /* owned; name -> number */
	json_t *tasks; /* owned; step and shard -> number in the step */
	size_t n_tasks;
};

static void fold_release(struct fold *f)
{
	json_decrefp(&f->steps);
	json_decrefp(&f->tasks);
}

static void copy_id(char *to, const char *id)
{
	if (id_check(id, NULL) < 0)
		id = "";
	(void)snprintf(to, ID_MAX + 1, "%s", id);
}

static struct dossier_task *add_task(struct fold *f, struct dossier_step *step, const char *name,
				     const char *shard)
{
	if (f->n_tasks >= TASKS_MAX)
		return NULL;
	f->n_tasks++;
	if ((step->n_tasks & (step->n_tasks - 1)) == 0)
		step->tasks = xreallocarray(step->tasks, step->n_tasks ? step->n_tasks * 2 : 1,
					    sizeof *step->tasks);
	json_object_set_new(f->tasks, name, json_integer((json_int_t)step->n_tasks));
	struct dossier_task *t = &step->tasks[step->n_tasks++];
	*t = (struct dossier_task){ .shard = xstrdup(shard),
				    .key = xstrdup(""),
				    .why = xstrdup("") };
	return t;
}

/* NULL for a step that pipeline.json has not. */
static struct dossier_task *find_task(struct fold *f, const json_t *o)
{
	const char *shard = dossier_text(o, "shard");
	const json_t *at = json_object_get(f->steps, dossier_text(o, "step"));
	if (!at)
		return NULL;
	struct dossier_step *step = &f->d->steps[json_integer_value(at)];
	CLEANUP_FREE char *name = xasprintf("%s\n%s", step->name, shard);
	const json_t *known = json_object_get(f->tasks, name);
	return known ? &step->tasks[json_integer_value(known)] : add_task(f, step, name, shard);
}

static struct dossier_attempt *find_attempt(struct dossier_task *t, const char *run)
{
	for (size_t i = t->n_attempts; i > 0; i--)
		if (str_eq(t->attempts[i - 1].run, run))
			return &t->attempts[i - 1];
	if (t->n_attempts >= ATTEMPTS_MAX)
		return NULL;
	t->attempts = xreallocarray(t->attempts, t->n_attempts + 1, sizeof *t->attempts);
	struct dossier_attempt *a = &t->attempts[t->n_attempts++];
	*a = (struct dossier_attempt){ 0 };
	copy_id(a->run, run);
	return a;
}

static void take_key(struct dossier_task *t, const json_t *o)
{
	json_t *parts = json_object_get(o, "parts");
	if (dossier_text(o, "key")[0]) {
		free(t->key);
		t->key = xstrdup(dossier_text(o, "key"));
	}
	if (json_is_object(parts)) {
		json_decref(t->parts);
		t->parts = json_incref(parts);
	}
}

/* Why it was run, or was not; or, of one that could not be run at all, what was in the way. */
static void take_why(struct dossier_task *t, const json_t *o)
{
	const char *why = dossier_text(o, "error")[0] ? dossier_text(o, "error")
						      : dossier_text(o, "why");
	if (str_eq(dossier_text(o, "event"), "reused")) /* not why it was run at another time */
		why = "nothing that it depends on changed";
	if (!why[0])
		return;
	free(t->why);
	t->why = xstrdup(why);
}

static void take_use(struct dossier_task *t, const json_t *o)
{
	(void)snprintf(t->cause, sizeof t->cause, "%s", dossier_text(o, "cause"));
	t->wall_ms = dossier_number(o, "wall_ms");
	t->memory_bytes = dossier_number(o, "memory_peak_bytes");
}

/* One that kept its checkpoint is gone on with. */
enum task_state task_state_of(const char *cause)
{
	return !cause[0]                       ? TASK_RUNNING
	       : str_eq(cause, "ok")           ? TASK_OK
	       : str_eq(cause, "cancelled")    ? TASK_CANCELLED
	       : str_eq(cause, "checkpointed") ? TASK_WAITING
					       : TASK_FAILED;
}

static void take_ended(struct dossier_task *t, const json_t *o, uint64_t at)
{
	struct dossier_attempt *a = t->run[0] ? find_attempt(t, dossier_text(o, "run")) : NULL;
	take_use(t, o);
	t->state = task_state_of(t->cause[0] ? t->cause : "lost");
	if (!a)
		return;
	a->ended_ms = at;
	a->wall_ms = t->wall_ms;
	a->memory_bytes = t->memory_bytes;
	(void)snprintf(a->cause, sizeof a->cause, "%s", t->cause);
}

/* Of an attempt whose end nobody was there to note the run's own record tells, if it came to one. */
static void abandon(struct fold *f, struct dossier_attempt *a)
{
	CLEANUP_JSON json_t *verdict = NULL;
	CLEANUP_FREE char *path = xasprintf("%s/verdict.json", a->run);
	if (a->run[0] && f->d->runs_fd >= 0)
		(void)json_read_file(f->d->runs_fd, path, VERDICT_MAX, &verdict, NULL);
	const json_t *usage = json_object_get(verdict, "usage");
	const char *cause = dossier_text(verdict, "cause");
	(void)snprintf(a->cause, sizeof a->cause, "%s", cause[0] ? cause : "lost");
	a->wall_ms = dossier_number(usage, "wall_usec") / 1000;
	a->memory_bytes = dossier_number(usage, "memory_peak_bytes");
	a->ended_ms = verdict ? a->started_ms + a->wall_ms : f->d->last_ms;
}

/* What comes after an attempt of a task says that the attempt is over. */
static void abandon_others(struct fold *f, struct dossier_task *t, const char *run)
{
	for (size_t i = 0; i < t->n_attempts; i++)
		if (!t->attempts[i].cause[0] && !str_eq(t->attempts[i].run, run))
			abandon(f, &t->attempts[i]);
}

static void take_event(struct fold *f, const json_t *o)
{
	const char *event = dossier_text(o, "event");
	uint64_t at = pipeline_time_ms(dossier_text(o, "time"));
	struct dossier_task *t = find_task(f, o);
	if (!t)
		return;
	bool is_reused = str_eq(event, "reused");
	if (is_reused || str_eq(event, "started"))
		abandon_others(f, t, is_reused ? "" : dossier_text(o, "run"));
	if (at > f->d->last_ms)
		f->d->last_ms = at;
	take_key(t, o);
	take_why(t, o);
	copy_id(t->run, dossier_text(o, "run"));
	if (str_eq(event, "started")) {
		struct dossier_attempt *a = find_attempt(t, dossier_text(o, "run"));
		t->state = TASK_RUNNING;
		t->cause[0] = 0;
		if (a)
			a->started_ms = at;
	} else if (str_eq(event, "ended"))
		take_ended(t, o, at);
	else if (is_reused) {
		t->state = TASK_REUSED;
		take_use(t, o);
	} else if (str_eq(event, "skipped")) {
		t->state = TASK_SKIPPED;
		take_use(t, o);
	}
}

/* A line that a crash tore is passed over. */
static int take_events(struct fold *f, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	struct err why = { 0 };
	int r = fs_read_capped(f->d->dir_fd, "steps.jsonl", EVENTS_MAX, &text, &length, &why);
	if (r == -ENOENT)
		return 0; /* it has not come to the first */
	if (r < 0) {
		if (err)
			*err = why;
		return r;
	}
	for (char *line = text; line < text + length;) {
		char *end = memchr(line, '\n', (size_t)(text + length - line));
		size_t n = end ? (size_t)(end - line) : (size_t)(text + length - line);
		CLEANUP_JSON json_t *o = json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL);
		if (json_is_object(o))
			take_event(f, o);
		line += n + 1;
	}
	return 0;
}

static void take_result(struct fold *f, const json_t *o)
{
	size_t i;
	json_t *run;
	struct dossier_task *t = find_task(f, o);
	if (!t)
		return;
	for (int s = TASK_OK; s < TASK_STATE_COUNT_; s++)
		if (str_eq(dossier_text(o, "state"), task_state_names[s]))
			t->state = (enum task_state)s;
	take_key(t, o);
	if (dossier_text(o, "run")[0])
		copy_id(t->run, dossier_text(o, "run"));
	take_use(t, o);
	json_array_foreach(json_object_get(o, "attempts"), i, run)
	{
		const char *id = json_string_value(run);
		if (id && id_check(id, NULL) >= 0 && t->state != TASK_REUSED)
			(void)find_attempt(t, id);
	}
}

/* What the result does not have was not come to: it ended while that was under way, or before. */
static void count_tasks(struct pipeline_dossier *d)
{
	for (size_t i = 0; i < d->n_steps; i++) {
		struct dossier_step *step = &d->steps[i];
		if (step->shards < step->n_tasks)
			step->shards = step->n_tasks;
		for (size_t j = 0; j < step->n_tasks; j++)
			step->counts[step->tasks[j].state]++;
		step->counts[TASK_WAITING] += step->shards - step->n_tasks;
		for (int s = 0; s < TASK_STATE_COUNT_; s++)
			d->counts[s] += step->counts[s];
		d->total += step->shards;
	}
}

/* The numbers of steps and of their tasks by name. */
static void fold_begin(struct fold *f, struct pipeline_dossier *d)
{
	*f = (struct fold){ .d = d, .steps = json_object(), .tasks = json_object() };
	for (size_t i = 0; i < d->n_steps; i++) {
		json_object_set_new(f->steps, d->steps[i].name, json_integer((json_int_t)i));
		f->n_tasks += d->steps[i].n_tasks;
		for (size_t j = 0; j < d->steps[i].n_tasks; j++) {
			CLEANUP_FREE char *name =
				xasprintf("%s\n%s", d->steps[i].name, d->steps[i].tasks[j].shard);
			json_object_set_new(f->tasks, name, json_integer((json_int_t)j));
		}
	}
}

int pipeline_fold_events(struct pipeline_dossier *d, struct err *err)
{
	CLEANUP(fold_release) struct fold f = { 0 };
	fold_begin(&f, d);
	return take_events(&f, err);
}

void pipeline_fold_result(struct pipeline_dossier *d)
{
	CLEANUP(fold_release) struct fold f = { 0 };
	size_t i;
	json_t *o;
	fold_begin(&f, d);
	json_array_foreach(json_object_get(d->result, "steps"), i, o)
	{
		take_result(&f, o);
	}
	count_tasks(d);
}

/* One task of a pipeline: was it finished before, start it, hear how it ended, try again. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "collect/fetch.h"
#include "flow/engine_parts.h"

#define VERDICT_MAX (1 << 20)

static json_t *line_of(const struct engine *e, size_t task, const char *event)
{
	const struct flow_task *t = &e->flow->tasks[task];
	json_t *line = json_pack("{s:o,s:o,s:s}", "step", json_text(e->flow->steps[t->step].name),
				 "shard", t->shard ? json_text(t->shard) : json_null(), "event",
				 event);
	if (e->tasks[task].key[0])
		json_object_set_new(line, "key", json_string(e->tasks[task].key));
	return line;
}

static void set_reason(struct task_state *s, char *reason)
{
	free(s->reason);
	s->reason = reason;
}

/* It can't be run at all: there is no run to point to. */
static void fail_unstarted(struct engine *e, size_t task, const struct err *why)
{
	struct task_state *s = &e->tasks[task];
	json_t *line = line_of(e, task, "ended");
	struct flow_news news = { .kind = FLOW_NEWS_ENDED,
				  .task = &e->flow->tasks[task],
				  .why = why->text,
				  .cause = cause_name(CAUSE_SETUP) };
	s->cause = CAUSE_SETUP;
	(void)snprintf(s->cause_name, sizeof s->cause_name, "%s", cause_name(CAUSE_SETUP));
	s->exit_status = why->kind == ERR_CALLER ? 2 : 125;
	json_object_set_new(line, "cause", json_string(s->cause_name));
	json_object_set_new(line, "error", json_text(why->text));
	flow_record_add(&e->record, line);
	engine_set(e, task, FLOW_FAILED);
	engine_tell(e, &news);
	flow_unlink(&e->flow->tasks[task]);
}

void engine_take_outputs(struct flow_made *made, const struct finished *f)
{
	(void)snprintf(made->run, sizeof made->run, "%s", f->run);
	strv_release(&made->outputs);
	for (size_t i = 0; i < f->n_outputs; i++)
		strv_add(&made->outputs, f->outputs[i].path);
}

static bool is_forced(const struct engine *e, const struct flow_step *s)
{
	return e->q->force && strv_has(e->q->force, s->name);
}

bool engine_may_reuse(const struct engine *e, const struct flow_step *s)
{
	return s->cache && !is_forced(e, s);
}

/* True if a result of its key is there, and whole. */
static bool find_finished(struct engine *e, size_t task)
{
	CLEANUP_FINISHED struct finished found = { 0 };
	struct task_state *s = &e->tasks[task];
	struct err err = { 0 };
	char lost[200] = "";
	int r = finished_find(&e->finished, s->key, &found, lost, sizeof lost, &err);
	if (r > 0) {
		e->lookups.hit++;
		engine_take_outputs(&e->made[task], &found);
		return true;
	}
	*(r < 0 || lost[0] || s->lost ? &e->lookups.unusable : &e->lookups.miss) += 1;
	if (r < 0)
		set_reason(s, xasprintf("what is known of it can't be read: %s", err.text));
	else if (lost[0] || s->lost)
		set_reason(s, xasprintf("its result can't be used: %s", lost[0] ? lost : s->lost));
	else if (ongoing_why(&e->ongoing, s->key))
		set_reason(s, xstrdup(ongoing_why(&e->ongoing, s->key)));
	else
		set_reason(s, flow_past_why(e->past, e->flow->tasks[task].label,
					    &e->flow->tasks[task].analysis.key));
	return false;
}

static bool is_reusable(struct engine *e, size_t task)
{
	struct flow_task *t = &e->flow->tasks[task];
	const struct flow_step *step = &e->flow->steps[t->step];
	struct task_state *s = &e->tasks[task];
	struct err err = { 0 };
	if (key_make(e->keys, &t->analysis, &err) < 0) {
		set_reason(s, xasprintf("it has no key: %s", err.text));
		return false;
	}
	memcpy(s->key, t->analysis.key.sha256, sizeof s->key);
	if (is_forced(e, step)) {
		set_reason(s, xstrdup("it is forced"));
		return false;
	}
	if (!step->cache) {
		set_reason(s, xstrdup("its results are never reused (cache: off)"));
		return false;
	}
	return find_finished(e, task);
}

static void use_again(struct engine *e, size_t task)
{
	struct flow_news news = { .kind = FLOW_NEWS_REUSED,
				  .task = &e->flow->tasks[task],
				  .run = e->made[task].run,
				  .ok = true };
	flow_record_reused(&e->record, e->flow->steps[e->flow->tasks[task].step].name,
			   e->flow->tasks[task].shard, e->tasks[task].key, e->made[task].run);
	engine_set(e, task, FLOW_REUSED);
	engine_tell(e, &news);
	flow_unlink(&e->flow->tasks[task]);
	engine_passed(e, task);
}

void engine_look(struct engine *e, size_t task)
{
	struct err err = { 0 };
	if (e->tasks[task].is_found) {
		e->lookups.hit++;
		use_again(e, task);
		return;
	}
	if (flow_link(e->flow, e->home, e->made, &e->flow->tasks[task], &err) < 0) {
		fail_unstarted(e, task, &err);
	} else if (is_reusable(e, task)) {
		e->streak++;
		use_again(e, task);
	} else {
		e->streak = 0;
		engine_set(e, task, FLOW_QUEUED);
		queue_add(&e->queued, task);
	}
}

bool engine_reuse(struct engine *e, size_t task)
{
	const struct flow_step *step = &e->flow->steps[e->flow->tasks[task].step];
	if (!engine_may_reuse(e, step) || !find_finished(e, task))
		return false;
	use_again(e, task);
	return true;
}

void engine_drop_run(struct task_state *s)
{
	if (s->run)
		running_release(s->run);
	free(s->run);
	s->run = NULL;
}

static json_t *started_line(const struct engine *e, size_t task)
{
	const struct task_state *s = &e->tasks[task];
	const struct analysis *a = &e->flow->tasks[task].analysis;
	json_t *line = line_of(e, task, "started");
	json_object_set_new(line, "run", json_text(a->id));
	json_object_set_new(line, "attempt", json_integer(s->attempt));
	json_object_set_new(line, "why", json_text(s->reason ? s->reason : ""));
	if (!e->flow->steps[e->flow->tasks[task].step].cache)
		json_object_set_new(line, "cache", json_false());
	if (s->key[0]) {
		json_t *parts = json_object();
		for (size_t i = 0; i < a->key.parts.n; i++)
			json_object_set_new(parts, a->key.parts.v[i].key,
					    json_string(a->key.parts.v[i].value));
		json_object_set_new(line, "parts", parts);
	}
	return line;
}

/* Of cpus one may say more than there are, and is given those. */
static int check_given(const struct engine *e, size_t task, const struct limits *limits,
		       struct err *err)
{
	static const enum limit_id ids[] = { LIMIT_MEMORY, LIMIT_PIDS };
	char wanted[64], had[64];
	for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
		uint64_t given = engine_given(e, task, ids[i]), value = limits->at[ids[i]].value;
		if (given && value > given)
			return err_caller(
				err,
				"%s: %s is more than the %s with which the service has admitted the pipeline; submit it again",
				limit_infos[ids[i]].key,
				limit_write(ids[i], value, wanted, sizeof wanted),
				limit_write(ids[i], given, had, sizeof had));
	}
	return 0;
}

int engine_start(struct engine *e, size_t task, struct err *err)
{
	struct flow_task *t = &e->flow->tasks[task];
	struct task_state *s = &e->tasks[task];
	CLEANUP_RESOLVED struct resolved resolved = { 0 };
	struct err why = { 0 };
	engine_prepare(e, task);
	if (run_resolve(e->config, &t->analysis, &resolved, &why) < 0 ||
	    check_given(e, task, &resolved.limits, &why) < 0) {
		fail_unstarted(e, task, &why);
		return 0;
	}
	for (int i = 0; i < LIMIT_COUNT_; i++)
		s->limits[i] = s->tries.limits[i] = resolved.limits.at[i].value;
	flow_record_add(&e->record, started_line(e, task));
	int r = flow_record_flush(&e->record, err);
	if (r < 0)
		return r;
	FAULT_PHASE("flow-task-noted");
	s->run = xcalloc(1, sizeof *s->run);
	*s->run = (struct running)RUNNING_INIT;
	if (run_start(e->config, &t->analysis, &resolved, s->run, &why) < 0) {
		engine_drop_run(s);
		fail_unstarted(e, task, &why);
		return 0;
	}
	FAULT_PHASE("flow-task-begun");
	engine_set(e, task, FLOW_RUNNING);
	e->running[e->n_running++] = task;
	struct flow_news news = { .kind = FLOW_NEWS_STARTED,
				  .task = t,
				  .run = t->analysis.id,
				  .why = s->reason,
				  .attempt = s->attempt };
	engine_tell(e, &news);
	return 0;
}

/* What its own record says. */
static int read_end(struct engine *e, size_t task, char **ret_notes, struct err *err)
{
	struct task_state *s = &e->tasks[task];
	CLEANUP_JSON json_t *verdict = NULL;
	int dir_fd = run_dir(s->run);
	int r = dir_fd < 0 ? err_errno(err, "open the record of %s", s->run->id)
			   : json_read_file(dir_fd, "verdict.json", VERDICT_MAX, &verdict, err);
	if (r < 0)
		return r;
	const json_t *usage = json_object_get(verdict, "usage");
	const char *cause = json_string_value(json_object_get(verdict, "cause"));
	const char *notes = json_string_value(json_object_get(verdict, "completion_notes"));
	(void)snprintf(s->cause_name, sizeof s->cause_name, "%s", cause ? cause : "?");
	for (s->cause = 0; s->cause < CAUSE_COUNT_ && !str_eq(cause_name(s->cause), cause);)
		s->cause++;
	s->wall_ns = (uint64_t)json_integer_value(json_object_get(usage, "wall_usec")) * 1000;
	s->memory_bytes = (uint64_t)json_integer_value(json_object_get(usage, "memory_peak_bytes"));
	*ret_notes = xstrdup(notes ? notes : "");
	return 0;
}

static int list_outputs(struct engine *e, size_t task, struct err *err)
{
	CLEANUP_JSON json_t *manifest = NULL;
	struct flow_made *made = &e->made[task];
	size_t i;
	json_t *file;
	strv_release(&made->outputs);
	(void)snprintf(made->run, sizeof made->run, "%s", e->tasks[task].run->id);
	int r = fetch_manifest(run_dir(e->tasks[task].run), &manifest, err);
	if (r == -ENOENT)
		return 0; /* it made none */
	json_array_foreach(json_object_get(manifest, "files"), i, file)
	{
		char *path = fetch_path(file);
		if (path)
			strv_take(&made->outputs, path);
	}
	return r;
}

static void try_again(struct engine *e, size_t task)
{
	struct task_state *s = &e->tasks[task];
	struct flow_news news = { .kind = FLOW_NEWS_AGAIN,
				  .task = &e->flow->tasks[task],
				  .run = s->run->id,
				  .cause = s->cause_name,
				  .attempt = s->attempt,
				  .wall_ns = s->wall_ns,
				  .memory_bytes = s->memory_bytes };
	int limit = flow_retry_limit(s->cause);
	char more[64];
	if (limit >= 0 && e->flow->steps[news.task->step].retries[s->cause].factor > 1)
		set_reason(s, xasprintf("attempt %u ended: %s, now with %s %s", s->attempt,
					s->cause_name, limit_infos[limit].key,
					limit_write((enum limit_id)limit, s->limits[limit], more,
						    sizeof more)));
	else
		set_reason(s, xasprintf("attempt %u ended: %s", s->attempt, s->cause_name));
	news.why = s->reason;
	engine_set(e, task, FLOW_QUEUED);
	queue_add(&e->queued, task);
	engine_tell(e, &news);
}

static void settle(struct engine *e, size_t task, const char *notes)
{
	struct task_state *s = &e->tasks[task];
	struct flow_news news = { .kind = FLOW_NEWS_ENDED,
				  .task = &e->flow->tasks[task],
				  .run = s->run->id,
				  .why = notes,
				  .cause = s->cause_name,
				  .ok = s->cause == CAUSE_OK,
				  .attempt = s->attempt,
				  .wall_ns = s->wall_ns,
				  .memory_bytes = s->memory_bytes };
	engine_set(e, task,
		   s->cause == CAUSE_OK          ? FLOW_OK
		   : s->cause == CAUSE_CANCELLED ? FLOW_CANCELLED
						 : FLOW_FAILED);
	engine_tell(e, &news);
	flow_unlink(&e->flow->tasks[task]);
	if (s->cause == CAUSE_OK)
		engine_passed(e, task);
}

int engine_ended(struct engine *e, size_t task, struct err *err)
{
	struct task_state *s = &e->tasks[task];
	CLEANUP_FREE char *notes = NULL;
	struct err why = { 0 };
	int r = run_finish(s->run, &s->exit_status, &why);
	if (r >= 0)
		r = read_end(e, task, &notes, &why);
	if (r >= 0 && s->cause == CAUSE_OK)
		r = list_outputs(e, task, &why);
	if (r < 0) {
		fail_unstarted(e, task, &why);
		engine_drop_run(s);
		return 0;
	}
	FAULT_PHASE("flow-task-ended");
	/* It succeeded all the same, and is run again another time: then this says why. */
	bool is_kept = s->cause != CAUSE_OK || !s->key[0] ||
		       !e->flow->steps[e->flow->tasks[task].step].cache ||
		       finished_put(e->config, s->key, s->run->id, &why) >= 0;
	FAULT_PHASE("flow-task-entered");
	json_t *line = line_of(e, task, "ended");
	json_object_set_new(line, "run", json_string(s->run->id));
	json_object_set_new(line, "attempt", json_integer(s->attempt));
	json_object_set_new(line, "cause", json_string(s->cause_name));
	json_object_set_new(line, "wall_ms", json_u64(s->wall_ns / 1000000));
	json_object_set_new(line, "memory_peak_bytes", json_u64(s->memory_bytes));
	if (!is_kept)
		json_object_set_new(line, "not_kept", json_text(why.text));
	flow_record_add(&e->record, line);
	r = flow_record_flush(&e->record, err);
	FAULT_PHASE("flow-task-told");
	if (engine_wants_again(e, task))
		try_again(e, task);
	else
		settle(e, task, notes);
	engine_drop_run(s);
	return r;
}

void engine_skip(struct engine *e, size_t task, const char *why)
{
	struct flow_news news = { .kind = FLOW_NEWS_SKIPPED,
				  .task = &e->flow->tasks[task],
				  .why = why };
	json_t *line = line_of(e, task, "skipped");
	json_object_set_new(line, "why", json_text(why));
	flow_record_add(&e->record, line);
	engine_set(e, task, FLOW_SKIPPED);
	engine_tell(e, &news);
}

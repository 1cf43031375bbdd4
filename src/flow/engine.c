/* The loop: looks at what is ready, starts what fits, hears what ends, until nothing is left to do. */
#include "flow/engine.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/path.h"
#include "flow/engine_parts.h"

#define TICK_MS   250
#define ENDING_NS (15 * NS_PER_SEC) /* for what goes on elsewhere to be asked to end */

const char *const flow_state_names[FLOW_STATE_COUNT_] = {
	[FLOW_WAITING] = "waiting", [FLOW_READY] = "ready",
	[FLOW_QUEUED] = "queued",   [FLOW_RUNNING] = "running",
	[FLOW_OK] = "ok",           [FLOW_REUSED] = "reused",
	[FLOW_FAILED] = "failed",   [FLOW_CANCELLED] = "cancelled",
	[FLOW_SKIPPED] = "skipped",
};

void flow_end_release(struct flow_end *e)
{
	json_decref(e->result);
	e->result = NULL;
}

void queue_add(struct queue *q, size_t task)
{
	q->v[q->n++] = task;
}

void engine_set(struct engine *e, size_t task, enum flow_state state)
{
	struct task_state *s = &e->tasks[task];
	e->counts[s->state]--;
	e->counts[state]++;
	s->state = state;
	if (state == FLOW_FAILED || state == FLOW_CANCELLED) {
		if (!e->exit_status)
			e->exit_status = s->exit_status ? s->exit_status : 1;
		e->stopping |= !e->q->keep_going;
	}
}

void engine_tell(struct engine *e, const struct flow_news *news)
{
	if (e->q->viewer && e->q->viewer->news)
		e->q->viewer->news(e->q->viewer->data, news);
}

/* One need fewer. */
static void relieve(struct engine *e, size_t task)
{
	if (--e->tasks[task].waiting > 0)
		return;
	engine_set(e, task, FLOW_READY);
	queue_add(&e->ready, task);
}

void engine_passed(struct engine *e, size_t task)
{
	const struct flow *f = e->flow;
	size_t step = f->tasks[task].step, own = task - f->steps[step].first;
	bool all = ++e->done[step] == f->steps[step].n_tasks;
	for (size_t i = 0; i < f->n_steps; i++)
		for (size_t k = 0; k < f->steps[i].n_needs; k++) {
			const struct flow_edge *edge = &f->steps[i].needs[k];
			if (edge->step != step)
				continue;
			if (edge->matched)
				relieve(e, f->steps[i].first + own);
			for (size_t t = 0; all && !edge->matched && t < f->steps[i].n_tasks; t++)
				relieve(e, f->steps[i].first + t);
		}
}

static void queues_open(struct engine *e)
{
	const struct flow *f = e->flow;
	/* A task is ready once, and queued once and again for each attempt: the queue is moved up when it is at its end. */
	e->ready.v = xcalloc(f->n_tasks, sizeof *e->ready.v);
	e->queued.v = xcalloc(f->n_tasks * 2, sizeof *e->queued.v);
	e->running = xcalloc(RUNNING_MAX, sizeof *e->running);
	for (size_t t = 0; t < f->n_tasks; t++) {
		e->tasks[t].waiting = f->steps[f->tasks[t].step].n_needs;
		for (int i = 0; i < LIMIT_COUNT_; i++)
			e->tasks[t].limits[i] = f->steps[f->tasks[t].step].limits.at[i].value;
		e->counts[FLOW_WAITING]++;
	}
	for (size_t t = 0; t < f->n_tasks; t++)
		if (e->tasks[t].waiting == 0) {
			engine_set(e, t, FLOW_READY);
			queue_add(&e->ready, t);
		}
}

int engine_open(struct engine *e, const struct flow_request *q, const char *previous,
		struct err *err)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	e->q = q;
	e->config = q->config;
	e->flow = q->flow;
	e->n_cpus = cpus > 0 ? (unsigned)cpus : 1;
	e->began_ns = clock_monotonic_ns();
	e->home = path_real(q->config->home);
	e->tasks = xcalloc(q->flow->n_tasks, sizeof *e->tasks);
	e->made = xcalloc(q->flow->n_tasks, sizeof *e->made);
	e->done = xcalloc(q->flow->n_steps, sizeof *e->done);
	queues_open(e);
	if (!e->home)
		e->home = xstrdup(q->config->home);
	e->past = flow_past_new(q->config, previous);
	finished_reader_open(q->config, &e->finished);
	return key_maker_new(q->config, q->reading, &e->keys, err);
}

void engine_release(struct engine *e)
{
	for (size_t i = 0; e->flow && i < e->flow->n_tasks; i++) {
		free(e->tasks[i].reason);
		free(e->tasks[i].lost);
		strv_release(&e->tasks[i].attempts);
		engine_drop_run(&e->tasks[i]);
		strv_release(&e->made[i].outputs);
	}
	free(e->tasks);
	free(e->made);
	free(e->done);
	free(e->ready.v);
	free(e->queued.v);
	free(e->running);
	free(e->home);
	flow_past_free(e->past);
	ongoing_release(&e->ongoing);
	key_maker_free(e->keys);
	finished_reader_close(&e->finished);
	flow_record_release(&e->record);
	cleanup_fd(&e->signal_fd);
}

static void show(struct engine *e)
{
	struct flow_tally tally = { .total = e->flow->n_tasks,
				    .elapsed_ns = clock_monotonic_ns() - e->began_ns };
	memcpy(tally.n, e->counts, sizeof tally.n);
	for (size_t i = 0; i < e->n_running; i++) {
		tally.memory_bytes += e->tasks[e->running[i]].sampled_bytes;
		if (tally.n_running < sizeof tally.running / sizeof *tally.running)
			tally.running[tally.n_running++] = &e->flow->tasks[e->running[i]];
	}
	if (e->q->viewer && e->q->viewer->tally)
		e->q->viewer->tally(e->q->viewer->data, &tally);
}

void engine_hear_signals(struct engine *e)
{
	struct signalfd_siginfo info;
	while (read(e->signal_fd, &info, sizeof info) == sizeof info) {
		if (!e->cancelled)
			e->cancelled_ns = clock_monotonic_ns();
		e->stopping = e->cancelled = true;
		e->exit_status = e->exit_status ? e->exit_status : 128 + (int)info.ssi_signo;
		for (size_t i = 0; i < e->n_running; i++)
			run_cancel(e->tasks[e->running[i]].run, (int)info.ssi_signo);
	}
}

static int hear(struct engine *e, size_t place, struct err *err)
{
	size_t task = e->running[place];
	struct task_state *s = &e->tasks[task];
	struct keeper_msg msg;
	if (run_hear(s->run, &msg) && msg.kind == KEEPER_MSG_SAMPLE)
		s->sampled_bytes = msg.sample.mem_bytes;
	if (!s->run->ended)
		return 0;
	e->running[place] = e->running[--e->n_running];
	s->sampled_bytes = 0;
	return engine_ended(e, task, err);
}

static int wait_for_news(struct engine *e, struct err *err)
{
	struct pollfd fds[RUNNING_MAX + 1];
	size_t n = e->n_running;
	for (size_t i = 0; i < n; i++)
		fds[i] = (struct pollfd){ .fd = e->tasks[e->running[i]].run->fd, .events = POLLIN };
	fds[n] = (struct pollfd){ .fd = e->signal_fd, .events = POLLIN };
	show(e);
	bool ticks = e->ongoing.n || (e->q->viewer && e->q->viewer->tally);
	if (poll(fds, n + 1, engine_may_look(e) ? 0 : ticks ? TICK_MS : -1) < 0 && errno != EINTR)
		return err_errno(err, "wait for the runs");
	if (fds[n].revents)
		engine_hear_signals(e);
	int r = 0;
	for (size_t i = n; r >= 0 && i > 0;
	     i--) /* from the end: what ended is replaced by the last */
		if (fds[i - 1].revents)
			r = hear(e, i - 1, err);
	return r;
}

/* Something that goes on elsewhere is waited for, as what runs is; or its end, if the pipeline was ended: it may be without a keeper just then. */
static bool is_awaiting(struct engine *e)
{
	if (e->cancelled)
		return ongoing_cancel(&e->ongoing, e->config) &&
		       clock_monotonic_ns() - e->cancelled_ns < ENDING_NS;
	return ongoing_is_awaited(&e->ongoing);
}

static int work(struct engine *e, struct err *err)
{
	int r = engine_advance(e, err);
	/* Nothing fits nowhere: what is alone is let in, unless it goes on elsewhere. */
	while (r >= 0 && (is_awaiting(e) || e->n_running > 0)) {
		r = wait_for_news(e, err);
		ongoing_look(&e->ongoing, e->config);
		if (r >= 0)
			r = engine_advance(e, err);
	}
	for (size_t i = 0; r < 0 && i < e->n_running;
	     i++) /* all at once, before each is waited for */
		run_cancel(e->tasks[e->running[i]].run, SIGTERM);
	for (size_t t = 0; r >= 0 && t < e->flow->n_tasks; t++)
		if (e->tasks[t].state <= FLOW_QUEUED)
			engine_skip(e, t,
				    e->cancelled ? "the pipeline was ended"
				    : e->tasks[t].state == FLOW_WAITING
					    ? "a step it needs did not succeed"
					    : "another step failed");
	return r;
}

static json_t *task_json(const struct engine *e, size_t task)
{
	const struct flow_task *t = &e->flow->tasks[task];
	const struct task_state *s = &e->tasks[task];
	json_t *o = json_pack("{s:o,s:o,s:s}", "step", json_text(e->flow->steps[t->step].name),
			      "shard", t->shard ? json_text(t->shard) : json_null(), "state",
			      flow_state_names[s->state]);
	const char *run = s->state == FLOW_REUSED ? e->made[task].run
			  : s->attempts.n         ? s->attempts.v[s->attempts.n - 1]
						  : NULL;
	if (run)
		json_object_set_new(o, "run", json_string(run));
	if (s->key[0])
		json_object_set_new(o, "key", json_string(s->key));
	if (s->attempts.n) {
		json_t *attempts = json_array();
		for (size_t i = 0; i < s->attempts.n; i++)
			json_array_append_new(attempts, json_string(s->attempts.v[i]));
		json_object_set_new(o, "attempts", attempts);
		json_object_set_new(o, "cause", json_string(s->cause_name));
		json_object_set_new(o, "wall_ms", json_u64(s->wall_ns / 1000000));
		json_object_set_new(o, "memory_peak_bytes", json_u64(s->memory_bytes));
	}
	return o;
}

static json_t *result_json(const struct engine *e, const struct flow_end *end, uint64_t began_ns)
{
	char began[40], now[40];
	json_t *steps = json_array();
	const char *cause = end->state == FLOW_OK ? "ok" : NULL;
	for (size_t t = 0; t < e->flow->n_tasks; t++) {
		json_array_append_new(steps, task_json(e, t));
		if (!cause && e->tasks[t].state == FLOW_FAILED)
			cause = e->tasks[t].cause_name;
	}
	return json_pack(
		"{s:s,s:s,s:s,s:i,s:s,s:s,s:{s:I,s:I,s:I,s:I,s:I,s:I},s:{s:I,s:I,s:I},s:o}", "id",
		e->record.id, "state", flow_state_names[end->state], "cause",
		cause ? cause : "cancelled", "exit_status", end->exit_status, "started",
		clock_write(began_ns, began, sizeof began), "ended",
		clock_write(clock_real_ns(), now, sizeof now), "counts", "total",
		(json_int_t)e->flow->n_tasks, "ok", (json_int_t)e->counts[FLOW_OK], "reused",
		(json_int_t)e->counts[FLOW_REUSED], "failed", (json_int_t)e->counts[FLOW_FAILED],
		"cancelled", (json_int_t)e->counts[FLOW_CANCELLED], "skipped",
		(json_int_t)e->counts[FLOW_SKIPPED], "lookups", "hit", (json_int_t)e->lookups.hit,
		"miss", (json_int_t)e->lookups.miss, "unusable", (json_int_t)e->lookups.unusable,
		"steps", steps);
}

static void conclude(struct engine *e, uint64_t began_ns, struct flow_end *ret)
{
	(void)snprintf(ret->id, sizeof ret->id, "%s", e->record.id);
	ret->state = e->counts[FLOW_FAILED] ? FLOW_FAILED
		     : (e->cancelled && e->counts[FLOW_SKIPPED]) || e->counts[FLOW_CANCELLED]
			     ? FLOW_CANCELLED
			     : FLOW_OK;
	ret->exit_status = ret->state == FLOW_OK ? 0 : e->exit_status ? e->exit_status : 1;
	memcpy(ret->tally.n, e->counts, sizeof ret->tally.n);
	ret->tally.total = e->flow->n_tasks;
	ret->tally.elapsed_ns = clock_monotonic_ns() - e->began_ns;
	ret->result = result_json(e, ret, began_ns);
}

static int open_record(struct engine *e, const struct flow_request *q, struct err *err)
{
	return q->resume ? flow_record_resume(q->config, q->resume, &e->record, err)
			 : flow_record_new(q->config, q->flow, &e->record, err);
}

int flow_run(const struct flow_request *q, struct flow_end *ret, struct err *err)
{
	CLEANUP(engine_release)
	struct engine e = { .record = FLOW_RECORD_INIT,
			    .finished = FINISHED_READER_INIT,
			    .signal_fd = -1 };
	uint64_t began_ns = clock_real_ns();
	sigset_t old;
	sigemptyset(&old);
	(void)umask(
		022); /* what one step made, the next one reads as another user; the home itself is nobody's but ours */
	int r = run_prepare(q->config, err);
	if (r >= 0)
		r = open_record(&e, q, err);
	if (r < 0)
		return r;
	FAULT_PHASE("flow-recorded");
	flow_past_recover(q->config, e.record.previous, q->resume, &e.ongoing);
	r = e.signal_fd = run_take_signals(&old, err);
	if (r >= 0)
		r = engine_open(&e, q, e.record.previous, err);
	if (r >= 0)
		r = work(&e, err);
	if (r >= 0) {
		conclude(&e, began_ns, ret);
		FAULT_PHASE("flow-concluded");
		r = flow_record_end(&e.record, ret->result, err);
		flow_record_drop_copy(q->config, q->flow);
	}
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	return r;
}

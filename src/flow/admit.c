/* What is begun next: a task that must be run as soon as it fits, and otherwise a look at one of which nothing is known yet. */
#include <string.h>

#include "base/clock.h"
#include "flow/engine_parts.h"

/* So many wait for room with their inputs and keys at hand; the rest is looked at later. */
#define AHEAD_MAX 64
/* While something runs, its end is not to wait for long until all inputs of others are read. */
#define LOOK_NS (50 * NS_PER_MS)

/* It takes nothing of this host, and waits where it is carried out. */
static bool is_elsewhere(const struct engine *e, size_t task)
{
	return config_executor_is_elsewhere(e->config, e->flow->tasks[task].analysis.executor);
}

/* Of those that run on this host. */
static uint64_t sum_running(const struct engine *e, enum limit_id id)
{
	uint64_t sum = 0;
	for (size_t k = 0; k < e->n_running; k++)
		if (!is_elsewhere(e, e->running[k]))
			sum += e->tasks[e->running[k]].limits[id];
	return sum;
}

static uint64_t given(const struct engine *e, enum limit_id id)
{
	const struct config_caller *caller = &e->config->caller;
	return id == LIMIT_MEMORY ? caller->memory_bytes
	       : id == LIMIT_CPUS ? caller->cpus
	       : id == LIMIT_PIDS ? caller->pids
				  : 0;
}

uint64_t engine_given(const struct engine *e, size_t task, enum limit_id id)
{
	return is_elsewhere(e, task) ? 0 : given(e, id);
}

/* What all that run side by side may have: what a service has admitted the pipeline with, or what the host gives all runs. 0: no bound. */
static uint64_t cap_of(const struct engine *e, enum limit_id id)
{
	uint64_t host = id == LIMIT_CPUS ? (e->q->jobs ? 0 : e->n_cpus * 1000ULL)
					 : e->config->aggregate.at[id].value;
	uint64_t said = given(e, id);
	return said ? said : host;
}

/* A task that is alone is always let in. */
static bool fits(const struct engine *e, size_t task)
{
	static const enum limit_id shared[] = { LIMIT_MEMORY, LIMIT_PIDS, LIMIT_CPUS };
	const uint64_t *wanted = e->tasks[task].limits;
	unsigned jobs = e->q->jobs ? e->q->jobs : e->n_cpus;
	unsigned here = 0;
	for (size_t k = 0; k < e->n_running; k++)
		here += !is_elsewhere(e, e->running[k]);
	if (e->n_running >= RUNNING_MAX)
		return false;
	if (here == 0 || is_elsewhere(e, task))
		return true;
	if (here >= jobs)
		return false;
	for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
		uint64_t cap = cap_of(e, shared[i]);
		if (cap && wanted[shared[i]] + sum_running(e, shared[i]) > cap)
			return false;
	}
	return true;
}

/* It is being computed elsewhere, for a pipeline that was killed. */
static bool goes_on(struct engine *e, size_t task)
{
	struct ongoing *o = ongoing_find(&e->ongoing, e->tasks[task].key);
	if (!o)
		return false;
	if (!e->tasks[task].had_twin)
		engine_tell(e, &(struct flow_news){ .kind = FLOW_NEWS_AWAITED,
						    .task = &e->flow->tasks[task],
						    .run = o->run });
	return o->is_awaited = true;
}

/* The same thing is not computed twice at once: whoever comes second uses what the first one makes, or is run after it if they have one checkpoint. */
static bool has_twin(struct engine *e, size_t task)
{
	const struct flow_task *t = &e->flow->tasks[task];
	const char *key = e->tasks[task].key;
	bool alone = t->analysis.checkpoint || engine_may_reuse(e, &e->flow->steps[t->step]);
	for (size_t i = 0; alone && key[0] && i < e->n_running; i++)
		if (str_eq(e->tasks[e->running[i]].key, key))
			return true;
	return alone && goes_on(e, task);
}

/* The first that can be started goes to the head of the queue; those it passes have a twin that runs, or goes on elsewhere. */
static bool find_next(struct engine *e)
{
	size_t *v = e->queued.v, at = e->queued.first;
	while (at < e->queued.n && has_twin(e, v[at]))
		e->tasks[v[at++]].had_twin = true;
	if (at == e->queued.n || !fits(e, v[at]))
		return false;
	size_t task = v[at];
	memmove(&v[e->queued.first + 1], &v[e->queued.first], (at - e->queued.first) * sizeof *v);
	v[e->queued.first] = task;
	return true;
}

static int start_next(struct engine *e, struct err *err)
{
	size_t task = e->queued.v[e->queued.first++];
	if (e->queued.first > e->flow->n_tasks) { /* room for attempts that come again */
		e->queued.n -= e->queued.first;
		memmove(e->queued.v, e->queued.v + e->queued.first,
			e->queued.n * sizeof *e->queued.v);
		e->queued.first = 0;
	}
	if (e->tasks[task].had_twin && engine_reuse(e, task))
		return 0;
	return engine_start(e, task, err);
}

bool engine_may_look(const struct engine *e)
{
	return !e->stopping && e->ready.first < e->ready.n &&
	       e->queued.n - e->queued.first < AHEAD_MAX + e->ongoing.n;
}

static void look_next(struct engine *e)
{
	if (!e->n_running)
		engine_look_ahead(e);
	if (!e->stopping)
		engine_look(e, e->ready.v[e->ready.first++]);
}

static bool is_found_next(const struct engine *e)
{
	return e->ready.first < e->ready.n && e->tasks[e->ready.v[e->ready.first]].is_found;
}

int engine_advance(struct engine *e, struct err *err)
{
	uint64_t until = clock_monotonic_ns() + LOOK_NS;
	int r = 0;
	for (;;) {
		bool starts = find_next(e);
		if (starts || !is_found_next(e)) /* of those, thousands in a row take no time */
			engine_hear_signals(e);
		if (r < 0 || e->stopping)
			return r;
		if (starts)
			r = start_next(e, err);
		else if (engine_may_look(e) && (!e->n_running || clock_monotonic_ns() < until))
			look_next(e);
		else
			return r;
	}
}

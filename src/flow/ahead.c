/* A pipeline that was run before: thousands of tasks, of which each takes a few looks at the disk to say that its result is there. They are
 * looked at on all cpus, each thread with a maker of keys and a reader of its own; a task is one thread's alone, and what it needs is done. */
#include <stdatomic.h>
#include <string.h>

#include "flow/engine_parts.h"
#include "runtime/parallel.h"
#include "spec/caller.h"

#define STREAK                                                                                     \
	64 /* results found one after the other before the rest is expected to be there too */
#define WORTH   256 /* fewer are not worth a thread */
#define PORTION 16  /* that a thread takes at once */

struct ahead {
	struct engine *e;
	const size_t *tasks; /* borrowed */
	size_t n;
	atomic_size_t next;
	atomic_bool stop;
};

/* Whatever is not plainly so is left to whoever looks at the task by itself. */
static void look(struct engine *e, size_t task, struct key_maker *keys,
		 struct finished_reader *reader)
{
	struct flow_task *t = &e->flow->tasks[task];
	struct task_state *s = &e->tasks[task];
	CLEANUP_FINISHED struct finished found = { 0 };
	char lost[200] = "";
	struct err unused = { 0 };
	if (!engine_may_reuse(e, &e->flow->steps[t->step]) ||
	    flow_link(e->flow, e->home, e->made, t, &unused) < 0 ||
	    key_make(keys, &t->analysis, &unused) < 0)
		return;
	const char *key = t->analysis.key.sha256;
	int r = finished_find(reader, key, &found, lost, sizeof lost, &unused);
	if (r == 0 && lost[0])
		s->lost = xstrdup(lost); /* the entry is gone by now */
	if (r <= 0)
		return;
	memcpy(s->key, key, sizeof s->key);
	engine_take_outputs(&e->made[task], &found);
	s->is_found = true;
	flow_unlink(t); /* not that of thousands at once: nothing of it is needed any more */
}

static void work(void *data)
{
	struct ahead *a = data;
	struct key_maker *keys = NULL;
	CLEANUP_FINISHED_READER struct finished_reader reader = FINISHED_READER_INIT;
	struct err unused = { 0 };
	if (key_maker_new(a->e->config, NULL, &keys, &unused) < 0)
		return;
	finished_reader_open(a->e->config, &reader);
	for (size_t at; !a->stop && (at = atomic_fetch_add(&a->next, PORTION)) < a->n;)
		for (size_t i = at; i < at + PORTION && i < a->n; i++)
			look(a->e, a->tasks[i], keys, &reader);
	key_maker_free(keys);
}

static void hear(void *data)
{
	struct ahead *a = data;
	engine_hear_signals(a->e);
	if (a->e->stopping)
		a->stop = true;
}

void engine_look_ahead(struct engine *e)
{
	size_t n = e->ready.n - e->ready.first;
	if (e->streak < STREAK || n < WORTH || e->tasks[e->ready.v[e->ready.first]].is_found ||
	    caller_is_other(e->config)) /* rights of others are taken by one thread only */
		return;
	struct ahead a = { .e = e, .tasks = e->ready.v + e->ready.first, .n = n };
	parallel_run(work, hear, &a);
	e->streak = 0; /* not before as many were found again by themselves */
}

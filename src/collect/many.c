/* A few tasks that share a counter. */
#include "collect/many.h"

#include <sched.h>

#include "base/task.h"

#define MANY_THREADS_MAX 32

static size_t cpus(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof set, &set) < 0 ? 1 : CPU_COUNT(&set);
	return n < 1 ? 1 : (size_t)n;
}

void many_run(struct many *m, size_t threads, void (*work)(void *many))
{
	struct task tasks[MANY_THREADS_MAX] = { 0 };
	size_t n = cpus();
	n = n > threads ? threads : n;
	n = n > m->n ? m->n : n;
	n = n > MANY_THREADS_MAX ? MANY_THREADS_MAX : n;
	for (size_t i = 1; i < n; i++)
		task_start(&tasks[i], work, m);
	work(m);
	for (size_t i = 1; i < n; i++)
		task_join(&tasks[i]);
}

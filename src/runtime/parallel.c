/* The same work on all cpus, while the caller's own thread tells of the progress. */
#include "runtime/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#define THREADS_MAX 64
#define TICK_NS     100000000L

struct parallel {
	void (*work)(void *data);
	void *data;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	size_t running;
};

static void *thread_main(void *argument)
{
	struct parallel *p = argument;

	p->work(p->data);
	(void)pthread_mutex_lock(&p->lock);
	p->running--;
	(void)pthread_cond_signal(&p->ended);
	(void)pthread_mutex_unlock(&p->lock);
	return NULL;
}

static size_t cpus(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) < 0 ? 1 : CPU_COUNT(&set);

	return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : (size_t)n;
}

static void wait_ticking(struct parallel *p, void (*tick)(void *data))
{
	(void)pthread_mutex_lock(&p->lock);
	while (p->running > 0) {
		struct timespec until = { 0 };
		(void)clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += TICK_NS;
		until.tv_sec += until.tv_nsec / 1000000000L;
		until.tv_nsec %= 1000000000L;
		(void)pthread_cond_clockwait(&p->ended, &p->lock, CLOCK_MONOTONIC, &until);
		if (p->running == 0)
			break;
		(void)pthread_mutex_unlock(&p->lock);
		tick(p->data);
		(void)pthread_mutex_lock(&p->lock);
	}
	(void)pthread_mutex_unlock(&p->lock);
}

void parallel_run(void (*work)(void *data), void (*tick)(void *data), void *data)
{
	struct parallel p = {
		.work = work,
		.data = data,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.ended = PTHREAD_COND_INITIALIZER,
	};
	pthread_t threads[THREADS_MAX];
	size_t n = 0, wanted = cpus();

	p.running = wanted;
	while (n < wanted && pthread_create(&threads[n], NULL, thread_main, &p) == 0)
		n++;
	(void)pthread_mutex_lock(&p.lock);
	p.running -= wanted - n;
	(void)pthread_mutex_unlock(&p.lock);
	if (n == 0)
		work(data); /* no thread to be had: slower, not wrong */
	else
		wait_ticking(&p, tick);
	for (size_t i = 0; i < n; i++)
		(void)pthread_join(threads[i], NULL);
	(void)pthread_cond_destroy(&p.ended);
	(void)pthread_mutex_destroy(&p.lock);
}

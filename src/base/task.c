#include "base/task.h"

/* A thread takes all of its stack's address space, but only what it touches of the memory. */
#define STACK_BYTES (512u * 1024)

static void *task_main(void *arg)
{
	struct task *t = arg;
	t->work(t->data);
	return NULL;
}

void task_start(struct task *t, void (*work)(void *data), void *data)
{
	pthread_attr_t attr;
	*t = (struct task){ .work = work, .data = data };
	if (pthread_attr_init(&attr) == 0) {
		t->running = pthread_attr_setstacksize(&attr, STACK_BYTES) == 0 &&
			     pthread_create(&t->thread, &attr, task_main, t) == 0;
		(void)pthread_attr_destroy(&attr);
	}
	if (!t->running)
		work(data);
}

void task_join(struct task *t)
{
	if (t->running)
		(void)pthread_join(t->thread, NULL);
	t->running = false;
}

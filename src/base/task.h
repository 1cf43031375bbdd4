/* One call carried out beside the caller, in a thread: for work that mostly waits for the disk. Where no thread can be had it is
 * carried out at once, by the caller. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

struct task {
	void (*work)(void *data);
	void *data;
	pthread_t thread;
	bool running;
};

void task_start(struct task *t, void (*work)(void *data), void *data);
/* Returns once the work is done; a task that was never started is done. */
void task_join(struct task *t);

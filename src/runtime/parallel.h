/* The same work on all cpus. */
#pragma once

/* Runs work(data) on one thread for each cpu that this process may use, and tick(data) ten times a second in the caller's own
 * thread. Returns when all have ended. */
void parallel_run(void (*work)(void *data), void (*tick)(void *data), void *data);

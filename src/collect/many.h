/* The same work for many things, on all cpus. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>

struct many {
	void *data; /* borrowed */
	size_t n;
	atomic_size_t next;
};

/* The next thing to do; n at the end. */
static inline size_t many_next(struct many *m)
{
	size_t at = atomic_fetch_add(&m->next, 1);
	return at < m->n ? at : m->n;
}

/* Calls `work` in `threads` threads at most, the caller's among them, never more than there are cpus or things; each takes
 * its things with many_next. Returns when all are done. */
void many_run(struct many *m, size_t threads, void (*work)(void *many));

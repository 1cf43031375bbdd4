/* A hash that is computed beside the copying: the bytes of one buffer while the next is read and written. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/hash.h"

struct beside {
	struct hash *hash; /* borrowed */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	const void *bytes; /* borrowed; NULL: it waits for more */
	size_t length;
	bool runs, over;
};

/* Where no thread can be had, the caller's own does it. */
void beside_start(struct beside *b, struct hash *hash);
/* Returns once the bytes before these are done with; these must stay until the next call. */
void beside_add(struct beside *b, const void *bytes, size_t length);
/* Returns when all are done. */
void beside_end(struct beside *b);

/* Outputs on their way into the run directory: opened and named one after the other by the walk, copied and hashed a batch at a time on
 * all cpus. Only the walk opens names that an analysis chose; the threads here see descriptors. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "collect/outputs.h"

#define BATCH_FILES_MAX 128 /* each holds two descriptors */
/* So many files are synced one by one; beyond, the walk asks for all at once. */
#define BATCH_SYNCED_MAX 64

struct batch_item {
	struct collected file; /* owned; sha256 is filled here */
	uint64_t *matched;     /* owned; a bit for each output pattern */
	int from_fd, to_fd;    /* owned */
	struct stat before;    /* of from_fd */
	bool synced;           /* it is to be durable before it counts */
	int result;            /* negative errno: the copy could not be written */
	const char *reason;    /* static; why it is refused, or NULL */
};

struct batch {
	struct batch_item items[BATCH_FILES_MAX];
	size_t n;
	uint64_t bytes;
};

void batch_item_release(struct batch_item *item);
/* Takes the contents of `item`. */
void batch_add(struct batch *b, struct batch_item *item);
/* Fills sha256, result and reason of each. */
void batch_copy(struct batch *b);
/* Empties it. */
void batch_clear(struct batch *b);

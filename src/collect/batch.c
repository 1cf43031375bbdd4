/* Copies of a batch: small files shared out among the cpus, a large one with its hash computed beside the copying. */
#include "collect/batch.h"

#include <errno.h>
#include <unistd.h>

#include "base/str.h"
#include "collect/copy.h"
#include "collect/many.h"

/* Below, a thread costs more than it saves. */
#define THREADS_FILES_MIN 8
#define THREADS_BYTES_MIN (8 << 20)

void batch_item_release(struct batch_item *item)
{
	free(item->file.path);
	free(item->file.media_type);
	free(item->matched);
	cleanup_fd(&item->from_fd);
	cleanup_fd(&item->to_fd);
	*item = (struct batch_item){ .from_fd = -1, .to_fd = -1 };
}

void batch_add(struct batch *b, struct batch_item *item)
{
	b->items[b->n++] = *item;
	b->bytes += item->file.size;
	*item = (struct batch_item){ .from_fd = -1, .to_fd = -1 };
}

static void item_copy(struct batch_item *item, struct hash *hash, char *buffer)
{
	struct copy copy = { item->from_fd, item->to_fd, &item->before, buffer };
	hash_restart(hash);
	item->result = copy_hashed(&copy, hash, &item->reason);
	if (item->result == 0 && !item->reason && item->synced && fsync(item->to_fd) < 0)
		item->result = -errno;
	hash_end(hash, item->file.sha256);
	cleanup_fd(&item->from_fd);
	cleanup_fd(&item->to_fd);
}

static void work(void *argument)
{
	struct many *m = argument;
	struct batch *b = m->data;
	CLEANUP_HASH struct hash *hash = hash_new();
	CLEANUP_FREE char *buffer = xmalloc(COPY_BUFFER_SIZE);
	for (size_t i; (i = many_next(m)) < m->n;)
		item_copy(&b->items[i], hash, buffer);
}

void batch_copy(struct batch *b)
{
	struct many m = { .data = b, .n = b->n };
	bool is_little = b->n < THREADS_FILES_MIN && b->bytes < THREADS_BYTES_MIN;
	if (b->n > 0)
		many_run(&m, is_little ? 1 : SIZE_MAX, work);
}

void batch_clear(struct batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		batch_item_release(&b->items[i]);
	b->n = 0;
	b->bytes = 0;
}

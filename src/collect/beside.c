/* One thread and room for one buffer. */
#include "collect/beside.h"

static void *hash_main(void *argument)
{
	struct beside *b = argument;
	(void)pthread_mutex_lock(&b->lock);
	for (;;) {
		while (!b->bytes && !b->over)
			(void)pthread_cond_wait(&b->changed, &b->lock);
		if (!b->bytes)
			break;
		const void *bytes = b->bytes;
		size_t length = b->length;
		(void)pthread_mutex_unlock(&b->lock);
		hash_add(b->hash, bytes, length);
		(void)pthread_mutex_lock(&b->lock);
		b->bytes = NULL;
		(void)pthread_cond_broadcast(&b->changed);
	}
	(void)pthread_mutex_unlock(&b->lock);
	return NULL;
}

void beside_start(struct beside *b, struct hash *hash)
{
	*b = (struct beside){ .hash = hash,
			      .lock = PTHREAD_MUTEX_INITIALIZER,
			      .changed = PTHREAD_COND_INITIALIZER };
	b->runs = pthread_create(&b->thread, NULL, hash_main, b) == 0;
}

void beside_add(struct beside *b, const void *bytes, size_t length)
{
	if (!b->runs) {
		hash_add(b->hash, bytes, length);
		return;
	}
	(void)pthread_mutex_lock(&b->lock);
	while (b->bytes)
		(void)pthread_cond_wait(&b->changed, &b->lock);
	b->bytes = bytes;
	b->length = length;
	(void)pthread_cond_broadcast(&b->changed);
	(void)pthread_mutex_unlock(&b->lock);
}

void beside_end(struct beside *b)
{
	if (!b->runs)
		return;
	(void)pthread_mutex_lock(&b->lock);
	b->over = true;
	(void)pthread_cond_broadcast(&b->changed);
	(void)pthread_mutex_unlock(&b->lock);
	(void)pthread_join(b->thread, NULL);
	b->runs = false;
}

/* Threads that read. A job belongs to the loop, then to one thread, then to the loop again; the lists are all that is shared. */
#include "serve/desk.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

#define DESK_THREADS 4

struct entry {
	struct desk_job job;
	bool is_done;
	struct entry *next;
};

struct entries {
	struct entry *first, **end;
};

struct desk {
	pthread_mutex_t mutex;
	pthread_cond_t more;
	struct entries waiting, finished; /* owned; under the mutex */
	bool is_closing;                  /* under the mutex */
	int done_fd;                      /* owned; eventfd */
	sd_event_source *source;          /* owned */
	pthread_t threads[DESK_THREADS];
	unsigned n_threads;
};

static void entries_init(struct entries *l)
{
	l->first = NULL;
	l->end = &l->first;
}

static void entries_add(struct entries *l, struct entry *e)
{
	e->next = NULL;
	*l->end = e;
	l->end = &e->next;
}

static struct entry *entries_take(struct entries *l)
{
	struct entry *e = l->first;
	if (e && !(l->first = e->next))
		l->end = &l->first;
	return e;
}

static void *work(void *data)
{
	struct desk *d = data;
	(void)pthread_mutex_lock(&d->mutex);
	for (;;) {
		while (!d->waiting.first && !d->is_closing)
			(void)pthread_cond_wait(&d->more, &d->mutex);
		if (d->is_closing)
			break;
		struct entry *e = entries_take(&d->waiting);
		(void)pthread_mutex_unlock(&d->mutex);
		e->job.work(e->job.data);
		e->is_done = true;
		(void)pthread_mutex_lock(&d->mutex);
		entries_add(&d->finished, e);
		(void)eventfd_write(d->done_fd, 1);
	}
	(void)pthread_mutex_unlock(&d->mutex);
	return NULL;
}

static void hand_back(struct desk *d, struct entries *list)
{
	(void)pthread_mutex_lock(&d->mutex);
	struct entry *e = list->first;
	entries_init(list);
	(void)pthread_mutex_unlock(&d->mutex);
	while (e) {
		struct entry *next = e->next;
		e->job.done(e->job.data, e->is_done);
		free(e);
		e = next;
	}
}

static int on_done(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct desk *d = data;
	eventfd_t count = 0;
	(void)eventfd_read(fd, &count);
	hand_back(d, &d->finished);
	return 0;
}

/* Signals are the loop's. */
static int start_threads(struct desk *d)
{
	sigset_t all, before;
	sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = 0;
	for (; r == 0 && d->n_threads < DESK_THREADS; d->n_threads += r == 0)
		r = pthread_create(&d->threads[d->n_threads], NULL, work, d);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return d->n_threads ? 0 : -r;
}

int desk_open(sd_event *event, struct desk **ret, struct err *err)
{
	__attribute__((cleanup(desk_freep))) struct desk *d = xcalloc(1, sizeof *d);
	(void)pthread_mutex_init(&d->mutex, NULL);
	(void)pthread_cond_init(&d->more, NULL);
	entries_init(&d->waiting);
	entries_init(&d->finished);
	d->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d->done_fd < 0)
		return err_errno(err, "make an eventfd");
	int r = sd_event_add_io(event, &d->source, d->done_fd, EPOLLIN, on_done, d);
	if (r >= 0)
		r = start_threads(d);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "start the threads that read: %s",
			       strerrordesc_np(-r));
	*ret = take_ptr(d);
	return 0;
}

void desk_free(struct desk *d)
{
	if (!d)
		return;
	(void)pthread_mutex_lock(&d->mutex);
	d->is_closing = true;
	(void)pthread_cond_broadcast(&d->more);
	(void)pthread_mutex_unlock(&d->mutex);
	for (unsigned i = 0; i < d->n_threads; i++)
		(void)pthread_join(d->threads[i], NULL);
	hand_back(d, &d->finished);
	hand_back(d, &d->waiting);
	sd_event_source_freep(&d->source);
	cleanup_fd(&d->done_fd);
	(void)pthread_cond_destroy(&d->more);
	(void)pthread_mutex_destroy(&d->mutex);
	free(d);
}

void desk_give(struct desk *d, const struct desk_job *job)
{
	struct entry *e = xcalloc(1, sizeof *e);
	e->job = *job;
	(void)pthread_mutex_lock(&d->mutex);
	entries_add(&d->waiting, e);
	(void)pthread_cond_signal(&d->more);
	(void)pthread_mutex_unlock(&d->mutex);
}

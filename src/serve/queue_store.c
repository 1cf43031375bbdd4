#include "serve/queue_store.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "ledger/backend.h"
#include "serve/store_jobs.h"

#define BATCH_MAX 1000

struct rows {
	struct store_row *v; /* owned */
	size_t n;
	uint64_t last;
	bool is_there;
};

struct store {
	const struct config *config; /* borrowed */
	struct store_events events;
	sd_event_source *source;
	pthread_t thread;
	bool has_thread;
	int told_fd; /* owned; eventfd: something is done */
	/* The lock is held for moments only: never while the database works. */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct jobs asked, done;
	bool is_stopping;
	struct rows rows;     /* what was read, until it is passed on */
	char away_text[1000]; /* "": it is there */
	/* Of the loop's thread. */
	size_t n_open; /* handed over, and not heard of again */
	char trouble[1000];
	/* Of the other thread. */
	struct ledger *ledger; /* owned */
	char home[SUBMISSIONS_HOME];
	bool has_read;
};

static void tell(struct store *s)
{
	const uint64_t one = 1;
	(void)!write(s->told_fd, &one, sizeof one);
}

static void finish(struct store *s, struct job *job)
{
	(void)pthread_mutex_lock(&s->lock);
	jobs_add(&s->done, job);
	(void)pthread_mutex_unlock(&s->lock);
}

/* "": it is there. */
static void set_away(struct store *s, const char *why)
{
	(void)pthread_mutex_lock(&s->lock);
	(void)snprintf(s->away_text, sizeof s->away_text, "%s", why);
	(void)pthread_mutex_unlock(&s->lock);
}

static int take_row(void *data, const char *const values[SUBMISSION_COLUMNS_], struct err *err)
{
	struct rows *rows = data;
	rows->v = xreallocarray(rows->v, rows->n + 1, sizeof *rows->v);
	for (size_t i = 0; i < SUBMISSION_COLUMNS_; i++)
		rows->v[rows->n].v[i] = values[i] ? xstrdup(values[i]) : NULL;
	rows->n++;
	return 0;
}

static void rows_release(struct rows *rows)
{
	for (size_t i = 0; i < rows->n; i++)
		store_row_release(&rows->v[i]);
	free(rows->v);
	*rows = (struct rows){ 0 };
}

static int read_all(struct store *s, struct err *err)
{
	CLEANUP(rows_release) struct rows rows = { 0 };
	if (s->has_read)
		return 0;
	int r = submissions_open(s->ledger, s->home, take_row, &rows, err);
	if (r >= 0)
		r = submissions_last(s->ledger, s->home, &rows.last, err);
	if (r < 0)
		return r;
	s->has_read = rows.is_there = true;
	(void)pthread_mutex_lock(&s->lock);
	rows_release(&s->rows);
	s->rows = rows;
	(void)pthread_mutex_unlock(&s->lock);
	rows = (struct rows){ 0 };
	return 0;
}

static int reach(struct store *s, struct err *err)
{
	int r = s->ledger ? 0 : ledger_open(s->config, &s->ledger, err);
	if (r >= 0 && !s->home[0])
		r = submissions_home(s->ledger, s->config, s->home, err);
	return r < 0 ? r : read_all(s, err);
}

static int write_one(struct store *s, struct job *job, struct err *err)
{
	const char *const *values = (const char *const *)job->row.v;
	if (job->kind == JOB_CHANGE)
		return submissions_change(s->ledger, s->home, values, &job->row.ran, err);
	job->what = (struct store_entered){ 0 };
	job->what.result = (job->kind == JOB_FIND ? submissions_find : submissions_enter)(
		s->ledger, s->home, values, &job->what.found, &job->what.err);
	if (job->what.result < 0)
		*err = job->what.err;
	return job->what.result;
}

static int write_some(struct store *s, struct job *first, size_t n, struct err *err)
{
	CLEANUP_TRANSACTION struct transaction t = { 0 };
	int r = transaction_begin(&t, s->ledger, LEDGER_SHARED, err);
	for (struct job *job = first; r >= 0 && n > 0; job = job->next, n--)
		r = write_one(s, job, err);
	FAULT_PHASE("serve-written");
	if (r >= 0)
		r = transaction_commit(&t, err);
	FAULT_PHASE("serve-committed");
	return r;
}

static void fail_entry(struct store *s, struct job *job, int r, const struct err *why)
{
	job->what.result = r;
	job->what.err = *why;
	finish(s, job);
}

/* What this database takes from nobody holds up nobody else. */
static int write_singly(struct store *s, struct jobs *list, size_t n, struct err *err)
{
	while (n-- > 0) {
		struct err why = { 0 };
		int r = write_some(s, list->first, 1, &why);
		if (r < 0 && r != -EINVAL) {
			*err = why;
			return r;
		}
		struct job *job = jobs_take(list);
		if (r < 0 && job->kind == JOB_CHANGE)
			log_error("submission=%s can't be written: %s", job->row.v[SUBMISSION_ID],
				  why.text);
		if (r < 0)
			fail_entry(s, job, r, &why);
		else
			finish(s, job);
	}
	return 0;
}

static int write_batch(struct store *s, struct jobs *list, struct err *err)
{
	size_t n = 0;
	for (const struct job *job = list->first; job && n < BATCH_MAX; job = job->next)
		n++;
	int r = write_some(s, list->first, n, err);
	if (r == -EINVAL)
		return write_singly(s, list, n, err);
	for (; r >= 0 && n > 0; n--)
		finish(s, jobs_take(list));
	return r;
}

/* Whoever waits for a change is not kept; the change is. */
static void delay(struct store *s, struct job *job, int r, const struct err *why)
{
	struct job *told = xcalloc(1, sizeof *told);
	told->kind = JOB_DELAYED;
	told->tag = job->tag;
	job->tag = NULL;
	fail_entry(s, told, r, why);
}

/* Entries are answered now; changes stay, in their order. */
static void give_up(struct store *s, struct jobs *list, int r, const struct err *why)
{
	struct jobs kept = { 0 };
	for (struct job *job; (job = jobs_take(list));) {
		if (job->kind == JOB_CHANGE) {
			if (job->tag)
				delay(s, job, r, why);
			jobs_add(&kept, job);
			continue;
		}
		fail_entry(s, job, r, why);
		s->has_read = false; /* a commit that nobody answered may have been one */
	}
	*list = kept;
	ledger_closep(&s->ledger);
}

/* What is new goes behind what is kept. False once there is nothing left to do and never will be. */
static bool wait_for_work(struct store *s, struct jobs *list, bool is_away)
{
	struct timespec until = { 0 };
	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec++;
	(void)pthread_mutex_lock(&s->lock);
	while (!s->asked.first && !s->is_stopping) {
		if (!is_away)
			(void)pthread_cond_wait(&s->wake, &s->lock);
		else if (pthread_cond_timedwait(&s->wake, &s->lock, &until) == ETIMEDOUT)
			break;
	}
	for (struct job *job; (job = jobs_take(&s->asked));)
		jobs_add(list, job);
	bool goes_on = !s->is_stopping || (list->first && !is_away);
	(void)pthread_mutex_unlock(&s->lock);
	return goes_on;
}

static void *work(void *data)
{
	struct store *s = data;
	struct jobs list = { 0 };
	bool is_away = false;
	do {
		struct err err = { 0 };
		int r = reach(s, &err);
		while (r >= 0 && list.first)
			r = write_batch(s, &list, &err);
		if (r < 0)
			give_up(s, &list, r, &err);
		is_away = r < 0;
		set_away(s, is_away ? err.text : "");
		tell(s);
	} while (wait_for_work(s, &list, is_away));
	jobs_release(&list);
	ledger_closep(&s->ledger);
	return NULL;
}

static void pass_on(struct store *s)
{
	(void)pthread_mutex_lock(&s->lock);
	CLEANUP(rows_release) struct rows rows = s->rows;
	s->rows = (struct rows){ 0 };
	(void)pthread_mutex_unlock(&s->lock);
	if (rows.is_there)
		s->events.loaded(s->events.data, rows.v, rows.n, rows.last);
}

static int on_told(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct store *s = data;
	uint64_t count = 0;
	(void)!read(fd, &count, sizeof count);
	(void)pthread_mutex_lock(&s->lock);
	struct jobs done = s->done;
	s->done = (struct jobs){ 0 };
	(void)snprintf(s->trouble, sizeof s->trouble, "%s", s->away_text);
	(void)pthread_mutex_unlock(&s->lock);
	pass_on(s);
	for (struct job *job; (job = jobs_take(&done));) {
		s->n_open -= job->kind != JOB_DELAYED;
		if (job->kind == JOB_ENTER || job->kind == JOB_FIND)
			s->events.entered(s->events.data, job->tag, &job->what);
		else if (job->tag)
			s->events.settled(s->events.data, job->tag, job->what.result,
					  &job->what.err);
		store_row_release(&job->row);
		free(job);
	}
	s->events.turned(s->events.data);
	return 0;
}

static int start_thread(struct store *s)
{
	sigset_t all, old;
	sigfillset(&all); /* signals are the loop's */
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	int r = pthread_create(&s->thread, NULL, work, s);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	s->has_thread = r == 0;
	return -r;
}

int store_open(sd_event *event, const struct config *config, const struct store_events *events,
	       struct store **ret, struct err *err)
{
	__attribute__((cleanup(store_freep))) struct store *s = xcalloc(1, sizeof *s);
	pthread_condattr_t clock;
	s->config = config;
	s->events = *events;
	(void)pthread_mutex_init(&s->lock, NULL);
	(void)pthread_condattr_init(&clock);
	(void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&s->wake, &clock);
	(void)pthread_condattr_destroy(&clock);
	s->told_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->told_fd < 0)
		return err_errno(err, "make an event");
	int r = sd_event_add_io(event, &s->source, s->told_fd, EPOLLIN, on_told, s);
	if (r >= 0)
		r = start_thread(s);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "start the thread of the ledger: %s",
			       strerrordesc_np(-r));
	*ret = take_ptr(s);
	return 0;
}

void store_free(struct store *s)
{
	if (!s)
		return;
	(void)pthread_mutex_lock(&s->lock);
	s->is_stopping = true;
	(void)pthread_cond_signal(&s->wake);
	(void)pthread_mutex_unlock(&s->lock);
	if (s->has_thread)
		(void)pthread_join(s->thread, NULL);
	sd_event_source_freep(&s->source);
	cleanup_fd(&s->told_fd);
	jobs_release(&s->asked);
	jobs_release(&s->done);
	rows_release(&s->rows);
	(void)pthread_cond_destroy(&s->wake);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
}

static void ask(struct store *s, enum job_kind kind, struct store_row *row, void *tag)
{
	struct job *job = xcalloc(1, sizeof *job);
	job->kind = kind;
	job->row = *row;
	job->tag = tag;
	*row = (struct store_row){ 0 };
	s->n_open++;
	(void)pthread_mutex_lock(&s->lock);
	jobs_add(&s->asked, job);
	(void)pthread_cond_signal(&s->wake);
	(void)pthread_mutex_unlock(&s->lock);
}

void store_enter(struct store *s, struct store_row *row, void *tag)
{
	ask(s, JOB_ENTER, row, tag);
}

void store_find(struct store *s, struct store_row *row, void *tag)
{
	ask(s, JOB_FIND, row, tag);
}

void store_change(struct store *s, struct store_row *row)
{
	ask(s, JOB_CHANGE, row, NULL);
}

void store_settle(struct store *s, struct store_row *row, void *tag)
{
	ask(s, JOB_CHANGE, row, tag);
}

bool store_is_idle(const struct store *s)
{
	return s->n_open == 0;
}

const char *store_trouble(const struct store *s)
{
	return s->trouble[0] ? s->trouble : NULL;
}

/* The service between its doors and its runs: what comes in is entered, what fits is started, what is over is written. */
#include "serve/service.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "serve/service_parts.h"
#include "serve/starter.h"

#define DELIVER_USEC 500000
#define AGAIN_USEC   50000
#define LOOK_USEC                                                                                  \
	60000000ULL /* clocks may be set: what is to begin at a time is looked for as often */
#define DRAIN_USEC                                                                                 \
	10000000ULL /* a database that is away does not keep us: what is not written is found again */

const char *service_submitter(const struct service *s, const struct submission *sub)
{
	return s->queue.submitter_names[sub->job.submitter];
}

void service_poke(struct service *s)
{
	(void)sd_event_source_set_enabled(s->pass, SD_EVENT_ONESHOT);
}

void service_tell(struct service *s, const struct service_change *change)
{
	for (size_t i = 0; i < s->n_watchers; i++)
		s->watchers[i].news(s->watchers[i].data, change);
}

struct service_use *service_counts(struct service *s, const struct submission *sub)
{
	return &s->queue.loads[sub->job.submitter].counts;
}

void service_note(struct service *s, const struct submission *sub, const struct submission_end *end)
{
	CLEANUP_STORE_ROW struct store_row row = { 0 };
	submission_row(sub, service_submitter(s, sub), end, &row);
	store_change(s->store, &row);
}

static int on_deliver(sd_event_source *source, uint64_t usec, void *data)
{
	struct service *s = data;
	struct err err = { 0 };
	int fd = starter_ask(s->starter_fd, STARTER_DELIVER, NULL, &err);
	cleanup_fd(&fd); /* the next command delivers it, if this one did not */
	return 0;
}

void service_check_drained(struct service *s)
{
	if (!s->is_draining || !s->drained || !store_is_idle(s->store) || s->queue.entering.n ||
	    (s->waits_for_runs && s->queue.running.n))
		return;
	void (*drained)(void *data) = s->drained;
	s->drained = NULL;
	(void)on_deliver(NULL, 0, s);
	drained(s->drained_data);
}

/* It has been written, or is about to be. */
static void forget(struct service *s, struct submission *sub, const char *state, const char *cause)
{
	const char *submitter = service_submitter(s, sub); /* these are never forgotten */
	if (str_eq(state, "refused"))
		service_counts(s, sub)->refused++;
	else
		service_counts(s, sub)->ended++;
	char id[ID_MAX + 1];
	(void)snprintf(id, sizeof id, "%s", submission_shown(sub));
	submission_drop_secrets(s->config, sub);
	queue_drop(&s->queue, sub, clock_monotonic_ns());
	service_tell(s,
		     &(struct service_change){ .id = id,
					       .state = "ended",
					       .cause = cause,
					       .submitter = submitter,
					       .what = state }); /* whoever hears it finds it so */
	(void)sd_event_source_set_time_relative(s->deliver, DELIVER_USEC);
	(void)sd_event_source_set_enabled(s->deliver, SD_EVENT_ONESHOT);
	service_poke(s);
	service_check_drained(s);
}

void service_over(struct service *s, struct submission *sub, const char *state, const char *cause,
		  const char *note)
{
	const struct submission_end end = {
		.state = state, .cause = cause, .note = note, .ended_real_ns = clock_real_ns()
	};
	service_note(s, sub, &end);
	forget(s, sub, state, cause);
}

void service_withdraw(struct service *s, struct submission *sub, void *tag)
{
	CLEANUP_STORE_ROW struct store_row row = { 0 };
	const struct submission_end end = { .state = "cancelled",
					    .cause = "cancelled",
					    .ended_real_ns = clock_real_ns() };
	submission_row(sub, service_submitter(s, sub), &end, &row);
	store_settle(s->store, &row, tag);
	forget(s, sub, "cancelled", "cancelled");
}

static void set_timer(struct service *s, uint64_t usec)
{
	(void)sd_event_source_set_time_relative(s->timer, usec);
	(void)sd_event_source_set_enabled(s->timer, SD_EVENT_ONESHOT);
}

static void wait_for_time(struct service *s)
{
	uint64_t now = clock_real_ns(), usec = LOOK_USEC;
	bool is_waiting = false;
	for (size_t i = 0; i < s->queue.waiting.n; i++) {
		uint64_t at = s->queue.waiting.v[i]->job.not_before_ns;
		if (at <= now)
			continue;
		is_waiting = true;
		if ((at - now) / 1000 + 1000 < usec)
			usec = (at - now) / 1000 + 1000;
	}
	if (is_waiting)
		set_timer(s, usec);
}

static void start_some(struct service *s, struct submission *const *subs, const size_t *starts,
		       size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct err err = { 0 };
		struct submission *sub = subs[starts[i]];
		int r = follow_start(s, sub, &err);
		if (r >= 0)
			continue;
		if (r != -EAGAIN)
			log_error("run=%s can't be started yet: %s", sub->run, err.text);
		set_timer(s, AGAIN_USEC);
		return;
	}
}

static int on_pass(sd_event_source *source, void *data)
{
	struct service *s = data;
	struct queue *q = &s->queue;
	size_t n = q->waiting.n;
	if (!s->is_loaded || n == 0)
		return 0;
	CLEANUP_FREE struct submission **subs = xcalloc(n, sizeof *subs);
	CLEANUP_FREE struct schedule_job **jobs = xcalloc(n, sizeof *jobs);
	CLEANUP_FREE size_t *starts = xcalloc(n, sizeof *starts);
	memcpy(subs, q->waiting.v, n * sizeof *subs);
	for (size_t i = 0; i < n; i++)
		jobs[i] = &subs[i]->job;
	struct schedule schedule = {
		.jobs = jobs,
		.n_jobs = n,
		.submitters = q->submitters,
		.quests = q->quests,
		.n_submitters = q->n_submitters,
		.n_quests = q->n_quests,
		.running = q->running.n,
		.max_running = s->config->service.max_running,
		.max_each = s->config->service.max_running_per_submitter,
		.now_ns = clock_monotonic_ns(),
		.now_real_ns = clock_real_ns(),
		.is_draining = s->is_draining,
	};
	memcpy(schedule.used, q->used, sizeof schedule.used);
	memcpy(schedule.cap, s->cap, sizeof schedule.cap);
	wait_for_time(s);
	start_some(s, subs, starts, schedule_pass(&schedule, starts));
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *data)
{
	service_poke(data);
	return 0;
}

static void take_row(struct service *s, const struct store_row *row)
{
	struct submission *sub = NULL;
	struct err err = { 0 };
	if (submission_from_row(s->config, s->cap, row, &sub, &err) < 0) {
		log_error("%s", err.text);
		return;
	}
	size_t submitter = queue_submitter(&s->queue, s->config, row->v[SUBMISSION_SUBMITTER]);
	sub->service = s;
	queue_add(&s->queue, sub, submitter, clock_monotonic_ns());
	queue_wait(&s->queue, sub);
	if (adopt_look(s, sub))
		return;
	if (sub->is_cancelled)
		service_over(s, sub, "cancelled", "cancelled", NULL);
	else if (str_eq(row->v[SUBMISSION_STATE], "running"))
		service_note(s, sub, &(struct submission_end){ .state = "queued" });
}

static void on_loaded(void *data, const struct store_row *rows, size_t n, uint64_t last)
{
	struct service *s = data;
	s->last_n = last > s->last_n ? last : s->last_n;
	for (size_t i = 0; i < n; i++)
		if (!s->is_loaded || strv_has(&s->doubtful, rows[i].v[SUBMISSION_ID]))
			take_row(s, &rows[i]);
	strv_release(&s->doubtful);
	submission_sweep_secrets(s->config, &s->queue);
	s->is_loaded = true;
	service_poke(s);
}

static void on_turned(void *data)
{
	service_check_drained(data);
}

static int on_drain_limit(sd_event_source *source, uint64_t usec, void *data)
{
	struct service *s = data;
	if (s->waits_for_runs || !s->drained)
		return 0;
	log_warning(
		"the ledger can't be reached: what has changed is found again by the next service");
	void (*drained)(void *data) = s->drained;
	s->drained = NULL;
	drained(s->drained_data);
	return 0;
}

void service_drain(struct service *s, bool wait, void (*done)(void *data), void *data)
{
	s->is_draining = true;
	s->waits_for_runs = wait;
	s->drained = done;
	s->drained_data = data;
	(void)sd_event_add_time_relative(s->event, &s->drain_limit, CLOCK_MONOTONIC, DRAIN_USEC, 0,
					 on_drain_limit, s);
	service_poke(s);
	service_check_drained(s);
}

bool service_is_draining(const struct service *s)
{
	return s->is_draining;
}

/* What an administrator said holds; else the host's, less what the host itself needs. */
static void set_caps(struct service *s)
{
	static const enum limit_id ids[] = { LIMIT_MEMORY, LIMIT_CPUS, LIMIT_PIDS };
	const struct limits *said = &s->config->aggregate;
	struct sysinfo info = { 0 };
	for (int i = 0; i < SCHEDULE_RESOURCES_; i++)
		s->cap[i] = said->at[ids[i]].value;
	if (str_eq(said->at[LIMIT_MEMORY].origin, "built-in") && sysinfo(&info) == 0)
		s->cap[SCHEDULE_MEMORY] = info.totalram * info.mem_unit / 10 * 8;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (str_eq(said->at[LIMIT_CPUS].origin, "built-in") && cpus > 0)
		s->cap[SCHEDULE_CPUS] = (uint64_t)cpus * 1000;
}

/* Without it nothing can be started: a new service can, and loses nothing. */
static int on_starter_gone(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct service *s = data;
	log_error("the starter is gone; the service ends, and what runs goes on");
	return sd_event_exit(s->event, -ECHILD);
}

static int add_sources(struct service *s)
{
	int r = sd_event_add_io(s->event, &s->starter_gone, s->starter_fd, EPOLLHUP,
				on_starter_gone, s);
	if (r >= 0)
		r = sd_event_add_defer(s->event, &s->pass, on_pass, s);
	if (r >= 0)
		r = sd_event_source_set_priority(s->pass, SD_EVENT_PRIORITY_NORMAL + 10);
	if (r >= 0)
		r = sd_event_add_time_relative(s->event, &s->timer, CLOCK_MONOTONIC, 0, 0, on_timer,
					       s);
	if (r >= 0)
		r = sd_event_add_time_relative(s->event, &s->deliver, CLOCK_MONOTONIC, 0, 0,
					       on_deliver, s);
	return r < 0 ? r : checks_open(s);
}

int service_open(sd_event *event, const struct config *config, int starter_fd, struct service **ret,
		 struct err *err)
{
	__attribute__((cleanup(service_freep))) struct service *s = xcalloc(1, sizeof *s);
	const struct store_events events = {
		.data = s,
		.loaded = on_loaded,
		.entered = door_entered,
		.settled = door_settled,
		.turned = on_turned,
	};
	s->event = event;
	s->config = config;
	s->starter_fd = starter_fd;
	s->checking_fd = -1;
	set_caps(s);
	int r = add_sources(s);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "wait for events: %s", strerrordesc_np(-r));
	r = store_open(event, config, &events, &s->store, err);
	if (r >= 0)
		*ret = take_ptr(s);
	return r;
}

void service_free(struct service *s)
{
	if (!s)
		return;
	store_freep(&s->store);
	checks_close(s);
	queue_release(&s->queue);
	sd_event_source_freep(&s->starter_gone);
	sd_event_source_freep(&s->pass);
	sd_event_source_freep(&s->timer);
	sd_event_source_freep(&s->deliver);
	sd_event_source_freep(&s->drain_limit);
	cleanup_fd(&s->starter_fd);
	for (struct copying *next; s->copying; s->copying = next) {
		next = s->copying->next;
		copying_free(s->copying);
	}
	for (struct cancelling *next; s->cancelling; s->cancelling = next) {
		next = s->cancelling->next;
		free(s->cancelling);
	}
	free(s->watchers);
	json_decref(s->rows.value);
	json_decref(s->waiting.value);
	strv_release(&s->doubtful);
	free(s);
}

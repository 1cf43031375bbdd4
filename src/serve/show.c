/* What waits and runs, for the doors. */
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "serve/service_parts.h"
#include "spec/limits.h"

#define SLOW_NS (5 * NS_PER_MS)

static json_t *text_or_null(const char *text)
{
	return text ? json_text(text) : json_null();
}

static json_t *time_or_null(uint64_t real_ns)
{
	char text[40];
	return real_ns ? json_string(clock_write(real_ns, text, sizeof text)) : json_null();
}

#define SHORT 6 /* bytes that are written as somebody would: 500M; longer ones are rounded */

/* An amount with its unit, "1 cpu", "500M of memory". */
static char *amount_text(int resource, uint64_t value)
{
	char text[64];
	bool is_one = value == (resource == SCHEDULE_CPUS ? 1000 : 1);
	switch (resource) {
	case SCHEDULE_CPUS:
		return xasprintf("%s %s", num_write_cpus(value, text, sizeof text),
				 is_one ? "cpu" : "cpus");
	case SCHEDULE_PIDS:
		return xasprintf("%llu %s", (unsigned long long)value,
				 is_one ? "process" : "processes");
	default:
		limit_write(LIMIT_MEMORY, value, text, sizeof text);
		if (strlen(text) > SHORT)
			num_print_size(value, text, sizeof text);
		return xstrdup(text);
	}
}

static char *resource_text(const struct service *s, const struct submission *sub, int resource)
{
	uint64_t used = s->queue.used[resource], most = s->cap[resource];
	uint64_t left = used < most ? most - used : 0;
	bool is_memory = resource == SCHEDULE_MEMORY;
	bool is_many = !is_memory && left > (resource == SCHEDULE_CPUS ? 1000 : 1);
	CLEANUP_FREE char *need = amount_text(resource, sub->job.need[resource]);
	CLEANUP_FREE char *cap = amount_text(resource, most);
	CLEANUP_FREE char *free_now = amount_text(resource, left);
	if (!is_memory)
		free_now[strcspn(free_now, " ")] = '\0'; /* the unit follows */
	return xasprintf("needs %s%s; %s of %s %s free", need, is_memory ? " of memory" : "",
			 left        ? free_now
			 : is_memory ? "nothing"
				     : "none",
			 cap, is_many ? "are" : "is");
}

static char *reason_text(const struct service *s, const struct submission *sub)
{
	char time[40];
	switch (sub->job.reason) {
	case SCHEDULE_NO_MEMORY:
		return resource_text(s, sub, SCHEDULE_MEMORY);
	case SCHEDULE_NO_CPUS:
		return resource_text(s, sub, SCHEDULE_CPUS);
	case SCHEDULE_NO_PIDS:
		return resource_text(s, sub, SCHEDULE_PIDS);
	case SCHEDULE_NO_JOBS:
		return s->queue.running.n == 1
			       ? xstrdup("1 run goes on, which is as many as may")
			       : xasprintf("%zu runs go on, which is as many as may",
					   s->queue.running.n);
	case SCHEDULE_SUBMITTER_CAP:
		return xasprintf(
			"%s has %llu running, which is as many as one may",
			service_submitter(s, sub),
			(unsigned long long)s->queue.submitters[sub->job.submitter].running);
	case SCHEDULE_SHARE:
		return xstrdup("would fit; one ahead of it has waited for long and comes first");
	case SCHEDULE_NOT_BEFORE:
		return xasprintf("is not to begin before %s",
				 clock_write(sub->job.not_before_ns, time, sizeof time));
	case SCHEDULE_DRAINING:
		return xstrdup("the service is about to end; the next one starts it");
	default:
		return xstrdup("is about to start");
	}
}

static json_t *pending_json(const struct service *s, const struct submission *sub)
{
	CLEANUP_FREE char *why = reason_text(s, sub);
	/* A run that is not due has no place in the queue yet. */
	bool is_due = sub->job.reason != SCHEDULE_NOT_BEFORE;
	size_t ahead = is_due ? sub->job.position : 0;
	CLEANUP_FREE char *text =
		ahead ? xasprintf("%s; %zu %s ahead of it", why, ahead, ahead == 1 ? "is" : "are")
		      : xstrdup(why);
	return json_pack("{s:s,s:o,s:o}", "reason", schedule_reason_name(sub->job.reason), "text",
			 json_text(text), "position",
			 is_due ? json_integer((json_int_t)ahead) : json_null());
}

static json_t *spark_json(const struct submission *sub)
{
	json_t *list = json_array();
	for (size_t i = 0; i < sub->n_spark; i++) {
		int thousandths = sub->spark[i] * 1000 / 255;
		json_array_append_new(list, json_real(thousandths / 1000.0));
	}
	return list;
}

static json_t *attempts_json(const struct submission *sub)
{
	json_t *list = json_array();
	if (sub->attempt > 1) /* never of a pipeline */
		json_array_append_new(list, json_string(sub->id));
	for (unsigned i = 2; i < sub->attempt; i++) {
		CLEANUP_FREE char *id = xasprintf("%s.%u", sub->id, i);
		json_array_append_new(list, json_string(id));
	}
	json_array_append_new(list, json_string(sub->run));
	return list;
}

/* What it runs in; as long as it waits, what was asked for. Where there is nothing to name, why. */
static void add_runtime(const struct submission *sub, json_t *o)
{
	bool is_running = sub->state == SUBMISSION_RUNNING;
	const char *name = is_running && sub->chosen ? sub->chosen : sub->runtime;
	const char *why = name                                    ? NULL
			  : sub->kind == SUBMISSION_PIPELINE_KIND ? "each step has its own"
			  : is_running                            ? "it is being chosen"
				       : "it is chosen when the run starts";
	json_object_set_new(o, "runtime", text_or_null(name));
	json_object_set_new(o, "runtime_why", text_or_null(why));
}

static void add_common(const struct service *s, const struct submission *sub, json_t *o)
{
	bool is_waiting = sub->state == SUBMISSION_WAITING;
	json_object_set_new(o, "state", json_string(is_waiting ? "queued" : "running"));
	json_object_set_new(o, "submitter", json_text(service_submitter(s, sub)));
	json_object_set_new(o, "priority", json_integer(sub->job.priority));
	json_object_set_new(o, "submitted", time_or_null(sub->submitted_real_ns));
	json_object_set_new(o, "attempt", json_integer(sub->attempt));
	json_object_set_new(o, "pending", is_waiting ? pending_json(s, sub) : json_null());
	json_object_set_new(o, "spark", is_waiting ? json_null() : spark_json(sub));
	json_object_set_new(o, "kind",
			    json_string(sub->kind == SUBMISSION_RUN_KIND ? "run" : "pipeline"));
}

json_t *service_run(const struct service *s, const char *id)
{
	const struct submission *sub = queue_find_shown(&s->queue, id);
	if (!sub || sub->state == SUBMISSION_ENTERING)
		return NULL;
	json_t *o = json_object();
	add_common(s, sub, o);
	json_object_set_new(o, "attempts", attempts_json(sub));
	json_object_set_new(o, "run", json_string(sub->run));
	json_object_set_new(o, "not_before", time_or_null(sub->job.not_before_ns));
	json_object_set_new(o, "name", text_or_null(sub->name));
	json_object_set_new(o, "quest", text_or_null(sub->quest));
	add_runtime(sub, o);
	json_object_set_new(o, "analysis", json_loads(sub->analysis, 0, NULL));
	return o;
}

static json_t *row_json(const struct service *s, const struct submission *sub)
{
	bool is_running = sub->state == SUBMISSION_RUNNING;
	uint64_t now = clock_real_ns(), from = sub->started_real_ns;
	json_t *o = json_pack("{s:s,s:n,s:o,s:o,s:o,s:n,s:n}", "id", submission_shown(sub), "cause",
			      "name", text_or_null(sub->name), "quest", text_or_null(sub->quest),
			      "started", time_or_null(from), "ended", "exit_status");
	add_runtime(sub, o);
	json_object_set_new(o, "wall_usec",
			    is_running && from && now > from ? json_u64((now - from) / 1000)
							     : json_null());
	json_object_set_new(o, "cpu_usec", is_running ? json_u64(sub->cpu_usec) : json_null());
	json_object_set_new(o, "memory_peak_bytes",
			    is_running ? json_u64(sub->memory_bytes) : json_null());
	json_object_set_new(o, "memory_limit_bytes", json_u64(sub->memory_limit_bytes));
	add_common(s, sub, o);
	return o;
}

static int by_position(const void *a, const void *b)
{
	const struct submission *one = *(struct submission *const *)a;
	const struct submission *other = *(struct submission *const *)b;
	return one->job.position < other->job.position ? -1
						       : one->job.position > other->job.position;
}

static int by_start(const void *a, const void *b)
{
	const struct submission *one = *(struct submission *const *)a;
	const struct submission *other = *(struct submission *const *)b;
	uint64_t left = one->started_real_ns, right = other->started_real_ns;
	return left < right ? -1 : left > right;
}

/* Owned by the caller, sorted. */
static struct submission **sorted(const struct submission_list *list,
				  int (*compare)(const void *, const void *))
{
	struct submission **v = xcalloc(list->n ? list->n : 1, sizeof(struct submission *));
	if (list->n)
		memcpy(v, list->v, list->n * sizeof *v);
	qsort(v, list->n, sizeof *v, compare);
	return v;
}

/* What took long is not made again at once, though it may have changed: whoever asks, and however often, gets no more than a part of the
 * loop's time. */
static json_t *shown(const struct service *s, struct service_shown *what,
		     json_t *(*make)(const struct service *s))
{
	uint64_t now = clock_monotonic_ns();
	if (what->took_ns < SLOW_NS || now - what->made_ns > 4 * what->took_ns) {
		json_decref(what->value);
		what->value = make(s);
		what->made_ns = clock_monotonic_ns();
		what->took_ns = what->made_ns - now;
	}
	return json_incref(what->value);
}

static json_t *make_rows(const struct service *s)
{
	const struct queue *q = &s->queue;
	CLEANUP_FREE struct submission **running = sorted(&q->running, by_start);
	CLEANUP_FREE struct submission **waiting = sorted(&q->waiting, by_position);
	json_t *rows = json_array();
	for (size_t i = 0; i < q->running.n; i++)
		json_array_append_new(rows, row_json(s, running[i]));
	for (size_t i = 0; i < q->waiting.n; i++)
		json_array_append_new(rows, row_json(s, waiting[i]));
	return rows;
}

static json_t *use_json(uint64_t used, uint64_t cap)
{
	return json_pack("{s:o,s:o}", "used", json_u64(used), "cap", json_u64(cap));
}

json_t *service_rows(struct service *s)
{
	return shown(s, &s->rows, make_rows);
}

static json_t *make_queue(const struct service *s)
{
	const struct queue *q = &s->queue;
	CLEANUP_FREE struct submission **waiting = sorted(&q->waiting, by_position);
	json_t *list = json_array();
	for (size_t i = 0; i < q->waiting.n; i++) {
		const struct submission *sub = waiting[i];
		json_array_append_new(
			list, json_pack("{s:s,s:o,s:o,s:i,s:o,s:o}", "id", submission_shown(sub),
					"submitter", json_text(service_submitter(s, sub)), "quest",
					text_or_null(sub->quest), "priority", sub->job.priority,
					"submitted", time_or_null(sub->submitted_real_ns),
					"pending", pending_json(s, sub)));
	}
	return json_pack("{s:o,s:I,s:{s:o,s:o,s:o},s:b,s:o}", "waiting", list, "running",
			 (json_int_t)q->running.n, "use", "memory",
			 use_json(q->used[SCHEDULE_MEMORY], s->cap[SCHEDULE_MEMORY]), "cpus",
			 use_json(q->used[SCHEDULE_CPUS], s->cap[SCHEDULE_CPUS]), "pids",
			 use_json(q->used[SCHEDULE_PIDS], s->cap[SCHEDULE_PIDS]), "draining",
			 s->is_draining, "database", text_or_null(store_trouble(s->store)));
}

json_t *service_queue(struct service *s)
{
	return shown(s, &s->waiting, make_queue);
}

const char *service_submitter_of(const struct service *s, const char *id)
{
	const struct submission *sub = queue_find_shown(&s->queue, id);
	return sub && sub->state != SUBMISSION_ENTERING && !sub->is_resume
		       ? service_submitter(s, sub)
		       : NULL;
}

static void add_counts(struct service_use *to, const struct service_use *more)
{
	to->submitted += more->submitted;
	to->started += more->started;
	to->ended += more->ended;
	to->retried += more->retried;
	to->refused += more->refused;
	to->lookups.hit += more->lookups.hit;
	to->lookups.miss += more->lookups.miss;
	to->lookups.unusable += more->lookups.unusable;
	to->waits.seconds += more->waits.seconds;
	for (size_t i = 0; i <= WAITS_BOUNDS; i++)
		to->waits.n[i] += more->waits.n[i];
}

void service_use(const struct service *s, const struct viewer *viewer, struct service_use *ret)
{
	const struct queue *q = &s->queue;
	struct service_use u = { .memory_cap = s->cap[SCHEDULE_MEMORY],
				 .cpus_cap = s->cap[SCHEDULE_CPUS],
				 .pids_cap = s->cap[SCHEDULE_PIDS] };
	CLEANUP_FREE bool *is_seen = xcalloc(q->n_submitters + 1, sizeof *is_seen);
	for (size_t i = 0; i < q->n_submitters; i++) {
		is_seen[i] = viewer_sees(viewer, q->submitter_names[i]);
		if (is_seen[i])
			add_counts(&u, &q->loads[i].counts);
	}
	for (size_t i = 0; i < q->waiting.n; i++)
		u.waiting += is_seen[q->waiting.v[i]->job.submitter];
	for (size_t i = 0; i < q->running.n; i++) {
		const struct schedule_job *job = &q->running.v[i]->job;
		if (!is_seen[job->submitter])
			continue;
		u.running++;
		u.memory_used += job->need[SCHEDULE_MEMORY];
		u.cpus_used += job->need[SCHEDULE_CPUS];
		u.pids_used += job->need[SCHEDULE_PIDS];
	}
	*ret = u;
}

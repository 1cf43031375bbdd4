#include "serve/queue.h"

#include <string.h>

#include "base/num.h"
#include "base/str.h"

#define FORGOTTEN 0.5 /* cpu-seconds that no longer count */

void submission_free(struct submission *s)
{
	if (!s)
		return;
	sd_event_source_freep(&s->report);
	sd_event_source_freep(&s->gone);
	sd_event_source_freep(&s->recheck);
	sd_event_source_freep(&s->nudge);
	cleanup_fd(&s->report_fd);
	cleanup_fd(&s->pid_fd);
	free(s->analysis);
	if (s->secrets)
		explicit_bzero(s->secrets, strlen(s->secrets));
	free(s->secrets);
	free(s->retries);
	free(s->name);
	free(s->quest);
	free(s->runtime);
	free(s->chosen);
	free(s->key);
	free(s->unfit);
	free(s->rerun_of);
	free(s);
}

static size_t bucket_of(const struct queue *q, const char *id)
{
	uint64_t h = 14695981039346656037ULL; /* FNV-1a */
	for (; *id; id++)
		h = (h ^ (unsigned char)*id) * 1099511628211ULL;
	return (size_t)(h % q->n_buckets);
}

struct submission *queue_find(const struct queue *q, const char *id)
{
	struct submission *s = q->n_buckets ? q->buckets[bucket_of(q, id)] : NULL;
	struct submission *found = NULL;
	for (; s; s = s->next)
		if (str_eq(s->id, id) && !s->unfit &&
		    (!found || found->state == SUBMISSION_ENTERING))
			found = s;
	return found;
}

static void table_put(struct queue *q, struct submission *s)
{
	struct submission **bucket = &q->buckets[bucket_of(q, s->id)];
	s->next = *bucket;
	*bucket = s;
}

static void table_grow(struct queue *q)
{
	struct submission **old = q->buckets;
	size_t n_old = q->n_buckets;
	if (q->n < q->n_buckets)
		return;
	q->n_buckets = n_old ? n_old * 2 : 64;
	q->buckets = xcalloc(q->n_buckets, sizeof *q->buckets);
	for (size_t i = 0; i < n_old; i++)
		for (struct submission *s = old[i], *next; s; s = next) {
			next = s->next;
			table_put(q, s);
		}
	free(old);
}

static void table_remove(struct queue *q, const struct submission *s)
{
	struct submission **at = &q->buckets[bucket_of(q, s->id)];
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	q->n--;
}

static void list_add(struct submission_list *list, struct submission *s)
{
	if (list->n == list->room) {
		list->room = list->room ? list->room * 2 : 64;
		list->v = xreallocarray(list->v, list->room, sizeof *list->v);
	}
	s->at = list->n;
	list->v[list->n++] = s;
}

/* The last one takes its place: the order of a list says nothing. */
static void list_remove(struct submission_list *list, struct submission *s)
{
	struct submission *last = list->v[--list->n];
	list->v[s->at] = last;
	last->at = s->at;
}

size_t queue_submitter(struct queue *q, const struct config *c, const char *name)
{
	uint64_t weight = 1;
	for (size_t i = 0; i < q->n_submitters; i++)
		if (str_eq(q->submitter_names[i], name))
			return i;
	size_t n = q->n_submitters + 1;
	const char *said = pairs_get(&c->service.shares, name);
	if (!said || num_u64(said, 1000, &weight) < 0)
		weight = 1;
	q->submitters = xreallocarray(q->submitters, n, sizeof *q->submitters);
	q->submitter_names = xreallocarray(q->submitter_names, n, sizeof *q->submitter_names);
	q->loads = xreallocarray(q->loads, n, sizeof *q->loads);
	q->submitters[n - 1] = (struct share){ .weight = (unsigned)weight };
	q->submitter_names[n - 1] = xstrdup(name);
	q->loads[n - 1] = (struct submitter_load){ 0 };
	q->n_submitters = n;
	return n - 1;
}

/* A place whose quest nobody uses and whose use is forgotten is given to another: quests come and go. */
static size_t find_quest(struct queue *q, size_t submitter, const char *name, uint64_t now_ns)
{
	size_t place = q->n_quests;
	for (size_t i = 0; i < q->n_quests; i++) {
		const struct quest *quest = &q->quest_names[i];
		if (quest->name && quest->submitter == submitter && str_eq(quest->name, name))
			return i;
		if (!quest->users && share_use(&q->quests[i], now_ns) < FORGOTTEN)
			place = i;
	}
	if (place == q->n_quests) {
		q->n_quests++;
		q->quests = xreallocarray(q->quests, q->n_quests, sizeof *q->quests);
		q->quest_names = xreallocarray(q->quest_names, q->n_quests, sizeof *q->quest_names);
	} else {
		free(q->quest_names[place].name);
	}
	q->quests[place] = (struct share){ 0 };
	q->quest_names[place] = (struct quest){ .name = xstrdup(name), .submitter = submitter };
	return place;
}

void queue_add(struct queue *q, struct submission *s, size_t submitter, uint64_t now_ns)
{
	table_grow(q);
	q->n++;
	table_put(q, s);
	s->job.submitter = submitter;
	s->job.quest = find_quest(q, submitter, s->quest ? s->quest : "", now_ns);
	q->quest_names[s->job.quest].users++;
	q->loads[submitter].waiting++;
	q->loads[submitter].bytes += strlen(s->analysis);
	s->state = SUBMISSION_ENTERING;
	q->n_resumes += s->is_resume;
	list_add(&q->entering, s);
}

struct submission *queue_find_shown(const struct queue *q, const char *id)
{
	const struct submission_list *const lists[] = { &q->running, &q->waiting, &q->entering };
	struct submission *found = queue_find(q, id);
	for (size_t k = 0; !found && q->n_resumes && k < sizeof lists / sizeof *lists; k++)
		for (size_t i = 0; !found && i < lists[k]->n; i++)
			if (lists[k]->v[i]->is_resume && !lists[k]->v[i]->unfit &&
			    str_eq(lists[k]->v[i]->run, id))
				found = lists[k]->v[i];
	return found;
}

void queue_wait(struct queue *q, struct submission *s)
{
	list_remove(&q->entering, s);
	s->state = SUBMISSION_WAITING;
	list_add(&q->waiting, s);
}

static void use_begin(struct queue *q, const struct submission *s, uint64_t now_ns)
{
	for (int i = 0; i < SCHEDULE_RESOURCES_; i++)
		q->used[i] += s->job.need[i];
	share_begin(&q->submitters[s->job.submitter], now_ns, s->job.need[SCHEDULE_CPUS]);
	share_begin(&q->quests[s->job.quest], now_ns, s->job.need[SCHEDULE_CPUS]);
}

static void use_end(struct queue *q, const struct submission *s, uint64_t now_ns)
{
	for (int i = 0; i < SCHEDULE_RESOURCES_; i++)
		q->used[i] -= s->job.need[i];
	share_end(&q->submitters[s->job.submitter], now_ns, s->job.need[SCHEDULE_CPUS]);
	share_end(&q->quests[s->job.quest], now_ns, s->job.need[SCHEDULE_CPUS]);
}

void queue_begin(struct queue *q, struct submission *s, uint64_t now_ns)
{
	list_remove(&q->waiting, s);
	s->state = SUBMISSION_RUNNING;
	q->loads[s->job.submitter].waiting--;
	q->loads[s->job.submitter].bytes -= strlen(s->analysis);
	list_add(&q->running, s);
	use_begin(q, s, now_ns);
}

void queue_end(struct queue *q, struct submission *s, uint64_t now_ns)
{
	list_remove(&q->running, s);
	use_end(q, s, now_ns);
	q->loads[s->job.submitter].waiting++;
	q->loads[s->job.submitter].bytes += strlen(s->analysis);
	s->state = SUBMISSION_WAITING;
	list_add(&q->waiting, s);
}

void queue_adjust(struct queue *q, struct submission *s, const uint64_t limits[LIMIT_COUNT_],
		  const uint64_t cap[SCHEDULE_RESOURCES_], uint64_t now_ns)
{
	bool is_counted = s->state == SUBMISSION_RUNNING;
	if (is_counted)
		use_end(q, s, now_ns);
	submission_need(s, limits, cap);
	if (is_counted)
		use_begin(q, s, now_ns);
}

void queue_drop(struct queue *q, struct submission *s, uint64_t now_ns)
{
	if (s->state == SUBMISSION_RUNNING) {
		list_remove(&q->running, s);
		use_end(q, s, now_ns);
	} else {
		list_remove(s->state == SUBMISSION_WAITING ? &q->waiting : &q->entering, s);
		q->loads[s->job.submitter].waiting--;
		q->loads[s->job.submitter].bytes -= strlen(s->analysis);
	}
	q->quest_names[s->job.quest].users--;
	q->n_resumes -= s->is_resume;
	table_remove(q, s);
	submission_free(s);
}

void queue_release(struct queue *q)
{
	for (size_t i = 0; i < q->n_buckets; i++)
		for (struct submission *s = q->buckets[i], *next; s; s = next) {
			next = s->next;
			submission_free(s);
		}
	free(q->buckets);
	free(q->entering.v);
	free(q->waiting.v);
	free(q->running.v);
	for (size_t i = 0; i < q->n_submitters; i++)
		free(q->submitter_names[i]);
	free(q->submitter_names);
	free(q->submitters);
	free(q->loads);
	for (size_t i = 0; i < q->n_quests; i++)
		free(q->quest_names[i].name);
	free(q->quest_names);
	free(q->quests);
	*q = (struct queue){ 0 };
}

/* One attempt of a task: its id and place, and whether there is to be another. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "flow/engine_parts.h"

#define SAVED_MAX 1000 /* so often a task may save what it has and ask to be run again */

/* Two steps may come to the same id ("a" of shard 1, and "a-1"), another pipeline may have it, or we did, before a power cut took the line that said so. */
static bool is_taken(const struct engine *e, const char *id)
{
	static const char *const places[] = { "runs", "active" };
	for (size_t i = 0; i < e->n_running; i++) /* its keeper may not have come so far */
		if (str_eq(e->tasks[e->running[i]].run.id, id))
			return true;
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		CLEANUP_FREE char *path = xasprintf("%s/%s/%s", e->home, places[i], id);
		if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
	}
	return false;
}

/* Unique, and readable as far as an id may be long. */
static void choose_id(const struct engine *e, size_t task, unsigned attempt, char ret[ID_MAX + 1])
{
	const struct flow_task *t = &e->flow->tasks[task];
	const struct flow_step *step = &e->flow->steps[t->step];
	char tail[32], tag[HASH_TAG];
	if (t->shard)
		(void)snprintf(tail, sizeof tail, "-%zu-%u", task - step->first + 1, attempt);
	else
		(void)snprintf(tail, sizeof tail, "-%u", attempt);
	int n = snprintf(ret, ID_MAX + 1, "%s-%s%s", e->record.id, step->name, tail);
	for (unsigned i = 0; n > ID_MAX || is_taken(e, ret); i++) {
		CLEANUP_FREE char *whole = xasprintf("%s\n%s\n%u", e->record.id, t->label, i);
		hash_tag(whole, tag);
		n = snprintf(ret, ID_MAX + 1, "%s-%s%s", tag, step->name, tail);
	}
}

void engine_prepare(struct engine *e, size_t task)
{
	struct flow_task *t = &e->flow->tasks[task];
	struct analysis *a = &t->analysis;
	struct task_state *s = &e->tasks[task];
	char id[ID_MAX + 1];
	if (!s->attempt && e->q->resume)
		s->attempt = flow_past_attempts(e->past, t->label);
	choose_id(e, task, ++s->attempt, id);
	free(a->id);
	a->id = xstrdup(id);
	strv_add(&s->attempts, id);
	if (!a->place.pipeline) {
		a->place.pipeline = xstrdup(e->record.id);
		a->place.step = xstrdup(t->label);
	}
	a->place.attempt = s->attempt;
	if (a->checkpoint) /* what was saved belongs to what is computed, not to the attempt; without a key the run finds one itself */
		memcpy(a->checkpoint_key, s->key, sizeof a->checkpoint_key);
}

/* More of the limit that was reached, as far as the step and the host allow. False if there is no more. */
static bool grow(const struct engine *e, size_t task, enum cause cause)
{
	struct task_state *s = &e->tasks[task];
	struct flow_task *t = &e->flow->tasks[task];
	const struct flow_retry *retry = &e->flow->steps[t->step].retries[cause];
	int limit = flow_retry_limit(cause);
	if (limit < 0 || retry->factor <= 1)
		return true;
	uint64_t now = s->limits[limit], ceiling = e->config->ceilings.at[limit].value;
	double wanted = (double)now * retry->factor;
	uint64_t more = wanted < (double)INT64_MAX ? (uint64_t)wanted : INT64_MAX;
	if (retry->max && more > retry->max)
		more = retry->max;
	if (ceiling && more > ceiling)
		more = ceiling;
	if (more <= now)
		return false;
	limits_set(&t->analysis.limits, (enum limit_id)limit, more, "retries");
	s->limits[limit] = more; /* it has to fit with that */
	return true;
}

bool engine_wants_again(struct engine *e, size_t task)
{
	struct task_state *s = &e->tasks[task];
	const struct flow_step *step = &e->flow->steps[e->flow->tasks[task].step];
	if (e->stopping || s->cause >= CAUSE_COUNT_)
		return false;
	if (s->cause ==
	    CAUSE_CHECKPOINTED) /* it asked for it: that is no failure, but it has to end some time */
		return s->tried[s->cause]++ < SAVED_MAX;
	if (s->tried[s->cause] >= step->retries[s->cause].times || !grow(e, task, s->cause))
		return false;
	s->tried[s->cause]++;
	return true;
}

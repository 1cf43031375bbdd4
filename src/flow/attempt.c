/* One attempt of a task: its id and place, and whether there is to be another. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "flow/engine_parts.h"
#include "run/checkpoint_key.h"

/* Two steps may come to the same id ("a" of shard 1, and "a-1"), another pipeline may have it, or we did, before a power cut took the line that said so. */
static bool is_taken(const struct engine *e, const char *id)
{
	static const char *const places[] = { "runs", "active" };
	for (size_t i = 0; i < e->n_running; i++) /* its keeper may not have come so far */
		if (str_eq(e->tasks[e->running[i]].run->id, id))
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
	if (t->shard) {
		a->place.shard = (unsigned)(task - e->flow->steps[t->step].first);
		a->place.shards = (unsigned)e->flow->steps[t->step].n_tasks;
	}
	/* What was saved belongs to what is computed, not to the attempt. Without a key of the step the run derives one itself. */
	if (a->checkpoint) {
		memcpy(a->checkpoint_key, s->key, sizeof a->checkpoint_key);
		checkpoint_key_for(e->config->submitter, a->checkpoint_key);
	}
}

bool engine_wants_again(struct engine *e, size_t task)
{
	struct task_state *s = &e->tasks[task];
	struct flow_task *t = &e->flow->tasks[task];
	int limit = flow_retry_limit(s->cause);
	struct limits ceilings = e->config->ceilings;
	uint64_t given = limit >= 0 ? engine_given(e, task, (enum limit_id)limit) : 0;
	/* More would be refused (config_limits_fit). */
	if (limit == LIMIT_MEMORY && !given &&
	    config_executor_is_here(e->config, t->analysis.executor))
		given = e->config->aggregate.at[limit].value;
	if (given && (!ceilings.at[limit].value || given < ceilings.at[limit].value))
		ceilings.at[limit].value = given;
	if (e->stopping ||
	    !flow_retry_again(e->flow->steps[t->step].retries, &ceilings, s->cause, &s->tries))
		return false;
	if (limit >= 0 && s->tries.limits[limit] != s->limits[limit]) {
		s->limits[limit] = s->tries.limits[limit]; /* it has to fit with that */
		limits_set(&t->analysis.limits, (enum limit_id)limit, s->limits[limit], "retries");
	}
	return true;
}

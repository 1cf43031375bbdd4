#include "serve/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

#define HALF_LIFE 600.0 /* seconds */
#define AHEAD     60.0  /* so many seconds of what runs count as used */
#define MILLI     1000.0

static double recent_at(const struct share *s, uint64_t now_ns)
{
	double seconds = now_ns > s->at_ns ? (double)(now_ns - s->at_ns) / (double)NS_PER_SEC : 0;
	double rate = M_LN2 / HALF_LIFE, left = exp(-rate * seconds);
	return s->recent * left + (double)s->cpus / MILLI * (1 - left) / rate;
}

void share_begin(struct share *s, uint64_t now_ns, uint64_t cpus)
{
	s->recent = recent_at(s, now_ns);
	s->at_ns = now_ns;
	s->cpus += cpus;
	s->running++;
}

void share_end(struct share *s, uint64_t now_ns, uint64_t cpus)
{
	s->recent = recent_at(s, now_ns);
	s->at_ns = now_ns;
	s->cpus -= cpus < s->cpus ? cpus : s->cpus;
	s->running -= s->running > 0;
}

static double weigh(const struct share *s, double use)
{
	return use / (s->weight ? s->weight : 1);
}

double share_use(const struct share *s, uint64_t now_ns)
{
	return weigh(s, recent_at(s, now_ns) + (double)s->cpus / MILLI * AHEAD);
}

const char *schedule_reason_name(enum schedule_reason reason)
{
	static const char *const names[] = {
		[SCHEDULE_NEXT] = "share",        [SCHEDULE_NO_MEMORY] = "memory",
		[SCHEDULE_NO_CPUS] = "cpus",      [SCHEDULE_NO_PIDS] = "pids",
		[SCHEDULE_NO_JOBS] = "jobs",      [SCHEDULE_SUBMITTER_CAP] = "submitter-cap",
		[SCHEDULE_SHARE] = "share",       [SCHEDULE_NOT_BEFORE] = "not-before",
		[SCHEDULE_DRAINING] = "draining",
	};
	return names[reason];
}

/* The jobs of one quest, in its own order. */
struct lane {
	size_t first, end; /* of the sorted list */
	size_t quest;
	double use;
};
/* The quests of one submitter. */
struct party {
	struct lane *lanes;
	size_t n_lanes;
	size_t left; /* jobs */
	double use, weight;
};

struct ordering {
	const struct schedule *s;
	size_t *sorted;        /* owned */
	struct lane *lanes;    /* owned */
	struct party *parties; /* owned */
	size_t n_parties;
};

static void ordering_release(struct ordering *o)
{
	free(o->sorted);
	free(o->lanes);
	free(o->parties);
}

static int by_number(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static bool is_due(const struct schedule *s, const struct schedule_job *job)
{
	return job->not_before_ns <= s->now_real_ns;
}

static int compare_jobs(const void *one, const void *other, void *data)
{
	const struct schedule *s = data;
	const struct schedule_job *a = s->jobs[*(const size_t *)one];
	const struct schedule_job *b = s->jobs[*(const size_t *)other];
	bool first_a = a->priority > 0, first_b = b->priority > 0;
	bool due_a = is_due(s, a), due_b = is_due(s, b);
	if (due_a != due_b)
		return due_a ? -1 : 1;
	if (!due_a && a->not_before_ns != b->not_before_ns)
		return by_number(a->not_before_ns, b->not_before_ns);
	if (!due_a)
		return by_number(a->n, b->n);
	if (first_a != first_b)
		return first_a ? -1 : 1;
	if (!first_a && a->submitter != b->submitter)
		return by_number(a->submitter, b->submitter);
	if (!first_a && a->quest != b->quest)
		return by_number(a->quest, b->quest);
	if (a->priority != b->priority)
		return a->priority > b->priority ? -1 : 1;
	return by_number(a->n, b->n);
}

/* The sorted jobs behind those of priority that are due, as lanes of parties. */
static void divide(struct ordering *o, size_t from, size_t end)
{
	const struct schedule *s = o->s;
	struct party *party = NULL;
	struct lane *lane = o->lanes;
	for (size_t i = from; i < end; i++) {
		const struct schedule_job *job = s->jobs[o->sorted[i]];
		const struct schedule_job *before = i > from ? s->jobs[o->sorted[i - 1]] : NULL;
		bool is_other = !before || before->submitter != job->submitter;
		if (is_other) {
			const struct share *share = &s->submitters[job->submitter];
			party = &o->parties[o->n_parties++];
			*party = (struct party){ .lanes = lane,
						 .use = share_use(share, s->now_ns),
						 .weight = share->weight ? share->weight : 1 };
		}
		if (is_other || before->quest != job->quest) {
			*lane++ = (struct lane){
				.first = i,
				.end = i,
				.quest = job->quest,
				.use = share_use(&s->quests[job->quest], s->now_ns),
			};
			party->n_lanes++;
		}
		lane[-1].end++;
		party->left++;
	}
}

static struct lane *least_lane(const struct party *p)
{
	struct lane *least = NULL;
	for (size_t i = 0; i < p->n_lanes; i++) {
		struct lane *lane = &p->lanes[i];
		if (lane->first < lane->end && (!least || lane->use < least->use))
			least = lane;
	}
	return least;
}

/* Whoever came first goes first where two had the same: nobody's place in a table counts. */
static bool goes_before(const struct ordering *o, const struct party *a, const struct party *b)
{
	if (a->use < b->use || a->use > b->use)
		return a->use < b->use;
	const struct lane *of_a = least_lane(a), *of_b = least_lane(b);
	return o->s->jobs[o->sorted[of_a->first]]->n < o->s->jobs[o->sorted[of_b->first]]->n;
}

static size_t take_next(struct ordering *o)
{
	struct party *party = &o->parties[0]; /* somebody has something left */
	for (size_t i = 1; i < o->n_parties; i++)
		if (o->parties[i].left && (!party->left || goes_before(o, &o->parties[i], party)))
			party = &o->parties[i];
	struct lane *lane = least_lane(party);
	size_t job = o->sorted[lane->first++];
	double charge = (double)o->s->jobs[job]->need[SCHEDULE_CPUS] / MILLI * AHEAD;
	party->left--;
	party->use += charge / party->weight;
	lane->use += charge;
	return job;
}

void schedule_order(const struct schedule *s, size_t *ret)
{
	CLEANUP(ordering_release) struct ordering o = { .s = s };
	size_t n = s->n_jobs ? s->n_jobs : 1, first = 0, n_due = 0;
	o.sorted = xcalloc(n, sizeof *o.sorted);
	o.lanes = xcalloc(n, sizeof *o.lanes);
	o.parties = xcalloc(n, sizeof *o.parties);
	for (size_t i = 0; i < s->n_jobs; i++)
		o.sorted[i] = i;
	qsort_r(o.sorted, s->n_jobs, sizeof *o.sorted, compare_jobs, (void *)s);
	/* A job that is not due yet takes nobody's turn: it comes behind all that are, and counts for no share. */
	while (n_due < s->n_jobs && is_due(s, s->jobs[o.sorted[n_due]]))
		n_due++;
	while (first < n_due && s->jobs[o.sorted[first]]->priority > 0)
		first++;
	memcpy(ret, o.sorted, s->n_jobs * sizeof *ret);
	divide(&o, first, n_due);
	for (size_t i = first; i < n_due; i++)
		ret[i] = take_next(&o);
}

/* The pass: what is used and by whom, with what it has started. */
struct passing {
	const struct schedule *s;
	uint64_t used[SCHEDULE_RESOURCES_];
	uint64_t running;
	uint64_t *each; /* owned; runs of each submitter */
	bool is_reserved;
};

static void passing_release(struct passing *p)
{
	free(p->each);
}

/* One that is alone is let in whatever the caps say now: what could never fit was refused when it came. */
static enum schedule_reason lacks(const struct passing *p, const struct schedule_job *job)
{
	static const enum schedule_reason reasons[] = { SCHEDULE_NO_MEMORY, SCHEDULE_NO_CPUS,
							SCHEDULE_NO_PIDS };
	for (int i = 0; p->running && i < SCHEDULE_RESOURCES_; i++)
		if (p->s->cap[i] && p->used[i] + job->need[i] > p->s->cap[i])
			return reasons[i];
	return SCHEDULE_NEXT;
}

static enum schedule_reason judge(const struct passing *p, const struct schedule_job *job)
{
	const struct schedule *s = p->s;
	if (s->is_draining)
		return SCHEDULE_DRAINING;
	if (!is_due(s, job))
		return SCHEDULE_NOT_BEFORE;
	if (s->max_each && p->each[job->submitter] >= s->max_each)
		return SCHEDULE_SUBMITTER_CAP;
	if (s->max_running && p->running >= s->max_running)
		return SCHEDULE_NO_JOBS;
	enum schedule_reason reason = lacks(p, job);
	return reason == SCHEDULE_NEXT && p->is_reserved ? SCHEDULE_SHARE : reason;
}

static void start(struct passing *p, const struct schedule_job *job)
{
	for (int i = 0; i < SCHEDULE_RESOURCES_; i++)
		p->used[i] += job->need[i];
	p->running++;
	p->each[job->submitter]++;
}

static bool is_resource(enum schedule_reason reason)
{
	return reason == SCHEDULE_NO_MEMORY || reason == SCHEDULE_NO_CPUS ||
	       reason == SCHEDULE_NO_PIDS;
}

size_t schedule_pass(const struct schedule *s, size_t *ret)
{
	CLEANUP(passing_release) struct passing p = { .s = s, .running = s->running };
	CLEANUP_FREE size_t *order = xcalloc(s->n_jobs ? s->n_jobs : 1, sizeof *order);
	size_t n = 0, last_start = 0;
	memcpy(p.used, s->used, sizeof p.used);
	p.each = xcalloc(s->n_submitters ? s->n_submitters : 1, sizeof *p.each);
	for (size_t i = 0; i < s->n_submitters; i++)
		p.each[i] = s->submitters[i].running;
	schedule_order(s, order);
	for (size_t i = 0; i < s->n_jobs; i++) {
		struct schedule_job *job = s->jobs[order[i]];
		job->position = i;
		job->reason = judge(&p, job);
		if (job->reason == SCHEDULE_NEXT) {
			start(&p, job);
			ret[n++] = order[i];
			last_start = i;
		} else if (is_resource(job->reason) && job->passed_ns &&
			   s->now_ns - job->passed_ns >= SCHEDULE_PATIENCE_NS) {
			p.is_reserved = true;
		}
	}
	for (size_t i = 0; n && i < last_start; i++) {
		struct schedule_job *job = s->jobs[order[i]];
		if (is_resource(job->reason) && !job->passed_ns)
			job->passed_ns = s->now_ns;
	}
	return n;
}

/* What is started next, and why the rest waits: pure functions of values.
 *
 * What has a priority above 0 comes first. Then the submitter who had the least of the host lately, for his weight; within it the quest that
 * had the least; within that the higher priority, and what came first. Whatever is first and fits is started. What does not fit is passed,
 * but not for ever: a minute after the first passed it, nobody behind it starts until it does. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCHEDULE_PATIENCE_NS 60000000000ULL

enum schedule_resource { SCHEDULE_MEMORY, SCHEDULE_CPUS, SCHEDULE_PIDS, SCHEDULE_RESOURCES_ };

/* How much of the cpus one has, and had: cpu-seconds that fade, half of them in ten minutes. */
struct share {
	double recent; /* cpu-seconds, as of at_ns */
	uint64_t at_ns;
	uint64_t cpus;    /* of what runs, in thousandths */
	uint64_t running; /* runs */
	unsigned weight;  /* 0 is 1 */
};
/* Something of so many cpus begins, or ends. */
void share_begin(struct share *s, uint64_t now_ns, uint64_t cpus);
void share_end(struct share *s, uint64_t now_ns, uint64_t cpus);
/* What counts: what was used, and of what runs the next minute too, so that many starts at once are shared. */
double share_use(const struct share *s, uint64_t now_ns);

enum schedule_reason {
	SCHEDULE_NEXT, /* it is being started, or is about to */
	SCHEDULE_NO_MEMORY,
	SCHEDULE_NO_CPUS,
	SCHEDULE_NO_PIDS,
	SCHEDULE_NO_JOBS, /* as many run as may */
	SCHEDULE_SUBMITTER_CAP,
	SCHEDULE_SHARE, /* it would fit, but one ahead of it has waited too long */
	SCHEDULE_NOT_BEFORE,
	SCHEDULE_DRAINING,
};
const char *schedule_reason_name(enum schedule_reason reason);

struct schedule_job {
	uint64_t need[SCHEDULE_RESOURCES_]; /* bytes, thousandths of a cpu, processes */
	size_t submitter, quest;            /* of the tables below; a quest is of one submitter */
	int priority;
	uint64_t n;                  /* the order in which they came */
	uint64_t not_before_ns;      /* real time; 0: at once */
	uint64_t passed_ns;          /* monotonic; since when others go before it; 0: none did */
	enum schedule_reason reason; /* said by schedule_pass */
	size_t position;             /* the same: in the expected order, from 0 */
};

struct schedule {
	struct schedule_job *const *jobs; /* that wait */
	size_t n_jobs;
	const struct share *submitters, *quests;
	size_t n_submitters, n_quests;
	uint64_t used[SCHEDULE_RESOURCES_], cap[SCHEDULE_RESOURCES_];
	uint64_t running, max_running; /* 0: no maximum */
	uint64_t max_each;             /* of one submitter; 0: no maximum */
	uint64_t now_ns, now_real_ns;
	bool is_draining,
		is_away; /* nothing is started: we are to end; the database is not there */
};

/* Indexes of `jobs`, in the order in which they are expected to start if nothing else comes. */
void schedule_order(const struct schedule *s, size_t *ret);
/* Says of each job why it waits, and fills `ret`, with room for n_jobs, with those that are to be started now, in order. Returns how many. */
size_t schedule_pass(const struct schedule *s, size_t *ret);

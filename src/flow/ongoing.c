#include "flow/ongoing.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "flow/finished.h"
#include "keeper/alive.h"
#include "run/run.h"

#define LOOK_NS    (100 * NS_PER_MS)
#define SWEEP_NS   NS_PER_SEC /* a keeper that takes over may die as well */
#define MISSED_MAX 15         /* its executor may be configured no more */

void ongoing_release(struct ongoing_set *s)
{
	free(s->v);
	*s = (struct ongoing_set){ 0 };
}

static bool has_file(const struct config *c, const char *run, const char *name)
{
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s/%s", c->home, run, name);
	return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool ongoing_add(struct ongoing_set *s, const struct config *c, const char *run, const char *key,
		 bool is_ours)
{
	/* Only what is carried out elsewhere outlives its keeper. */
	if (!has_file(c, run, "executor.json") || has_file(c, run, "verdict.json"))
		return false;
	s->v = xreallocarray(s->v, s->n + 1, sizeof *s->v);
	struct ongoing *o = &s->v[s->n++];
	*o = (struct ongoing){ .is_ours = is_ours };
	(void)snprintf(o->run, sizeof o->run, "%s", run);
	(void)snprintf(o->key, sizeof o->key, "%s", key);
	return true;
}

struct ongoing *ongoing_find(const struct ongoing_set *s, const char *key)
{
	for (size_t i = 0; key[0] && i < s->n; i++)
		if (str_eq(s->v[i].key, key))
			return &s->v[i];
	return NULL;
}

/* It has ended. Where its result is one, nobody waits for another of that key. */
static void enter(struct ongoing_set *s, const struct ongoing *ended, const struct config *c)
{
	const struct ongoing o = *ended;
	struct err unused = { 0 };
	if (!o.key[0] || finished_put(c, o.key, o.run, &unused) < 0)
		return;
	for (size_t i = 0; i < s->n; i++)
		if (str_eq(s->v[i].key, o.key)) {
			s->v[i].key[0] = '\0';
			s->v[i].is_awaited = false;
		}
}

/* A sweep has others attended too, and only so many. */
static bool had_its_turn(const struct gc_report *report, const char *run)
{
	for (size_t i = 0; i < report->n_unattended; i++)
		if (str_eq(report->unattended[i], run))
			return true;
	return report->n_unattended < GC_UNATTENDED_MAX;
}

void ongoing_look(struct ongoing_set *s, const struct config *c)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct err unused = { 0 };
	struct gc_report report = { 0 };
	bool has_swept = false;
	if (!s->n || now_ns - s->looked_ns < LOOK_NS)
		return;
	s->looked_ns = now_ns;
	for (size_t i = s->n; i > 0; i--) {
		struct ongoing *o = &s->v[i - 1];
		bool is_over = has_file(c, o->run, "verdict.json");
		if (is_over)
			enter(s, o, c);
		else if (run_is_alive(c, o->run, NULL))
			continue;
		else if (!has_swept && now_ns - s->swept_ns >= SWEEP_NS) {
			s->swept_ns = now_ns;
			has_swept = run_sweep(c, &report, &unused) >= 0;
		}
		if (has_swept && !is_over && had_its_turn(&report, o->run))
			is_over = ++o->missed > MISSED_MAX;
		if (is_over)
			*o = s->v[--s->n];
	}
}

bool ongoing_is_awaited(const struct ongoing_set *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].is_awaited)
			return true;
	return false;
}

/* The lock is asked again when the descriptor is there: it is then of the process that held it, not of the next one with its number. */
static void tell(struct ongoing *o, const struct config *c)
{
	pid_t keeper = 0, still = 0;
	if (!run_is_alive(c, o->run, &keeper) || keeper <= 0 || keeper == o->told)
		return;
	CLEANUP_FD int fd = proc_pidfd_open(keeper);
	if (fd >= 0 && run_is_alive(c, o->run, &still) && still == keeper &&
	    proc_signal(fd, SIGTERM) >= 0)
		o->told = keeper;
}

bool ongoing_cancel(struct ongoing_set *s, const struct config *c)
{
	bool some = false;
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].is_ours) {
			tell(&s->v[i], c);
			some = true;
		}
	return some;
}

#include "flow/ongoing.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
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
		if (!s->v[i].why[0] && str_eq(s->v[i].key, key))
			return &s->v[i];
	return NULL;
}

const char *ongoing_why(const struct ongoing_set *s, const char *key)
{
	for (size_t i = 0; key[0] && i < s->n; i++)
		if (s->v[i].why[0] && str_eq(s->v[i].key, key))
			return s->v[i].why;
	return NULL;
}

/* It has ended. Where its result is one, nobody waits for another of that key. True: nothing more is to be said of it. */
static bool enter(struct ongoing_set *s, struct ongoing *ended, const struct config *c)
{
	const struct ongoing o = *ended;
	struct err err = { 0 };
	if (!o.key[0])
		return true;
	if (finished_put(c, o.key, o.run, &err) < 0) {
		(void)snprintf(ended->why, sizeof ended->why, "%.*s", (int)sizeof ended->why - 1,
			       err.text);
		ended->is_awaited = false;
		return false;
	}
	for (size_t i = 0; i < s->n; i++)
		if (str_eq(s->v[i].key, o.key)) {
			s->v[i].key[0] = '\0';
			s->v[i].is_awaited = false;
		}
	return true;
}

static void give_up(struct ongoing *o)
{
	(void)snprintf(o->why, sizeof o->why,
		       "%s was begun before and may go on elsewhere, but nobody can attend it",
		       o->run);
	o->is_awaited = false;
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
		if (o->why[0])
			continue;
		if (has_file(c, o->run, "verdict.json")) {
			if (enter(s, o, c))
				*o = s->v[--s->n];
			continue;
		}
		if (run_is_alive(c, o->run, NULL))
			continue;
		if (!has_swept && now_ns - s->swept_ns >= SWEEP_NS) {
			s->swept_ns = now_ns;
			has_swept = run_sweep(c, &report, &unused) >= 0;
		}
		if (has_swept && had_its_turn(&report, o->run) && ++o->missed > MISSED_MAX)
			give_up(o);
	}
}

bool ongoing_is_awaited(const struct ongoing_set *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].is_awaited)
			return true;
	return false;
}

bool ongoing_cancel(struct ongoing_set *s, const struct config *c)
{
	bool some = false;
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].is_ours && !s->v[i].why[0]) {
			run_ask_to_end(c, s->v[i].run, &s->v[i].told);
			some = true;
		}
	return some;
}

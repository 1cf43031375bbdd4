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
#define SWEEP_NS   NS_PER_SEC        /* a keeper that takes over may die as well */
#define GIVE_UP_NS (15 * NS_PER_SEC) /* its executor may be configured no more */

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

bool ongoing_add(struct ongoing_set *s, const struct config *c, const char *run, const char *key)
{
	/* Only what is carried out elsewhere outlives its keeper. */
	if (!has_file(c, run, "executor.json") || has_file(c, run, "verdict.json"))
		return false;
	s->v = xreallocarray(s->v, s->n + 1, sizeof *s->v);
	struct ongoing *o = &s->v[s->n++];
	*o = (struct ongoing){ .attended_ns = clock_monotonic_ns() };
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

/* True if there is nothing to wait for any more. */
static bool is_over(struct ongoing_set *s, struct ongoing *o, const struct config *c,
		    uint64_t now_ns)
{
	struct err unused = { 0 };
	struct gc_report report;
	if (has_file(c, o->run, "verdict.json")) {
		(void)finished_put(c, o->key, o->run, &unused);
		return true;
	}
	if (run_is_alive(c, o->run, NULL)) {
		o->attended_ns = now_ns;
		return false;
	}
	if (now_ns - s->swept_ns >= SWEEP_NS) {
		(void)run_sweep(c, &report, &unused);
		s->swept_ns = now_ns;
	}
	return now_ns - o->attended_ns >= GIVE_UP_NS;
}

void ongoing_look(struct ongoing_set *s, const struct config *c)
{
	uint64_t now_ns = clock_monotonic_ns();
	if (!s->n || now_ns - s->looked_ns < LOOK_NS)
		return;
	for (size_t i = s->n; i > 0; i--)
		if (is_over(s, &s->v[i - 1], c, now_ns))
			s->v[i - 1] = s->v[--s->n];
	s->looked_ns = now_ns;
}

void ongoing_cancel(const struct ongoing_set *s, const struct config *c)
{
	for (size_t i = 0; i < s->n; i++) {
		pid_t keeper = 0;
		if (!s->v[i].is_awaited || !run_is_alive(c, s->v[i].run, &keeper) || keeper <= 0)
			continue;
		CLEANUP_FD int fd = proc_pidfd_open(keeper);
		pid_t still = 0; /* the number may have become another's before we held it */
		if (fd >= 0 && run_is_alive(c, s->v[i].run, &still) && still == keeper)
			(void)proc_signal(fd, SIGTERM);
	}
}

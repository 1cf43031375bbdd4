/* Runtimes are checked from time to time, one after the other, and only while nothing waits: `cupel runtime check` as a process of its own. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/hash.h"
#include "runtime/catalog.h"
#include "runtime/state.h"
#include "serve/service_parts.h"
#include "serve/starter.h"

#define TICK_USEC 60000000ULL
#define PARTS     16 /* the jitter of one runtime is up to a part of the interval that is 1/PARTS */

/* So that not all of them, on all hosts, are checked at one time; the same for a name each time. */
static uint64_t jitter_ns(const struct service *s, const char *name)
{
	char tag[HASH_TAG];
	CLEANUP_FREE char *whole = xasprintf("%s\n%s", s->config->home, name);
	hash_tag(whole, tag);
	return strtoul(tag, NULL, 16) % 1000 *
	       (s->config->service.check_runtimes_ns / PARTS / 1000);
}

/* When it was last checked, or tried to be by us. */
static uint64_t last_ns(const struct service *s, const char *name)
{
	struct runtime_state state = { 0 };
	struct err err = { 0 };
	uint64_t verified = 0, tried = 0;
	const char *said = pairs_get(&s->tried, name);
	if (state_read(s->config, name, &state, &err) >= 0 && state.verified_time)
		(void)clock_read(state.verified_time, &verified);
	runtime_state_release(&state);
	if (said)
		(void)clock_read(said, &tried);
	return verified > tried ? verified : tried;
}

static char *find_due(const struct service *s)
{
	struct catalog catalog = { 0 };
	struct err err = { 0 };
	uint64_t now = clock_real_ns(), oldest = UINT64_MAX;
	const char *due = NULL;
	if (catalog_read(s->config, &catalog, &err) < 0)
		return NULL;
	for (size_t i = 0; i < catalog.n; i++) {
		const char *name = catalog.v[i].name;
		uint64_t last = last_ns(s, name);
		if (last < oldest &&
		    last + s->config->service.check_runtimes_ns + jitter_ns(s, name) <= now) {
			oldest = last;
			due = name;
		}
	}
	char *name = due ? xstrdup(due) : NULL;
	catalog_release(&catalog);
	return name;
}

static int on_checked(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct service *s = data;
	sd_event_source_freep(&s->checking);
	cleanup_fd(&s->checking_fd);
	return 0;
}

static void check_one(struct service *s, const char *name)
{
	char now[40];
	struct err err = { 0 };
	CLEANUP_JSON json_t *what = json_pack("{s:o}", "runtime", json_text(name));
	CLEANUP_FD int fd = starter_ask(s->starter_fd, STARTER_CHECK, what, &err);
	pairs_set(&s->tried, name, clock_write(clock_real_ns(), now, sizeof now));
	if (fd >= 0 && sd_event_add_io(s->event, &s->checking, fd, EPOLLIN, on_checked, s) >= 0)
		s->checking_fd = take_fd(&fd);
}

static void set_tick(struct service *s)
{
	uint64_t usec = s->config->service.check_runtimes_ns / 1000 / 2;
	(void)sd_event_source_set_time_relative(s->check, usec < TICK_USEC ? usec : TICK_USEC);
	(void)sd_event_source_set_enabled(s->check, SD_EVENT_ONESHOT);
}

static int on_tick(sd_event_source *source, uint64_t usec, void *data)
{
	struct service *s = data;
	set_tick(s);
	if (s->checking_fd >= 0 || !s->is_loaded || s->is_draining || s->queue.waiting.n)
		return 0;
	CLEANUP_FREE char *due = find_due(s);
	if (due)
		check_one(s, due);
	return 0;
}

int checks_open(struct service *s)
{
	if (!s->config->service.check_runtimes_ns)
		return 0;
	int r = sd_event_add_time_relative(s->event, &s->check, CLOCK_MONOTONIC, 0, 0, on_tick, s);
	if (r >= 0)
		set_tick(s);
	return r;
}

void checks_close(struct service *s)
{
	sd_event_source_freep(&s->check);
	sd_event_source_freep(&s->checking);
	cleanup_fd(&s->checking_fd);
	pairs_release(&s->tried);
}

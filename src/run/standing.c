/* What is known of a runtime now, and the lock that says what it should be. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "run/check.h"

void standing_release(struct standing *s)
{
	runtime_state_release(&s->state);
	lock_release(&s->lock);
}

static void set(struct runtime_state *s, enum health health, char *reason)
{
	free(s->reason);
	s->health = health;
	s->reason = reason;
}

void runtime_standing(const struct config *config, struct runtime *r, struct standing *ret)
{
	struct standing s = { 0 };
	struct err err = { 0 };
	/* One that can't be read says nothing of the runtime; the next check writes it anew. */
	if (state_read(config, r->name, &s.state, &err) < 0)
		set(&s.state, HEALTH_UNKNOWN, xstrdup(err.text));
	int found = runtime_find_root(config, r, &err);
	int e = found > 0 ? lock_read(r, &s.lock, &err) : found;
	if (found > 0 && e >= 0)
		e = fingerprint_take(r, DEPTH_IDENTITY, NULL, &s.now, &err);
	const char *identity = s.now.hex[DEPTH_IDENTITY];
	const char *checked = s.state.fingerprint.hex[DEPTH_IDENTITY];
	if (e < 0)
		set(&s.state, HEALTH_BROKEN, xstrdup(err.text));
	else if (!found)
		set(&s.state, HEALTH_UNKNOWN,
		    xasprintf("it is not unpacked yet; cupel runtime check %s does that", r->name));
	else if (s.lock.exists && !str_eq(identity, s.lock.fingerprint.hex[DEPTH_IDENTITY]))
		set(&s.state, HEALTH_DEGRADED,
		    xasprintf(
			    "it is not what was locked at %s; cupel runtime check %s names what differs",
			    s.lock.time, r->name));
	else if (s.state.verified_time && checked[0] && !str_eq(identity, checked))
		set(&s.state, HEALTH_UNKNOWN,
		    xasprintf("it changed since it was checked; cupel runtime check %s", r->name));
	*ret = s;
}

int runtime_pin(const struct config *config, struct runtime *r,
		const struct fingerprint_progress *progress, struct fingerprint *ret,
		struct err *err)
{
	CLEANUP_RUNTIME_STATE struct runtime_state s = { 0 };
	(void)state_read(config, r->name, &s, NULL);
	int e = runtime_unpack(config, r, err);
	if (e >= 0)
		e = lock_write(r, progress, ret, err);
	if (e == -EACCES || e == -EROFS)
		return err_wrap(
			err,
			"the lock of '%s' is not yours to write; put a copy of its entry into your own runtimes.d",
			r->name);
	if (e < 0 || s.health != HEALTH_DEGRADED)
		return e;
	set(&s, HEALTH_UNKNOWN,
	    xasprintf("it was locked as it is; cupel runtime check %s", r->name));
	json_decref(s.drift);
	s.drift = NULL;
	return state_write(config, r->name, &s, err);
}

static int remove_file(const char *path, struct err *err)
{
	if (unlink(path) == 0)
		return 1;
	return errno == ENOENT ? 0 : err_errno(err, "remove %s", path);
}

/* The manifest first: a lock without one says that it is damaged, a manifest without a lock would say nothing. */
int runtime_unpin(const struct runtime *r, struct err *err)
{
	lock_drop_manifests(r, NULL);
	return remove_file(r->lock, err);
}

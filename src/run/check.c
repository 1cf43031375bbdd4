/* A runtime's health: what it is compared with what it was, then each trial. */
#include "run/check.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#include "base/clock.h"
#include "base/fs.h"
#include "keeper/record.h"
#include "keeper/verdict.h"
#include "runtime/catalog.h"

#define NAMED_MAX 3 /* drifts or checks that a reason names; the rest is counted */

/* What is being found out. */
struct finding {
	struct runtime_state state; /* owned */
	struct str failed;          /* those that are named */
	size_t n_failed, n_ok, n_absent;
};

static void finding_release(struct finding *f)
{
	runtime_state_release(&f->state);
	str_release(&f->failed);
}

/* One check of a runtime at a time: the second waits. The directory's own lock ends with us. */
static int hold(const struct check_request *q, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/runtimes/%s", q->config->home, q->runtime->name);
	int r = record_home(q->config->home, err);
	if (r >= 0)
		r = fs_make_dirs(path, 0755, err);
	if (r < 0)
		return r;
	CLEANUP_FD int fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "open %s", path);
	if (flock(fd, LOCK_EX) < 0)
		return err_errno(err, "lock %s", path);
	return take_fd(&fd);
}

static void tell(const struct check_request *q, const char *what, size_t number, size_t of)
{
	if (q->viewer && q->viewer->step)
		q->viewer->step(q->viewer->data, what, number, of);
}

static char *drift_text(const struct check_request *q, const struct drifts *d,
			const struct lock *lock)
{
	CLEANUP_STR struct str text = { 0 };
	const char *name = q->runtime->name;
	str_addf(&text, "%llu %s from ", (unsigned long long)d->n_all,
		 d->n_all == 1 ? "difference" : "differences");
	if (lock->exists)
		str_addf(&text, "the lock of %s: ", lock->time);
	else
		str_add(&text, "what its packages recorded: ");
	for (size_t i = 0; i < d->n && i < NAMED_MAX; i++)
		str_addf(&text, "%s%s%s%s%s", i ? ", " : "", d->v[i].what,
			 d->v[i].detail ? " (" : "", d->v[i].detail ? d->v[i].detail : "",
			 d->v[i].detail ? ")" : "");
	if (d->n_all > NAMED_MAX)
		str_addf(&text, " and %llu more", (unsigned long long)d->n_all - NAMED_MAX);
	str_addf(&text, "; install it anew, or accept it as it is: cupel runtime lock %s", name);
	str_clean(text.text);
	return str_take(&text);
}

static void set(struct runtime_state *s, enum health health, char *reason)
{
	free(s->reason);
	s->health = health;
	s->reason = reason;
}

/* What only a deeper look had found is not gone because this one did not look: it stays until a look as deep, a lock, or another state of
 * the packages. */
static void keep_deeper(const struct check_request *q, struct runtime_state *s)
{
	CLEANUP_RUNTIME_STATE struct runtime_state before = { 0 };
	if (state_read(q->config, q->runtime->name, &before, NULL) < 0 || !before.drift ||
	    before.verified_depth <= q->depth ||
	    !str_eq(before.fingerprint.hex[DEPTH_IDENTITY], s->fingerprint.hex[DEPTH_IDENTITY]))
		return;
	s->drift = take_ptr(before.drift);
	s->verified_depth = before.verified_depth;
	set(s, HEALTH_DEGRADED,
	    xasprintf(
		    "what an earlier look at every file's content found may still be so; look again: cupel runtime check --deep %s",
		    q->runtime->name));
}

static void compare(const struct check_request *q, struct runtime_state *s)
{
	CLEANUP_DRIFTS struct drifts drifts = { 0 };
	CLEANUP_LOCK struct lock lock = { 0 };
	struct fingerprint now = { 0 };
	struct err err = { 0 };
	tell(q, depth_names[q->depth], 0, 0);
	int r = runtime_unpack(q->config, q->runtime, &err);
	if (r >= 0)
		r = lock_read(q->runtime, &lock, &err);
	if (r >= 0)
		r = lock_compare(q->runtime, q->depth, q->viewer ? &q->viewer->progress : NULL,
				 &drifts, &now, &err);
	if (r < 0) {
		set(s, HEALTH_BROKEN, xstrdup(err.text));
		return;
	}
	s->fingerprint = now;
	if (drifts.n_all == 0) {
		keep_deeper(q, s);
		return;
	}
	s->drift = drifts_json(&drifts);
	set(s, HEALTH_DEGRADED, drift_text(q, &drifts, &lock));
}

static void note_result(struct finding *f, const struct trial *t, enum trial_result result,
			const char *text, const struct trial_end *e)
{
	static const char *const kinds[] = { "import", "version", "run" };
	if (result == TRIAL_OK)
		f->n_ok++;
	if (result == TRIAL_ABSENT)
		f->n_absent++;
	if (result == TRIAL_FAILED && f->n_failed++ < NAMED_MAX)
		str_addf(&f->failed, "%s%s: %s", f->failed.length ? "; " : "", t->name, text);
	json_array_append_new(
		f->state.checks,
		json_pack("{s:o,s:s,s:o,s:o,s:o,s:o}", "name", json_text(t->name), "kind",
			  t->check ? kinds[t->check->kind] : "interpreter", "ok",
			  result == TRIAL_ABSENT ? json_null() : json_boolean(result == TRIAL_OK),
			  "cause", json_text(e->cause), "text", json_text(text), "duration_usec",
			  json_u64(e->wall_usec)));
}

/* The control: where not even the host's own runtime gets a box, the fault is not this one's. */
static int try_host(const struct check_request *q, const struct trial_end *failed, struct err *err)
{
	CLEANUP_RUNTIME struct runtime base = { 0 };
	CLEANUP_TRIAL_END struct trial_end end = { 0 };
	CLEANUP_STRV struct strv argv = { 0 };
	struct check_request request = { .config = q->config,
					 .runtime = &base,
					 .on_behalf_of = q->runtime->name };
	int r = catalog_find(q->config, "base", &base, err);
	if (r < 0)
		return r;
	strv_add(&argv, "/bin/true");
	r = check_box(&request, &(struct trial){ .argv = argv }, &end, err);
	if (r >= 0 && str_eq(end.cause, cause_name(CAUSE_SETUP)))
		r = err_set(err, ERR_HOST, EIO, "%s", failed->notes);
	return r;
}

/* 1: it can't be started at all, so the other trials would only say so again. */
static int try_one(const struct check_request *q, const struct trial *t, struct finding *f,
		   struct err *err)
{
	CLEANUP_TRIAL_END struct trial_end end = { 0 };
	CLEANUP_FREE char *text = NULL;
	int r = t->argv.n ? check_box(q, t, &end, err) : 0;
	bool no_box = r >= 0 && str_eq(end.cause, cause_name(CAUSE_SETUP));
	if (no_box)
		r = try_host(q, &end, err);
	if (r < 0)
		return r;
	enum trial_result result = trial_judge(t, &end, &text);
	note_result(f, t, result, text, &end);
	return no_box;
}

static int try_all(const struct check_request *q, struct finding *f, struct err *err)
{
	CLEANUP_TRIALS struct trials trials = { 0 };
	trials_make(q->runtime, &trials);
	f->state.checks = json_array();
	int r = 0;
	for (size_t i = 0; r == 0 && i < trials.n; i++) {
		tell(q, trials.v[i].name, i + 1, trials.n);
		r = try_one(q, &trials.v[i], f, err);
	}
	return r < 0 ? r : 0;
}

static char *failed_text(const struct check_request *q, const struct finding *f)
{
	CLEANUP_STR struct str text = { 0 };
	str_add(&text, str_text(&f->failed));
	if (f->n_failed > NAMED_MAX)
		str_addf(&text, " and %zu more", f->n_failed - NAMED_MAX);
	for (size_t i = 0; i < q->runtime->packages.n; i++)
		str_addf(&text, "%s %s", i ? "" : "; install what it needs: apt-get install",
			 q->runtime->packages.v[i]);
	str_clean(text.text);
	return str_take(&text);
}

/* One that brings its own root may be made for a single program. */
static bool has_own_tree(const struct runtime *r)
{
	return r->kind == RUNTIME_ROOTFS || r->kind == RUNTIME_IMAGE;
}

/* A failed trial outweighs drift; what had nothing to pass is not healthy. */
static void settle(const struct check_request *q, struct finding *f)
{
	struct runtime_state *s = &f->state;
	if (f->n_failed)
		set(s, HEALTH_BROKEN, failed_text(q, f));
	else if (s->health == HEALTH_BROKEN || s->health == HEALTH_DEGRADED)
		return;
	else if (f->n_ok)
		set(s, HEALTH_HEALTHY, NULL);
	else if (f->n_absent && !has_own_tree(q->runtime))
		set(s, HEALTH_BROKEN, xstrdup("none of its interpreters is installed"));
	else if (f->n_absent)
		set(s, HEALTH_UNKNOWN,
		    xasprintf(
			    "it has none of the usual interpreters; say in %s what must work: checks",
			    q->runtime->origin));
	else
		set(s, HEALTH_UNKNOWN,
		    xasprintf("there is nothing to check: %s names neither interpreters nor checks",
			      q->runtime->origin));
}

/* That its checks can't be run says nothing of the runtime but that it is not known to be healthy. */
static int could_not(const struct check_request *q, struct finding *f, struct err *err)
{
	if (err->code == EINTR)
		return -EINTR;
	set(&f->state, HEALTH_UNKNOWN, xasprintf("its checks could not be run: %s", err->text));
	(void)state_write(q->config, q->runtime->name, &f->state, NULL);
	return err_wrap(err, "check runtime '%s'", q->runtime->name);
}

int check_runtime(const struct check_request *q, struct runtime_state *ret, struct err *err)
{
	CLEANUP(finding_release) struct finding f = { 0 };
	char now[32];
	CLEANUP_FD int held_fd = hold(q, err);
	if (held_fd < 0)
		return held_fd;
	check_sweep(q);
	f.state.verified_depth = q->depth;
	f.state.verified_time = xstrdup(clock_write(clock_real_ns(), now, sizeof now));
	compare(q, &f.state);
	int r = try_all(q, &f, err);
	if (r < 0)
		return could_not(q, &f, err);
	settle(q, &f);
	r = state_write(q->config, q->runtime->name, &f.state, err);
	if (r < 0)
		return r;
	*ret = f.state;
	f.state = (struct runtime_state){ 0 };
	return 0;
}

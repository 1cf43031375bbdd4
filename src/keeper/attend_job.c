/* A job: prepared and submitted under its name, or found again by whoever takes over; removed in the end. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "keeper/attend.h"
#include "keeper/describe.h"
#include "keeper/traces.h"

#define FILE_MAX (1 << 20)
#define RETRY_NS (500 * NS_PER_MS)

struct job attend_job(const struct attendance *t)
{
	const struct keeper_request *q = t->s->k.q;
	const char *made = t->s->k.scratch.path; /* also by the keeper before us */
	return (struct job){
		.id = q->id,
		.name = t->name,
		.config = q->config,
		.analysis = q->analysis,
		.runtime = q->runtime,
		.plan = q->plan,
		.work_dir = made ? made : q->plan->host_work_dir,
		.stage = t->stage,
		.uid = t->s->uid,
		.gid = t->s->gid,
	};
}

int attend_write(const struct attendance *t, struct err *err)
{
	CLEANUP_JSON json_t *o = json_pack("{s:s,s:s,s:s,s:o,s:I,s:I}", "executor",
					   t->x->settings->name, "job", t->name, "phase",
					   attend_phase_names[t->phase], "capability",
					   capability_json(&t->capability), "uid",
					   (json_int_t)t->s->uid, "gid", (json_int_t)t->s->gid);
	json_object_set_new(o, "accepted_real_ns", json_u64(t->s->accepted_real_ns));
	if (t->handle)
		json_object_set(o, "handle", t->handle);
	const struct ending *e = &t->s->k.ending;
	if (e->stop != STOP_NONE)
		json_object_set_new(o, "stop",
				    json_pack("{s:s,s:s,s:i}", "reason", stop_name(e->stop), "by",
					      e->stop_by ? e->stop_by : "", "signal",
					      e->stop_signal));
	return json_write_file(t->s->k.record.dir_fd, ATTEND_FILE, o, err);
}

int attend_open(struct attendance *t, struct err *err)
{
	const struct keeper_request *q = t->s->k.q;
	t->name = executor_job_name(q->config->home, q->id);
	t->stage = xasprintf("%s/" RECORD_JOBS "/%s", q->config->home, q->id);
	t->capability = *q->capability;
	int r = executor_open(q->config, q->analysis->executor, &t->x, err);
	if (r >= 0 && !t->x)
		r = err_set(err, ERR_HOST, EINVAL, "the executor %s is not one to attend",
			    q->analysis->executor);
	return r;
}

static int make_stage(const struct attendance *t, struct err *err)
{
	CLEANUP_FREE char *parent = xasprintf("%s/" RECORD_JOBS, t->s->k.q->config->home);
	if (mkdir(parent, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "make %s", parent);
	if (mkdir(t->stage, 0700) < 0)
		return err_errno(err, "make %s", t->stage);
	return 0;
}

/* The working directory, if the job has it on this host. */
static int make_place(struct attendance *t, struct err *err)
{
	struct keeper_state *s = t->s;
	int r = make_stage(t, err);
	if (r < 0 || t->capability.judging == JUDGING_THERE)
		return r;
	r = keeper_take_user(s, err);
	if (r >= 0)
		r = keeper_make_scratch(s, s->k.q->config->disk, err);
	return r;
}

int attend_try_again(struct attendance *t, uint64_t until_ns)
{
	struct keeping *k = &t->s->k;
	if (watch_hear_cancel(k, &k->ending.stop_signal, &k->ending.stop_by)) {
		k->ending.stop = STOP_CANCEL;
		return -ECANCELED;
	}
	if (clock_monotonic_ns() > until_ns)
		return -ETIMEDOUT;
	struct timespec pause = { .tv_nsec = RETRY_NS };
	(void)nanosleep(&pause, NULL);
	return 0;
}

static int submit(struct attendance *t, struct err *err)
{
	uint64_t until_ns = clock_monotonic_ns() + t->x->settings->patience_ns;
	struct job job = attend_job(t);
	int r;
	while ((r = t->x->ops->submit(t->x, &job, &t->handle, err)) == -EAGAIN)
		if (attend_try_again(t, until_ns) < 0)
			break;
	return r < 0 ? err_wrap(err, "executor %s", t->x->settings->name) : 0;
}

int attend_submit(struct attendance *t, struct err *err)
{
	struct keeper_state *s = t->s;
	struct keeping *k = &s->k;
	int r = chosen_refused(k->q->chosen) ? 0 : keeper_make_snapshot(s, err);
	if (r < 0)
		return r;
	r = keeper_record_request(s, err);
	if (r >= 0 && chosen_refused(k->q->chosen)) {
		*err = k->q->chosen->unfit;
		return -err->code;
	}
	if (r >= 0 && t->capability.judging == JUDGING_HERE)
		guard_begin(s);
	if (r >= 0)
		r = make_place(t, err);
	guard_ready(s);
	FAULT_PHASE("attend-placed");
	if (r >= 0)
		r = attend_write(t, err);
	FAULT_PHASE("attend-submitting");
	if (r >= 0)
		r = submit(t, err);
	FAULT_PHASE("attend-submitted");
	if (r < 0)
		return r;
	t->phase = ATTEND_SUBMITTED;
	r = attend_write(t, err);
	if (r >= 0)
		r = record_event(&k->record, "submitted",
				 json_pack("{s:s,s:s,s:O}", "executor", t->x->settings->name, "job",
					   t->name, "handle", t->handle),
				 err);
	FAULT_PHASE("attend-noted");
	return r;
}

/* The working directory that the keeper before us made, and no other: whoever may write beside it could have made one since. */
static int open_place(struct attendance *t, struct err *err)
{
	struct keeping *k = &t->s->k;
	const struct plan *p = k->q->plan;
	CLEANUP_TRACES struct traces traces = { 0 };
	struct scratch_mark mark = { 0 };
	traces_read(&k->record, k->q->config, &traces);
	struct scratch_request request = {
		.home = k->q->config->home,
		.path = traces.work_dir,
		.limit_bytes = p->limits.at[LIMIT_DISK].value,
		.limit_inodes = p->limits.at[LIMIT_INODES].value,
	};
	int r = scratch_open(&request, &k->scratch, err);
	if (r < 0)
		return r;
	if (!traces.has_mark || scratch_mark(&k->scratch, &mark) < 0 ||
	    mark.dev != traces.mark.dev || mark.ino != traces.mark.ino) {
		scratch_release(&k->scratch);
		k->scratch = (struct scratch){ .root_fd = -1, .dir_fd = -1, .beside_fd = -1 };
		return err_set(err, ERR_HOST, ESTALE,
			       "%s is not the directory that was made for it", traces.work_dir);
	}
	k->has_scratch = true;
	if (geteuid() == 0 && !k->q->has_uid)
		(void)uid_take_again(t->s->uid, &t->s->lease, NULL);
	return 0;
}

/* What was begun and not finished is begun anew. */
static int tidy(struct attendance *t, struct err *err)
{
	static const char *const begun[] = { "outputs", "partial", "outputs.json" };
	struct record *r = &t->s->k.record;
	int e = record_sync(r, err);
	if (e >= 0)
		e = traces_remove_unfinished(r, err);
	if (e >= 0)
		e = traces_remove_torn(r, err);
	for (size_t i = 0; e >= 0 && i < sizeof begun / sizeof *begun; i++)
		e = fs_remove_tree(r->dir_fd, begun[i], NULL, err);
	return e;
}

static void read_stop(struct attendance *t, const json_t *o)
{
	struct ending *e = &t->s->k.ending;
	const char *reason = json_string_value(json_object_get(o, "reason"));
	const char *by = json_string_value(json_object_get(o, "by"));
	for (int i = 0; reason && i < STOP_COUNT_; i++)
		if (str_eq(reason, stop_name((enum stop)i)))
			e->stop = (enum stop)i;
	(void)snprintf(t->stop_by, sizeof t->stop_by, "%s", by ? by : "");
	e->stop_by = t->stop_by;
	e->stop_signal = (int)json_integer_value(json_object_get(o, "signal"));
}

int attend_read(struct attendance *t, struct err *err)
{
	CLEANUP_JSON json_t *o = NULL;
	int r = json_read_file(t->s->k.record.dir_fd, ATTEND_FILE, FILE_MAX, &o, err);
	if (r < 0)
		return r;
	const char *phase = json_string_value(json_object_get(o, "phase"));
	const char *name = json_string_value(json_object_get(o, "job"));
	if (name) { /* the home may have moved to another disk since */
		free(t->name);
		t->name = xstrdup(name);
	}
	t->phase = str_eq(phase, attend_phase_names[ATTEND_SUBMITTED]) ? ATTEND_SUBMITTED
								       : ATTEND_SUBMITTING;
	if (json_object_get(o, "stop"))
		read_stop(t, json_object_get(o, "stop"));
	t->s->uid = (uid_t)json_integer_value(json_object_get(o, "uid"));
	t->s->gid = (gid_t)json_integer_value(json_object_get(o, "gid"));
	t->s->accepted_real_ns =
		(uint64_t)json_integer_value(json_object_get(o, "accepted_real_ns"));
	t->handle = json_incref(json_object_get(o, "handle"));
	return 0;
}

static int find(struct attendance *t, struct err *err)
{
	uint64_t until_ns = clock_monotonic_ns() + t->x->settings->patience_ns;
	int r = 0;
	while (t->phase == ATTEND_SUBMITTING &&
	       (r = t->x->ops->find(t->x, t->name, &t->handle, err)) == -EAGAIN)
		if (attend_try_again(t, until_ns) < 0)
			break;
	return r;
}

int attend_find(struct attendance *t, struct err *err)
{
	struct keeping *k = &t->s->k;
	int r = attend_read(t, err);
	if (r >= 0)
		r = tidy(t, err);
	if (r >= 0)
		r = record_event(&k->record, "taken-over", NULL, err);
	if (r >= 0)
		guard_missed(t->s);
	if (r >= 0)
		r = find(t, err);
	if (r >= 0 && t->capability.judging == JUDGING_HERE)
		r = open_place(t, err);
	if (r < 0) {
		k->ending.stop = STOP_LOST;
		return r == -ENOENT ? err_set(err, ERR_HOST, ENOENT,
					      "its keeper died before the job was submitted")
				    : r;
	}
	if (t->phase == ATTEND_SUBMITTED)
		return 0;
	t->phase = ATTEND_SUBMITTED;
	return attend_write(t, err);
}

int attend_reap(struct attendance *t, struct err *err)
{
	CLEANUP_FD int home_fd = open(t->s->k.q->config->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP_FREE char *stage = xasprintf(RECORD_JOBS "/%s", t->s->k.q->id);
	int r = t->handle ? 0 : t->x->ops->find(t->x, t->name, &t->handle, err);
	if (r == -ENOENT)
		r = 0;
	if (r >= 0 && t->handle && !t->is_over) /* nobody waits for it any more */
		r = t->x->ops->cancel(t->x, t->handle, err);
	if (r >= 0 && t->handle)
		r = t->x->ops->reap(t->x, t->handle, err);
	if (r >= 0 && home_fd >= 0)
		r = fs_remove_tree(home_fd, stage, NULL, err);
	if (r < 0)
		return r;
	t->phase = ATTEND_REAPED;
	return attend_write(t, err);
}

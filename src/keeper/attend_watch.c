/* Looks at a job until it is over: how it stands, what it printed, what it uses; ends it when its time is up, its disk full, or somebody says so. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "keeper/attend.h"
#include "keeper/describe.h"

#define LOOK_FIRST_NS (20 * NS_PER_MS)
#define LOOK_LAST_NS  (1 * NS_PER_SEC)
#define SAMPLE_NS     (1 * NS_PER_SEC)
#define TAKEN_MAX     (256 * 1024)
/* An engine that is busy with the end of a job may answer a moment later. */
#define LAST_LOGS_TRIES 10
#define LAST_LOGS_MAX   4096 /* megabytes: one that has ever more to give is not waited for */
#define LAST_LOGS_NS    (500 * NS_PER_MS)
/* So long a node's own keeper has to end what it was asked to, beyond the grace of the analysis. */
#define THERE_NS (30 * NS_PER_SEC)

/* For one that took over, the files are there. */
static int open_log(struct attendance *t, int i, const char *name, struct err *err)
{
	struct stream *stream = &t->s->k.streams[i];
	struct stat st = { 0 };
	stream->limit_bytes = t->s->k.q->plan->limits.at[LIMIT_LOG].value;
	stream->file_fd = fs_open_beneath(t->s->k.record.dir_fd, name,
					  O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
	if (stream->file_fd < 0 || fstat(stream->file_fd, &st) < 0)
		return err_set(err, ERR_HOST, EIO, "open %s", name);
	stream->kept_bytes = (uint64_t)st.st_size;
	stream->truncated = stream->kept_bytes > stream->limit_bytes;
	t->offsets[i] = stream->truncated ? stream->limit_bytes : stream->kept_bytes;
	return 0;
}

static int open_logs(struct attendance *t, struct err *err)
{
	struct keeping *k = &t->s->k;
	int r = open_log(t, 0, "stdout.log", err);
	if (r >= 0)
		r = open_log(t, 1, "stderr.log", err);
	k->usage_fd = fs_open_beneath(k->record.dir_fd, "usage.jsonl",
				      O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
	return r;
}

/* A node that began from the beginning prints from the beginning: what was taken is of an attempt that does not count. */
static void empty_logs(struct attendance *t)
{
	for (int i = 0; i < 2; i++) {
		struct stream *stream = &t->s->k.streams[i];
		if (stream->file_fd < 0 || ftruncate(stream->file_fd, 0) < 0)
			continue;
		stream->kept_bytes = stream->dropped_bytes = 0;
		stream->truncated = false;
		t->offsets[i] = 0;
	}
}

/* Everything that is there now. True if there was something. */
static bool take_log(struct attendance *t, int i, char *buffer)
{
	struct keeping *k = &t->s->k;
	struct err err = { 0 };
	bool some = false;
	for (size_t done = 0; done < STREAM_PUMP_MAX;) {
		ssize_t n =
			t->x->ops->logs(t->x, t->handle, i, t->offsets[i], buffer, TAKEN_MAX, &err);
		t->log_errors[i] = n < 0 ? (int)-n : 0;
		if (n <= 0)
			break;
		int r = stream_feed(&k->streams[i], buffer, (size_t)n);
		if (r < 0)
			k->ending.log_errno = -r;
		t->offsets[i] += (uint64_t)n;
		done += (size_t)n;
		some = true;
	}
	return some;
}

static bool take_logs(struct attendance *t)
{
	CLEANUP_FREE char *buffer = xmalloc(TAKEN_MAX);
	bool some = take_log(t, 0, buffer);
	some |= take_log(t, 1, buffer);
	struct keeper_msg msg = { .kind = KEEPER_MSG_LOG };
	if (some)
		keeper_say(&t->s->k, &msg);
	return some;
}

/* What the executor says it applied, as soon as it runs. False: the keeper before us has written it. */
static bool write_receipt(struct attendance *t)
{
	struct keeping *k = &t->s->k;
	char *missing = k->ending.missing_layers;
	size_t room = sizeof k->ending.missing_layers;
	for (size_t i = 0; i < layer_count; i++)
		if (!t->capability.layers[i] &&
		    !(str_eq(layer_names[i], "net") && !k->q->plan->own_network))
			(void)snprintf(missing + strlen(missing), room - strlen(missing), "%s%s",
				       missing[0] ? "," : "", layer_names[i]);
	json_t *o = json_pack("{s:{s:s,s:s,s:o},s:o,s:s}", "executor", "name", t->x->settings->name,
			      "kind", executor_kind_names[t->x->settings->kind], "capability",
			      capability_json(&t->capability), "runtime",
			      chosen_summary_json(k->q->chosen, k->q->runtime), "missing_layers",
			      missing);
	if (t->report.evidence)
		json_object_set(o, "evidence", t->report.evidence);
	if (faccessat(k->record.dir_fd, "receipt.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		json_decref(o);
		return false;
	}
	(void)record_file(&k->record, "receipt.json", o, NULL);
	return true;
}

static void note_started(struct attendance *t)
{
	struct keeper_state *s = t->s;
	struct keeping *k = &s->k;
	const struct limits *l = &k->q->plan->limits;
	uint64_t now_ns = clock_monotonic_ns(), real_ns = clock_real_ns();
	uint64_t began_ns = t->report.started_real_ns;
	uint64_t age_ns = began_ns && began_ns < real_ns ? real_ns - began_ns : 0;
	t->is_running = true;
	k->started_ns = now_ns > age_ns ? now_ns - age_ns : 1;
	s->started_real_ns = real_ns - age_ns;
	if (t->capability.judging == JUDGING_HERE)
		k->end_at = k->started_ns + l->at[LIMIT_TIME].value;
	if (k->end_at && k->q->analysis->warn_signal && l->at[LIMIT_WARN].value &&
	    l->at[LIMIT_WARN].value < l->at[LIMIT_TIME].value)
		k->warn_at = k->end_at - l->at[LIMIT_WARN].value;
	k->sample_at = now_ns;
	if (write_receipt(t))
		(void)record_event(&k->record, "started",
				   json_pack("{s:o}", "reason", json_text(t->report.reason)), NULL);
}

static void give_up(struct attendance *t, const char *why)
{
	t->gave_up = true;
	t->report.state = JOB_UNKNOWN;
	(void)snprintf(t->report.reason, sizeof t->report.reason, "%.190s", why);
}

/* Again and again, until it is dead: an executor may say yes and do nothing. */
static void kill_job(struct attendance *t)
{
	struct err err = { 0 };
	uint64_t now_ns = clock_monotonic_ns();
	t->s->k.ending.forced = true;
	t->s->k.kill_at = now_ns + SAMPLE_NS;
	if (!t->killing_ns)
		t->killing_ns = now_ns;
	(void)t->x->ops->cancel(t->x, t->handle, &err);
	if (now_ns - t->killing_ns > t->x->settings->patience_ns)
		give_up(t, "it could not be ended");
}

static uint64_t grace_ns(const struct attendance *t)
{
	return t->s->k.q->plan->limits.at[LIMIT_GRACE].value +
	       (t->capability.judging == JUDGING_THERE ? THERE_NS : 0);
}

static void stop(struct attendance *t, enum stop stop)
{
	struct keeping *k = &t->s->k;
	struct err err = { 0 };
	bool again = k->ending.stop != STOP_NONE;
	if (!again) {
		k->ending.stop = stop;
		(void)record_event(&k->record, "stopping",
				   json_pack("{s:s}", "reason", stop_name(stop)), NULL);
		(void)attend_write(t, &err); /* whoever takes over wants its end too */
	}
	if (again || stop == STOP_DISK || t->report.state != JOB_RUNNING ||
	    !t->capability.signals || t->x->ops->signal(t->x, t->handle, SIGTERM, &err) < 0)
		kill_job(t);
	else
		k->kill_at = clock_monotonic_ns() + grace_ns(t);
}

static void sample(struct attendance *t, uint64_t now_ns)
{
	struct keeping *k = &t->s->k;
	const struct job_report *r = &t->report;
	struct scratch_use disk = { 0 };
	k->sample_at = now_ns + SAMPLE_NS;
	if (k->has_scratch && watch_disk(k, now_ns, &disk) && k->ending.stop == STOP_NONE)
		stop(t, STOP_DISK);
	uint64_t cpu_ns = k->q->plan->limits.at[LIMIT_CPU_TIME].value;
	if (cpu_ns && t->capability.judging == JUDGING_HERE && r->cpu_usec * 1000 >= cpu_ns &&
	    k->ending.stop == STOP_NONE)
		stop(t, STOP_CPU);
	char line[240];
	int n = snprintf(
		line, sizeof line,
		"{\"t_ms\":%llu,\"mem\":%llu,\"cpu_usec\":%llu,\"pids\":%llu,\"disk\":%llu}\n",
		(unsigned long long)((now_ns - k->started_ns) / NS_PER_MS),
		(unsigned long long)r->mem_bytes, (unsigned long long)r->cpu_usec,
		(unsigned long long)r->pids, (unsigned long long)disk.bytes);
	if (n > 0 && (size_t)n < sizeof line && k->usage_fd >= 0)
		(void)fs_append(k->usage_fd, line, (size_t)n);
	struct keeper_msg msg = { .kind = KEEPER_MSG_SAMPLE,
				  .sample = { now_ns - k->started_ns, r->mem_bytes, r->cpu_usec,
					      r->pids } };
	keeper_say(k, &msg);
}

static void on_clock(struct attendance *t, uint64_t now_ns)
{
	struct keeping *k = &t->s->k;
	struct err err = { 0 };
	if (k->warn_at && now_ns >= k->warn_at) {
		k->warn_at = 0;
		(void)t->x->ops->signal(t->x, t->handle, k->q->analysis->warn_signal, &err);
		(void)record_event(&k->record, "warned",
				   json_pack("{s:i}", "signal", k->q->analysis->warn_signal), NULL);
	}
	if (k->end_at && now_ns >= k->end_at) {
		k->end_at = 0;
		if (k->ending.stop == STOP_NONE)
			stop(t, STOP_DEADLINE);
	}
	if (k->kill_at && now_ns >= k->kill_at)
		kill_job(t);
	if (t->is_running && k->sample_at && now_ns >= k->sample_at)
		sample(t, now_ns);
}

/* An engine that does not answer may be restarting; its jobs go on meanwhile. */
static void on_unreachable(struct attendance *t, const struct err *why)
{
	struct keeping *k = &t->s->k;
	uint64_t now_ns = clock_monotonic_ns();
	if (!t->unreachable_ns) {
		t->unreachable_ns = now_ns;
		(void)record_event(&k->record, "unreachable",
				   json_pack("{s:o}", "error", json_text(why->text)), NULL);
	}
	if (now_ns - t->unreachable_ns < t->x->settings->patience_ns)
		return;
	CLEANUP_FREE char *text = xasprintf("not reached for too long: %.120s", why->text);
	give_up(t, text);
}

static void note_usage(struct attendance *t)
{
	struct usage now = { 0 };
	now.mem_bytes = t->report.mem_bytes;
	now.mem_peak_bytes = t->report.mem_peak_bytes > t->report.mem_bytes
				     ? t->report.mem_peak_bytes
				     : t->report.mem_bytes;
	now.cpu_usec = t->report.cpu_usec > t->s->k.ending.usage.cpu_usec
			       ? t->report.cpu_usec
			       : t->s->k.ending.usage.cpu_usec;
	now.pids = now.pids_peak = t->report.pids;
	watch_note_usage(&t->s->k, &now);
}

static void look(struct attendance *t)
{
	struct keeping *k = &t->s->k;
	struct job_report report = { 0 };
	struct err err = { 0 };
	int r = t->x->ops->poll(t->x, t->handle, &report, &err);
	if (r < 0) {
		job_report_release(&report);
		on_unreachable(t, &err);
		return;
	}
	if (t->unreachable_ns)
		(void)record_event(&k->record, "reached-again", NULL, NULL);
	t->unreachable_ns = 0;
	job_report_release(&t->report);
	t->report = report;
	note_usage(t);
	if (report.restarts != t->restarts) {
		t->restarts = report.restarts;
		if (t->capability.judging == JUDGING_THERE)
			empty_logs(t);
		(void)record_event(&k->record, "restarted",
				   json_pack("{s:i,s:o}", "restarts", (int)report.restarts,
					     "reason", json_text(report.reason)),
				   NULL);
	}
	if (!t->is_running && (report.state == JOB_RUNNING || report.started))
		note_started(t);
	t->is_over = report.state == JOB_ENDED || report.state == JOB_GONE;
}

/* Until something is to be heard, or for the time given. */
static void wait_a_while(struct attendance *t, uint64_t wait_ns)
{
	struct keeping *k = &t->s->k;
	struct pollfd fds[] = { { .fd = k->signal_fd, .events = POLLIN },
				{ .fd = k->report_fd, .events = POLLIN } };
	int number = 0;
	const char *by = NULL;
	if (poll(fds, 2, (int)(wait_ns / NS_PER_MS)) <= 0)
		return;
	while (watch_hear_cancel(k, &number, &by)) {
		if (k->ending.stop == STOP_NONE) {
			k->ending.stop_signal = number;
			k->ending.stop_by = by;
		}
		stop(t, STOP_CANCEL);
	}
}

/* The rest, now that there will be no more. What can't be had is said in the verdict. */
static void take_last_logs(struct attendance *t)
{
	struct timespec pause = { .tv_nsec = LAST_LOGS_NS };
	for (int tries = 0; tries < LAST_LOGS_TRIES; tries++) {
		for (int more = 0; more < LAST_LOGS_MAX && take_logs(t); more++)
			;
		if (t->log_errors[0] != EAGAIN && t->log_errors[1] != EAGAIN)
			break;
		(void)nanosleep(&pause, NULL);
	}
	for (int i = 0; i < 2; i++)
		if (t->log_errors[i] && !t->s->k.ending.log_errno)
			t->s->k.ending.log_errno = t->log_errors[i];
}

void attend_watch(struct attendance *t)
{
	struct keeping *k = &t->s->k;
	struct err err = { 0 };
	uint64_t wait_ns = LOOK_FIRST_NS;
	if (open_logs(t, &err) < 0)
		k->ending.log_errno = err.code;
	if (k->ending.stop != STOP_NONE) /* the keeper before us was at it */
		k->kill_at = clock_monotonic_ns() + grace_ns(t);
	for (;;) {
		look(t);
		bool some = take_logs(t);
		FAULT_PHASE("attend-looked");
		if (t->is_over || t->gave_up)
			break;
		on_clock(t, clock_monotonic_ns());
		wait_a_while(t, wait_ns);
		wait_ns = some ? LOOK_FIRST_NS : wait_ns + wait_ns / 2;
		wait_ns = wait_ns > LOOK_LAST_NS ? LOOK_LAST_NS : wait_ns;
	}
	if (!t->gave_up)
		take_last_logs(t);
	uint64_t ended_ns = clock_real_ns();
	if (t->report.ended_real_ns && t->report.ended_real_ns < ended_ns)
		ended_ns = t->report.ended_real_ns;
	if (t->s->started_real_ns && ended_ns > t->s->started_real_ns)
		k->ending.wall_ns = ended_ns - t->s->started_real_ns;
}

/* The story of one run, a call a step. Whatever fails before the box runs ends as the cause `setup`; whatever happens afterwards,
 * the box is dead, what was made for it is removed, and verdict.json is written last. */
#include "keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/path.h"
#include "base/proc.h"
#include "collect/outputs.h"
#include "keeper/describe.h"
#include "keeper/uids.h"
#include "keeper/watch.h"

#define FIRST_SAMPLE_NS (20 * NS_PER_MS)

struct keeper_state {
	struct keeping k;
	struct uid_lease lease;
	uid_t uid; /* of the run */
	gid_t gid;
	struct manifest manifest;
	uint64_t accepted_real_ns, started_real_ns, ended_real_ns;
};

/* Signals become readable events; the box's init resets them for the analysis. */
static int take_signals(struct keeping *k, struct err *err)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGPIPE);
	sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
		return err_errno(err, "block signals");
	k->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return k->signal_fd < 0 ? err_errno(err, "read signals") : 0;
}

static int claim(struct keeper_state *s, struct err *err)
{
	struct keeping *k = &s->k;
	const struct keeper_request *q = k->q;
	struct record_traces traces = { .work_dir = q->plan->work_dir,
					.cgroup_parent = q->config->cgroup_parent };
	int r = record_claim(q->config->home, q->id, &traces, &k->record, err);
	if (r < 0)
		return r;
	s->accepted_real_ns = clock_real_ns();
	r = record_event(&k->record, "accepted", describe_caller(), err);
	if (r >= 0)
		r = record_file(&k->record, "analysis.json", describe_analysis(q), err);
	if (r >= 0)
		r = record_file(&k->record, "plan.json", plan_json(q->plan), err);
	return r;
}

static int take_user(struct keeper_state *s, struct err *err)
{
	const struct keeper_request *q = s->k.q;
	s->uid = q->host->uid;
	s->gid = q->host->gid;
	if (!q->host->is_root)
		return 0;
	int r = uid_take(q->config->home, q->config->uid_first, q->config->uid_count, &s->lease,
			 err);
	s->uid = s->gid = s->lease.uid;
	return r;
}

static int make_scratch(struct keeper_state *s, struct err *err)
{
	const struct keeper_request *q = s->k.q;
	struct scratch_request request = {
		.home = q->config->home,
		.path = q->plan->work_dir,
		.limit_bytes = q->plan->limits.at[LIMIT_DISK].value,
		.limit_inodes = q->plan->limits.at[LIMIT_INODES].value,
		.owner_uid = s->uid,
		.owner_gid = s->gid,
		.mechanism = q->config->disk,
		.may_miss = plan_may_miss(q->plan, "disk"),
	};
	int r = scratch_create(&request, &s->k.scratch, err);
	if (r < 0)
		return r;
	s->k.has_scratch = true;
	for (size_t i = 0; i < q->plan->work_dirs.n; i++) {
		r = scratch_mkdir(&s->k.scratch, q->plan->work_dirs.v[i], 0755, s->uid, s->gid);
		if (r < 0)
			return err_set(err, ERR_HOST, -r, "make %s/%s: %s", q->plan->work_dir,
				       q->plan->work_dirs.v[i], strerrordesc_np(-r));
	}
	return 0;
}

static int make_budget(struct keeper_state *s, struct err *err)
{
	const struct keeper_request *q = s->k.q;
	struct budget_request request = {
		.id = q->id,
		.parent = q->config->cgroup_parent,
		.manager = q->config->cgroup_manager,
		.limits = &q->plan->limits,
		.aggregate = &q->config->aggregate,
		.may_miss_memory = plan_may_miss(q->plan, "memory"),
		.may_miss_cpu = plan_may_miss(q->plan, "cpu"),
		.may_miss_pids = plan_may_miss(q->plan, "pids"),
	};
	return budget_create(&request, &s->k.budget, err);
}

static int open_log(struct keeper_state *s, int i, const char *name, int *pipe_fd, struct err *err)
{
	struct stream *stream = &s->k.streams[i];
	stream->file_fd = fs_open_beneath(s->k.record.dir_fd, name,
					  O_CREAT | O_EXCL | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
	if (stream->file_fd < 0)
		return err_set(err, ERR_HOST, -stream->file_fd, "make %s: %s", name,
			       strerrordesc_np(-stream->file_fd));
	stream->pipe_fd = take_fd(pipe_fd);
	stream->limit_bytes = s->k.q->plan->limits.at[LIMIT_LOG].value;
	return 0;
}

static int open_logs(struct keeper_state *s, struct err *err)
{
	struct keeping *k = &s->k;
	int r = open_log(s, 0, "stdout.log", &k->box.out_fd, err);
	if (r >= 0)
		r = open_log(s, 1, "stderr.log", &k->box.err_fd, err);
	if (r < 0)
		return r;
	k->usage_fd = fs_open_beneath(k->record.dir_fd, "usage.jsonl",
				      O_CREAT | O_EXCL | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
	return k->usage_fd < 0 ? err_set(err, ERR_HOST, -k->usage_fd, "make usage.jsonl") : 0;
}

static int make_box(struct keeper_state *s, struct err *err)
{
	struct keeping *k = &s->k;
	struct launch_request request = {
		.plan = k->q->plan,
		.budget = k->budget,
		.uid = s->uid,
		.gid = s->gid,
		.is_root = k->q->host->is_root,
		.work_fd = k->scratch.dir_fd,
	};
	int r = launch(&request, &k->box, err);
	stages_mark(&k->stages, STAGE_BOX);
	if (r >= 0)
		r = record_file(&k->record, "receipt.json", describe_receipt(k), err);
	if (r >= 0)
		r = open_logs(s, err);
	stages_mark(&k->stages, STAGE_RECEIPT);
	return r;
}

static int go(struct keeper_state *s, struct err *err)
{
	struct keeping *k = &s->k;
	const struct limits *l = &k->q->plan->limits;
	describe_missing(k, k->ending.missing_layers, sizeof k->ending.missing_layers);
	int r = record_event(
		&k->record, "started",
		json_pack("{s:i,s:I}", "init_pid", (int)k->box.pid, "uid", (json_int_t)s->uid),
		err);
	if (r >= 0)
		r = record_sync(&k->record, err);
	if (r < 0)
		return r;
	k->started_ns = clock_monotonic_ns();
	s->started_real_ns = clock_real_ns();
	k->end_at = k->started_ns + l->at[LIMIT_TIME].value;
	k->sample_at = k->started_ns + FIRST_SAMPLE_NS;
	if (k->q->analysis->warn_signal && l->at[LIMIT_WARN].value &&
	    l->at[LIMIT_WARN].value < l->at[LIMIT_TIME].value)
		k->warn_at = k->end_at - l->at[LIMIT_WARN].value;
	r = launch_go(&k->box, err);
	if (r < 0)
		return r;
	struct keeper_msg msg = { .kind = KEEPER_MSG_STARTED };
	keeper_say(k, &msg);
	return 0;
}

/* Everything up to the go. A failure is the host's, and is recorded as `setup`. */
static int prepare(struct keeper_state *s, struct err *err)
{
	struct stages *stages = &s->k.stages;
	int r = take_user(s, err);
	if (r >= 0)
		r = make_scratch(s, err);
	stages_mark(stages, STAGE_SCRATCH);
	if (r >= 0)
		r = make_budget(s, err);
	stages_mark(stages, STAGE_BUDGET);
	if (r >= 0)
		r = make_box(s, err);
	if (r >= 0)
		r = go(s, err);
	stages_mark(stages, STAGE_START);
	return r;
}

static void read_end(struct keeper_state *s)
{
	struct keeping *k = &s->k;
	struct scratch_use disk;
	struct usage u;
	s->ended_real_ns = clock_real_ns();
	if (k->budget && k->budget->ops->read_usage(k->budget, &u, NULL) >= 0)
		watch_note_usage(k, &u);
	if (k->has_scratch && scratch_measure(&k->scratch, &disk) >= 0 && disk.full)
		k->ending.disk_full = true;
	k->ending.disk_peak_bytes = k->scratch.peak_bytes;
	k->ending.disk_peak_inodes = k->scratch.peak_inodes;
	(void)snprintf(k->ending.disk_mechanism, sizeof k->ending.disk_mechanism, "%s",
		       k->scratch.mechanism);
	for (int i = 0; i < 2; i++) {
		(void)stream_finish(&k->streams[i]);
		k->ending.log_dropped[i] = k->streams[i].dropped_bytes;
	}
	(void)record_event(&k->record, "ended", describe_end(k), NULL);
}

static void collect(struct keeper_state *s)
{
	struct keeping *k = &s->k;
	const struct analysis *a = k->q->analysis;
	struct err err = { 0 };
	struct collect_request request = {
		.work_fd = k->scratch.dir_fd,
		.run_fd = k->record.dir_fd,
		.uid = s->uid,
		.gid = s->gid,
		.outputs = a->outputs,
		.n_outputs = a->n_outputs,
		.max_bytes = k->q->plan->limits.at[LIMIT_OUTPUT_SIZE].value,
		.max_count = k->q->plan->limits.at[LIMIT_OUTPUT_COUNT].value,
	};
	int r = outputs_collect(&request, &s->manifest, &err);
	if (r >= 0)
		r = record_file(&k->record, "outputs.json", manifest_json(&s->manifest), &err);
	if (r < 0) {
		(void)record_event(&k->record, "collect-failed",
				   json_pack("{s:o}", "error", json_text(err.text)), NULL);
		if (k->ending.stop == STOP_NONE) {
			k->ending.stop = STOP_RECORD;
			k->ending.setup = err;
		}
		return;
	}
	k->ending.output_over_cap = s->manifest.over_cap;
	k->ending.output_missing = s->manifest.missing;
	k->ending.outputs_refused = s->manifest.n_refused_all;
	(void)record_event(&k->record, "collected",
			   json_pack("{s:I,s:o}", "files", (json_int_t)s->manifest.n_files, "bytes",
				     json_u64(s->manifest.bytes)),
			   NULL);
}

/* A kept working directory is a plain copy with the keeper's ownership in the run directory: it neither holds the run's
 * mount nor belongs to a uid that another run will have. */
static void keep(struct keeper_state *s)
{
	struct keeping *k = &s->k;
	struct verdict v;
	struct err err = { 0 };
	uint64_t files = 0;
	verdict_decide(&k->ending, &v);
	if (k->q->keep == KEEP_NEVER || (k->q->keep == KEEP_FAILED && v.cause == CAUSE_OK))
		return;
	int r = mkdirat(k->record.dir_fd, "work", 0700) < 0 ? err_errno(&err, "make work/") : 0;
	CLEANUP_FD int dest_fd = r < 0 ? -1
				       : fs_open_beneath(k->record.dir_fd, "work",
							 O_DIRECTORY | O_RDONLY | O_CLOEXEC, 0);
	if (r >= 0)
		r = outputs_keep(k->scratch.dir_fd, dest_fd, s->uid, s->gid, &files, &err);
	(void)record_event(
		&k->record, r < 0 ? "keep-failed" : "kept",
		json_pack("{s:I,s:o}", "files", (json_int_t)files, "error", json_text(err.text)),
		NULL);
}

/* Nothing of the run stays on the host but its record. */
static void clean(struct keeper_state *s)
{
	struct keeping *k = &s->k;
	struct err err = { 0 };
	struct fs_removed removed = { 0 };
	if (k->budget && k->budget->ops->remove(k->budget, &err) < 0)
		(void)record_event(&k->record, "cgroup-remains",
				   json_pack("{s:o}", "error", json_text(err.text)), NULL);
	if (!k->has_scratch)
		return;
	int r = scratch_remove(&k->scratch, &removed, &err);
	(void)record_event(
		&k->record, "removed",
		json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "path", json_text(k->q->plan->work_dir),
			  "files", json_u64(removed.files), "dirs", json_u64(removed.dirs), "bytes",
			  json_u64(removed.bytes), "remained", json_u64(removed.remained), "error",
			  r < 0 ? json_text(err.text) : json_null()),
		NULL);
}

/* The last step: from here on the run is complete. */
static int finish(struct keeper_state *s, struct verdict *v, struct err *err)
{
	struct keeping *k = &s->k;
	verdict_decide(&k->ending, v);
	int r = record_event(&k->record, "verdict",
			     json_pack("{s:s,s:i}", "cause", cause_name(v->cause), "exit_status",
				       v->exit_status),
			     err);
	if (r < 0)
		return r;
	struct run_times times = { s->accepted_real_ns, s->started_real_ns, s->ended_real_ns };
	return record_finish(&k->record, describe_verdict(k, v, &times), err);
}

static void run(struct keeper_state *s)
{
	struct keeping *k = &s->k;
	struct err err = { 0 };
	struct verdict v = { 0 };
	k->ending.limits = k->q->plan->limits;
	k->ending.program = k->q->plan->argv.v[0];
	if (prepare(s, &err) < 0) {
		k->ending.stop = STOP_SETUP;
		k->ending.setup = err;
		if (k->box.pid_fd >= 0) {
			(void)proc_signal(k->box.pid_fd, SIGKILL);
			(void)proc_wait(k->box.pid_fd, NULL);
		}
	} else {
		watch(k);
	}
	stages_mark(&k->stages, STAGE_RUN);
	read_end(s);
	if (k->started_ns) {
		collect(s);
		keep(s);
	}
	stages_mark(&k->stages, STAGE_COLLECT);
	clean(s);
	stages_mark(&k->stages, STAGE_CLEAN);
	struct keeper_msg msg = { .kind = KEEPER_MSG_ENDED };
	if (finish(s, &v, &err) < 0)
		msg = (struct keeper_msg){ .kind = KEEPER_MSG_UNRECORDED, .err = err };
	else
		msg.ended.exit_status = v.exit_status;
	stages_mark(&k->stages, STAGE_VERDICT);
	if (msg.kind == KEEPER_MSG_ENDED)
		msg.ended.stages = k->stages;
	/* This one must arrive: it may wait for room. */
	if (k->report_fd >= 0)
		(void)send(k->report_fd, &msg, sizeof msg, MSG_NOSIGNAL);
}

_Noreturn void keeper_main(const struct keeper_request *request)
{
	struct keeper_state s = {
		.k = {
			.q = request,
			.record = RECORD_INIT,
			.box = LAUNCHED_INIT,
			.scratch = { .root_fd = -1, .dir_fd = -1 },
			.streams = { { .pipe_fd = -1, .file_fd = -1 }, { .pipe_fd = -1, .file_fd = -1 } },
			.usage_fd = -1,
			.signal_fd = -1,
			.report_fd = request->report_fd,
		},
		.lease = { .lock_fd = -1 },
	};
	struct err err = { 0 };
	(void)prctl(PR_SET_NAME, "cupel-keeper");
	(void)setsid(); /* the terminal's signals go to `cupel run`, which passes them on in words */
	stages_begin(&s.k.stages);
	int r = take_signals(&s.k, &err);
	if (r >= 0)
		r = claim(&s, &err);
	if (r < 0) {
		struct keeper_msg msg = { .kind = KEEPER_MSG_REFUSED, .err = err };
		(void)send(s.k.report_fd, &msg, sizeof msg, MSG_NOSIGNAL);
		_exit(125);
	}
	stages_mark(&s.k.stages, STAGE_CLAIM);
	run(&s);
	_exit(0); /* the process's end frees the rest, locks included */
}

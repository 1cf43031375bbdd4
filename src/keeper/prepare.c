/* From an id that was taken to an analysis that runs: user, budget, box and beside it the disk, go. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fault.h"
#include "base/fs.h"
#include "keeper/describe.h"
#include "keeper/oci.h"
#include "keeper/state.h"
#include "runtime/rootfs.h"

#define FIRST_SAMPLE_NS (20 * NS_PER_MS)

int keeper_take_user(struct keeper_state *s, struct err *err)
{
	const struct keeper_request *q = s->k.q;
	s->uid = q->host->uid;
	s->gid = q->host->gid;
	if (!q->host->is_root)
		return 0;
	if (q->has_uid) {
		s->uid = q->uid;
		s->gid = q->gid;
		return 0;
	}
	int r = uid_take(q->config->uid_first, q->config->uid_count, &s->lease, err);
	s->uid = s->gid = s->lease.uid;
	return r;
}

static int snapshot_changed(struct keeper_state *s, struct err *err)
{
	const struct analysis *a = s->k.q->analysis;
	s->k.ending.stop = STOP_INPUT;
	return err_set(
		err, ERR_CALLER, ESTALE,
		"not the same analysis any more: the snapshot of %s has changed: SHA-256 %.12s then, %.12s now",
		a->db_snapshot, a->db_snapshot_sha256, s->snapshot.sha256);
}

/* Before anything else: it may take as long as any copy. */
int keeper_make_snapshot(struct keeper_state *s, struct err *err)
{
	struct keeping *k = &s->k;
	const struct analysis *a = k->q->analysis;
	if (!a->db_snapshot)
		return 0;
	struct snapshot_request request = {
		.path = a->db_snapshot,
		.dir_fd = k->record.dir_fd,
		.max_bytes = k->q->plan->limits.at[LIMIT_DISK].value,
		.wake_fds = { k->signal_fd, k->report_fd },
	};
	int r;
	/* Not every signal asks for the end. */
	while ((r = snapshot_make(&request, &s->snapshot, err)) == -ECANCELED) {
		if (watch_hear_cancel(k, &k->ending.stop_signal, &k->ending.stop_by)) {
			k->ending.stop = STOP_CANCEL;
			return r;
		}
		(void)snapshot_remove(k->record.dir_fd);
	}
	FAULT_PHASE("snapshot-made");
	if (r >= 0 && a->db_snapshot_sha256[0] &&
	    !str_eq(a->db_snapshot_sha256, s->snapshot.sha256))
		return snapshot_changed(s, err);
	return r;
}

/* From here on a sweep knows this directory for the run's. */
static int note_scratch(struct keeper_state *s)
{
	struct scratch_mark mark;
	char line[64];
	int r = scratch_mark(&s->k.scratch, &mark);
	if (r < 0)
		return r;
	(void)snprintf(line, sizeof line, "made %llu %llu", (unsigned long long)mark.dev,
		       (unsigned long long)mark.ino);
	/* An image is gone with the host's mounts; a plain directory is still there after a restart. */
	return record_note(&s->k.record, line,
			   s->k.scratch.mounted ? RECORD_NOTE_PLAIN : RECORD_NOTE_DURABLE);
}

static struct scratch_request scratch_request_of(const struct keeper_state *s, int mechanism)
{
	const struct keeper_request *q = s->k.q;
	return (struct scratch_request){
		.home = q->config->home,
		.path = q->plan->host_work_dir,
		.limit_bytes = q->plan->limits.at[LIMIT_DISK].value,
		.limit_inodes = q->plan->limits.at[LIMIT_INODES].value,
		.owner_uid = s->uid,
		.owner_gid = s->gid,
		.mechanism = mechanism,
		.may_miss = plan_may_miss(q->plan, "disk"),
		.dirs = &q->plan->work_dirs,
	};
}

int keeper_make_scratch(struct keeper_state *s, int mechanism, struct err *err)
{
	struct scratch_request request = scratch_request_of(s, mechanism);
	int r = scratch_create(&request, &s->k.scratch, err);
	if (r < 0)
		return r;
	FAULT_PHASE("scratch-made");
	s->k.has_scratch = true;
	r = note_scratch(s);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "note the working directory: %s",
			       strerrordesc_np(-r));
	FAULT_PHASE("scratch-noted");
	r = scratch_make_dirs(&s->k.scratch, &request, err);
	FAULT_PHASE("work-dirs-made");
	return r;
}

/* Init has made it, in memory. There is nothing to note: it has no name, and goes with its last descriptor. */
static int take_scratch(struct keeper_state *s, struct err *err)
{
	struct scratch_request request = scratch_request_of(s, DISK_AUTO);
	CLEANUP_FD int mount_fd = -1;
	int r = launch_take_work(&s->k.box, &mount_fd, err);
	FAULT_PHASE("memory-taken");
	if (r >= 0)
		r = scratch_adopt(&request, mount_fd, &s->k.scratch, err);
	if (r < 0)
		return r;
	s->k.has_scratch = true;
	r = scratch_make_dirs(&s->k.scratch, &request, err);
	FAULT_PHASE("memory-dirs-made");
	return r;
}

static int make_budget(struct keeper_state *s, struct err *err)
{
	const struct keeper_request *q = s->k.q;
	CLEANUP_FREE char *group = record_group(q->config->home, q->id);
	struct budget_request request = {
		.id = group,
		.parent = q->config->cgroup_parent,
		.manager = q->config->cgroup_manager,
		.limits = &q->plan->limits,
		.aggregate = &q->config->aggregate,
		.cpu_weight = q->config->cpu_weight,
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

static int begin_box(struct keeper_state *s, struct err *err)
{
	struct keeping *k = &s->k;
	const struct rootfs *tree = k->q->runtime->tree;
	CLEANUP_FREE char *group = k->q->oci ? record_group(k->q->config->home, k->q->id) : NULL;
	struct launch_request request = {
		.plan = k->q->plan,
		.budget = k->budget,
		.uid = s->uid,
		.gid = s->gid,
		.is_root = k->q->host->is_root,
		.image_fd = tree && tree->is_mounted ? tree->fd : -1,
		.oci = k->q->oci,
		.home = k->q->config->home,
		.id = k->q->id,
		.group = group,
	};
	int r = launch_begin(&request, &k->box, err);
	if (r >= 0)
		guard_begin(s);
	if (k->box.oci)
		k->executor = oci_json(&k->box);
	k->ending.own_kernel = oci_is_guest(&k->box);
	stages_mark(&k->stages, STAGE_CLONE);
	return r;
}

/* A task of its own: what was asked for is to survive a power cut before anything of it can run, and nobody else waits for that. */
static void sync_task(void *data)
{
	struct keeper_state *s = data;
	s->sync_result = record_sync_claim(&s->k.record, &s->sync_err);
	FAULT_PHASE("request-synced");
}

static int record_request(struct keeper_state *s, struct err *err)
{
	struct record *record = &s->k.record;
	json_t *analysis = describe_analysis(s->k.q);
	json_t *snapshot = json_object_get(analysis, "db_snapshot");
	if (snapshot && s->snapshot.sha256[0]) {
		json_object_set_new(snapshot, "sha256", json_string(s->snapshot.sha256));
		json_object_set_new(snapshot, "bytes", json_u64(s->snapshot.bytes));
	}
	int r = record_file(record, "analysis.json", analysis, err);
	if (r >= 0 && s->k.q->plan->n_steps)
		r = record_text(record, "plan.json", plan_text(s->k.q->plan), err);
	FAULT_PHASE("request-recorded");
	if (r >= 0)
		task_start(&s->sync_task, sync_task, s);
	stages_mark(&s->k.stages, STAGE_RECORD);
	return r;
}

/* The record is the task's own until then. */
static int request_synced(struct keeper_state *s, struct err *err)
{
	task_join(&s->sync_task);
	if (s->sync_result < 0)
		*err = s->sync_err;
	return s->sync_result;
}

/* While the box makes its root, which takes longer, and the request becomes durable. */
static int make_work(struct keeper_state *s, struct err *err)
{
	int r = s->k.q->analysis->scratch == SCRATCH_MEMORY
			? take_scratch(s, err)
			: keeper_make_scratch(s, s->k.q->config->disk, err);
	if (r >= 0 && s->k.checkpoint.path)
		r = keeper_open_checkpoint(s, err);
	stages_mark(&s->k.stages, STAGE_SCRATCH);
	return r;
}

static int finish_box(struct keeper_state *s, struct err *err)
{
	struct keeping *k = &s->k;
	CLEANUP_FD int mount_fd = -1;
	int r = make_work(s, err);
	if (r < 0)
		return r;
	r = scratch_mount_copy(&k->scratch, &mount_fd, err);
	if (r >= 0)
		r = launch_work(&k->box, k->scratch.dir_fd, mount_fd, err);
	cleanup_fd(&mount_fd);
	if (r >= 0 && k->checkpoint.path)
		r = keeper_hand_checkpoint(s, err);
	FAULT_PHASE("work-handed-over");
	if (r >= 0)
		r = open_logs(s, err);
	FAULT_PHASE("logs-open");
	if (r >= 0)
		r = launch_ready(&k->box, err);
	FAULT_PHASE("box-launched");
	stages_mark(&k->stages, STAGE_BOX);
	if (r >= 0)
		r = request_synced(s, err);
	if (r >= 0)
		r = record_file(&k->record, "receipt.json", describe_receipt(k), err);
	if (r >= 0)
		guard_ready(s);
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
	if (r < 0)
		return r;
	FAULT_PHASE("start-recorded");
	k->started_ns = clock_monotonic_ns();
	s->started_real_ns = clock_real_ns();
	k->end_at = k->started_ns + l->at[LIMIT_TIME].value;
	k->sample_at = k->started_ns + FIRST_SAMPLE_NS;
	if (k->q->analysis->warn_signal && l->at[LIMIT_WARN].value &&
	    l->at[LIMIT_WARN].value < l->at[LIMIT_TIME].value)
		k->warn_at = k->end_at - l->at[LIMIT_WARN].value;
	return launch_go(&k->box, err);
}

int keeper_record_request(struct keeper_state *s, struct err *err)
{
	int r = record_request(s, err);
	return r < 0 ? r : request_synced(s, err);
}

/* A runtime that is not what it was: recorded, so that it can be explained, and nothing is made for it. */
static int refuse(struct keeper_state *s, struct err *err)
{
	int r = keeper_record_request(s, err);
	if (r < 0)
		return r;
	*err = s->k.q->chosen->unfit;
	return -err->code;
}

/* What was asked for is recorded all the same. */
static int refuse_snapshot(struct keeper_state *s, int code, struct err *err)
{
	struct err unrecorded = { 0 };
	int r = keeper_record_request(s, &unrecorded);
	if (r < 0)
		*err = unrecorded;
	return r < 0 ? r : code;
}

int keeper_prepare(struct keeper_state *s, struct err *err)
{
	struct stages *stages = &s->k.stages;
	if (chosen_refused(s->k.q->chosen))
		return refuse(s, err);
	int r = keeper_make_snapshot(s, err);
	if (r < 0)
		return refuse_snapshot(s, r, err);
	r = keeper_take_user(s, err);
	if (r >= 0)
		r = make_budget(s, err);
	FAULT_PHASE("budget-made");
	stages_mark(stages, STAGE_BUDGET);
	if (r >= 0)
		r = begin_box(s, err);
	if (r >= 0)
		r = record_request(s, err);
	if (r >= 0)
		r = finish_box(s, err);
	if (r >= 0)
		r = go(s, err);
	task_join(&s->sync_task);
	guard_join(s);
	FAULT_PHASE("started");
	stages_mark(stages, STAGE_START);
	return r;
}

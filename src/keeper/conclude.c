/* From a box that is dead to a record that is complete: usage, outputs, clean-up, verdict. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fs.h"
#include "collect/examine.h"
#include "collect/store.h"
#include "executor/executor.h"
#include "keeper/describe.h"
#include "keeper/state.h"
#include "runtime/driver.h"

#define KEEP_TEMP FS_TEMP_PREFIX "work"

/* The first thing shown to the analysis that is no longer what was recorded, or NULL. */
static const char *changed_input(const struct keeper_request *q)
{
	const struct analysis *a = q->analysis;
	CLEANUP_CONTENTS_READER struct contents_reader reader = { .cache_fd = -1 };
	if (!a->code.n && !a->n_inputs)
		return NULL;
	contents_begin(&reader, q->config->home);
	for (size_t i = 0; a->code_contents && i < a->code.n; i++)
		if (!contents_holds(&reader, a->code.v[i], &a->code_contents[i]))
			return a->code.v[i];
	for (size_t i = 0; i < a->n_inputs; i++)
		if (a->inputs[i].contents.kind &&
		    !contents_holds(&reader, a->inputs[i].path, &a->inputs[i].contents))
			return a->inputs[i].path;
	return NULL;
}

/* "bash: line 1: x: unbound variable" and "sh: 1: x: parameter not set" are the last words of a shell that met one. */
static bool met_unset_variable(int dir_fd)
{
	static const char *const words[] = { ": unbound variable\n", ": parameter not set\n" };
	char text[1024];
	struct stat st = { 0 };
	CLEANUP_FD int fd = openat(dir_fd, "stderr.log", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	off_t from = st.st_size > (off_t)sizeof text - 1 ? st.st_size - (off_t)sizeof text + 1 : 0;
	ssize_t n = pread(fd, text, sizeof text - 1, from);
	text[n > 0 ? n : 0] = '\0';
	return str_ends(text, words[0]) || str_ends(text, words[1]);
}

void keeper_read_end(struct keeper_state *s)
{
	struct keeping *k = &s->k;
	struct scratch_use disk;
	struct usage u;
	FAULT_PHASE("box-dead");
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
		int r = stream_finish(&k->streams[i]);
		if (r < 0)
			k->ending.log_errno = -r;
		k->ending.log_dropped[i] = k->streams[i].dropped_bytes;
	}
	if (driver_runs(k->q->runtime, k->q->analysis) && k->has_scratch &&
	    notebook_end_read(k->scratch.dir_fd, &s->notebook) >= 0)
		k->ending.notebook = &s->notebook;
	if (k->started_ns)
		k->ending.input_changed = changed_input(k->q);
	if (k->ending.strict_shell != STRICT_NONE)
		k->ending.unset_variable = met_unset_variable(k->record.dir_fd);
	(void)record_event(&k->record, "ended", describe_end(k), NULL);
	FAULT_PHASE("end-recorded");
}

static void note_outputs(struct keeping *k, const struct manifest *m)
{
	k->ending.output_over_cap = m->over_cap;
	k->ending.output_missing = m->missing;
	k->ending.output_damaged = m->damaged;
	k->ending.output_invalid = m->invalid;
	k->ending.output_warning = m->warning;
	k->ending.outputs_warned = m->n_warned;
	k->ending.outputs_refused = m->n_refused_all;
}

/* What was collected is looked into. If the run is a success its outputs are shared with those of others; if not they are set
 * aside, and nothing will ever take them for results. */
static int settle_outputs(struct keeper_state *s, struct err *err)
{
	struct keeping *k = &s->k;
	struct verdict v;
	outputs_examine(k->record.dir_fd, &s->manifest);
	FAULT_PHASE("outputs-examined");
	note_outputs(k, &s->manifest);
	verdict_decide(&k->ending, &v);
	if (v.cause == CAUSE_OK && k->q->after) {
		keeper_after(s);
		verdict_decide(&k->ending, &v);
	}
	s->manifest.partial = v.cause != CAUSE_OK;
	if (s->manifest.n_files == 0)
		return 0;
	if (s->manifest.partial)
		return record_set_outputs_aside(&k->record, err);
	struct store_report report = { 0 };
	int r = outputs_store(k->record.home_fd, k->record.dir_fd, &s->manifest, &report, err);
	if (r < 0 || (!report.copied && !report.damaged[0]))
		return r;
	return record_event(&k->record, "store-incomplete",
			    json_pack("{s:o,s:s}", "copied", json_u64(report.copied),
				      "damaged_object", report.damaged),
			    err);
}

void keeper_collect(struct keeper_state *s)
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
		.sync_sources = k->scratch.mounted,
		.takes_links = k->q->capability && k->q->capability->judging == JUDGING_THERE,
		.max_bytes = k->q->plan->limits.at[LIMIT_OUTPUT_SIZE].value,
		.max_count = k->q->plan->limits.at[LIMIT_OUTPUT_COUNT].value,
	};
	int r = outputs_collect(&request, &s->manifest, &err);
	FAULT_PHASE("outputs-taken");
	if (r >= 0)
		r = settle_outputs(s, &err);
	if (r >= 0)
		r = record_file(&k->record, "outputs.json", manifest_json(&s->manifest), &err);
	if (r < 0) {
		(void)record_set_outputs_aside(&k->record, NULL);
		(void)record_event(&k->record, "collect-failed",
				   json_pack("{s:o}", "error", json_text(err.text)), NULL);
		if (k->ending.stop == STOP_NONE) {
			k->ending.stop = STOP_RECORD;
			k->ending.setup = err;
		}
		return;
	}
	FAULT_PHASE("outputs-listed");
	(void)record_event(&k->record, "collected",
			   json_pack("{s:I,s:o}", "files", (json_int_t)s->manifest.n_files, "bytes",
				     json_u64(s->manifest.bytes)),
			   NULL);
}

/* A kept working directory is a plain copy with the keeper's ownership in the run directory: it neither holds the run's
 * mount nor belongs to a uid that another run will have. */
void keeper_keep(struct keeper_state *s)
{
	struct keeping *k = &s->k;
	struct verdict v;
	struct err err = { 0 };
	uint64_t files = 0;
	verdict_decide(&k->ending, &v);
	if (k->q->keep == KEEP_NEVER ||
	    (k->q->keep == KEEP_FAILED && (v.cause == CAUSE_OK || v.cause == CAUSE_CHECKPOINTED)))
		return;
	int dir_fd = k->record.dir_fd;
	int r = mkdirat(dir_fd, KEEP_TEMP, 0700) < 0 ? err_errno(&err, "make work/") : 0;
	CLEANUP_FD int dest_fd =
		r < 0 ? -1
		      : fs_open_beneath(dir_fd, KEEP_TEMP, O_DIRECTORY | O_RDONLY | O_CLOEXEC, 0);
	if (r >= 0)
		r = outputs_keep(k->scratch.dir_fd, dest_fd, s->uid, s->gid, &files, &err);
	if (r >= 0 && renameat(dir_fd, KEEP_TEMP, dir_fd, "work") < 0)
		r = err_errno(&err, "name work/");
	if (r < 0 && fs_remove_tree(dir_fd, KEEP_TEMP, NULL, NULL) < 0)
		k->record.leaves_traces = true;
	FAULT_PHASE("work-kept");
	(void)record_event(
		&k->record, r < 0 ? "keep-failed" : "kept",
		json_pack("{s:I,s:o}", "files", (json_int_t)files, "error", json_text(err.text)),
		NULL);
}

struct cleaning {
	struct keeping *k;
	int group_result, box_result, scratch_result;
	struct err group_err, box_err, scratch_err;
	struct fs_removed removed;
};

static void clean(struct cleaning *c)
{
	struct keeping *k = c->k;
	if (k->budget)
		c->group_result = k->budget->ops->remove(k->budget, &c->group_err);
	FAULT_PHASE("budget-removed");
	c->box_result = launch_end(&k->box, &c->box_err);
	k->scratch.beside_fd = -1;
	if (k->checkpoint.path && checkpoint_close(&k->checkpoint) < 0)
		k->ending.checkpoint_damaged = true;
	if (k->has_scratch)
		c->scratch_result = scratch_remove(&k->scratch, &c->removed, &c->scratch_err);
	FAULT_PHASE("scratch-removed");
}

/* What only now is complete. */
static void digest_grown(struct record *r)
{
	static const char *const grown[] = { "stdout.log", "stderr.log", "usage.jsonl" };
	for (size_t i = 0; i < sizeof grown / sizeof *grown; i++)
		record_digest(r, grown[i]);
}

static void record_cleaned(const struct cleaning *c)
{
	struct keeping *k = c->k;
	k->record.leaves_traces |= c->group_result < 0 || c->box_result < 0 ||
				   c->scratch_result < 0;
	if (c->group_result < 0)
		(void)record_event(&k->record, "cgroup-remains",
				   json_pack("{s:o}", "error", json_text(c->group_err.text)), NULL);
	if (c->box_result < 0)
		(void)record_event(&k->record, "bundle-remains",
				   json_pack("{s:o}", "error", json_text(c->box_err.text)), NULL);
	if (!k->has_scratch)
		return;
	(void)record_event(
		&k->record, "removed",
		json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "path", json_text(k->scratch.path), "files",
			  json_u64(c->removed.files), "dirs", json_u64(c->removed.dirs), "bytes",
			  json_u64(c->removed.bytes), "remained", json_u64(c->removed.remained),
			  "error",
			  c->scratch_result < 0 ? json_text(c->scratch_err.text) : json_null()),
		NULL);
}

/* Nothing of the run stays on the host but its record, which meanwhile is on its way to the disk. */
void keeper_clean(struct keeper_state *s)
{
	struct keeping *k = &s->k;
	struct cleaning c = { .k = k };
	if (k->usage_fd >= 0 && lseek(k->usage_fd, 0, SEEK_END) > 0)
		record_owe_sync(&k->record, "usage.jsonl", take_fd(&k->usage_fd));
	record_begin_sync(&k->record);
	if (k->q->analysis->db_snapshot) {
		k->record.leaves_traces |= snapshot_remove(k->record.dir_fd) < 0;
		FAULT_PHASE("snapshot-removed");
	}
	clean(&c);
	digest_grown(&k->record);
	record_cleaned(&c);
}

/* The end of a log that the analysis wrote. */
static size_t read_log_end(int run_fd, const char *name, char *ret, size_t room)
{
	struct stat st = { 0 };
	CLEANUP_FD int fd = fs_open_beneath(run_fd, name, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0 || fstat(fd, &st) < 0)
		return 0;
	ssize_t n = pread(fd, ret, room, (size_t)st.st_size > room ? st.st_size - (off_t)room : 0);
	return n > 0 ? (size_t)n : 0;
}

/* What may have been wrong, for the sentence of the verdict: only a failure is worth the look. */
static void note_symptom(struct keeper_state *s)
{
	struct keeping *k = &s->k;
	char text[SYMPTOM_TEXT_MAX];
	struct verdict v;
	verdict_decide(&k->ending, &v);
	if (v.cause != CAUSE_EXIT || k->ending.exec_errno || k->ending.given)
		return;
	if (k->ending.notebook)
		symptom_find(s->notebook.error, strlen(s->notebook.error), &k->ending.symptom);
	if (!k->ending.symptom.kind)
		symptom_find(text, read_log_end(k->record.dir_fd, "stderr.log", text, sizeof text),
			     &k->ending.symptom);
	k->ending.symptom.network_is_off = k->q->analysis->network == NETWORK_NONE;
	k->ending.symptom.network_may_be_on = k->q->config->network_host_allowed;
	symptom_look_up(k->q->config, k->q->runtime->name, &k->ending.symptom);
}

int keeper_finish(struct keeper_state *s, struct verdict *v, struct err *err)
{
	struct keeping *k = &s->k;
	note_symptom(s);
	verdict_decide(&k->ending, v);
	struct run_times times = { s->accepted_real_ns, s->started_real_ns, s->ended_real_ns };
	json_t *verdict = describe_verdict(k, v, &times);
	json_t *data = json_pack("{s:s,s:i}", "cause", cause_name(v->cause), "exit_status",
				 v->exit_status);
	record_seal(&k->record, verdict, data);
	int r = record_event(&k->record, "verdict", data, err);
	if (r < 0) {
		json_decref(verdict);
		return r;
	}
	FAULT_PHASE("verdict-announced");
	return record_finish(&k->record, verdict, err);
}

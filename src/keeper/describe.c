#include "keeper/describe.h"

#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/notebook.h"
#include "keeper/oci.h"
#include "runtime/driver.h"
#include "spec/spec_json.h"

json_t *describe_caller(const struct keeper_request *q)
{
	json_t *o = json_pack("{s:I,s:I,s:s}", "uid", (json_int_t)getuid(), "keeper_pid",
			      (json_int_t)getpid(), "cupel", CUPEL_VERSION);
	if (q->submitter)
		json_object_set_new(o, "submitter", json_text(q->submitter));
	if (q->submission)
		json_object_set_new(o, "submission", json_text(q->submission));
	return o;
}

json_t *describe_analysis(const struct keeper_request *q)
{
	json_t *o = analysis_json(q->analysis);
	json_object_set_new(o, "id", json_string(q->id));
	json_object_set_new(o, "limits", limits_json(&q->plan->limits));
	json_object_set_new(o, "runtime", chosen_json(q->chosen, q->runtime));
	json_object_set_new(o, "work_dir", json_text(q->plan->work_dir));
	if (q->submitter)
		json_object_set_new(o, "submitter", json_text(q->submitter));
	if (q->config->caller.is_set) /* whoever runs it again does so with no more rights */
		json_object_set_new(o, "submitter_ids",
				    json_sprintf("%u:%u", (unsigned)q->config->caller.uid,
						 (unsigned)q->config->caller.gid));
	if (driver_runs(q->runtime, q->analysis)) {
		char digest[HASH_HEX];
		driver_digest(digest);
		json_object_set_new(o, "driver",
				    json_pack("{s:s,s:s}", "path", DRIVER_DIR, "sha256", digest));
	}
	return o;
}

static json_t *budget_json(struct keeping *k)
{
	struct budget *b = k->budget;
	struct budget_value values[BUDGET_VALUES_MAX];
	json_t *o = json_object();
	json_t *list = json_array();
	int n = b->ops->receipt(b, values);
	for (int i = 0; i < n; i++)
		json_array_append_new(list,
				      json_pack("{s:s,s:s,s:s}", "file", values[i].file, "asked",
						values[i].want, "kernel", values[i].have));
	json_object_set_new(o, "mechanism", json_string(b->ops->name));
	json_object_set_new(o, "group", json_text(b->ops->path(b)));
	json_object_set_new(o, "values", list);
	json_object_set_new(o, "not_enforced", json_string(budget_missing(b)));
	return o;
}

/* Asked for, and what the file system still has: never more, and fewer where it cannot have exactly as many (budget/template.c). The
 * directories that cupel makes count. */
static json_t *disk_json(const struct scratch *s)
{
	struct statfs st;
	bool is_hard = s->mounted || s->in_memory;
	json_t *o = json_pack("{s:s,s:b,s:o,s:o}", "mechanism", s->mechanism, "hard", is_hard,
			      "limit_bytes", json_u64(s->limit_bytes), "limit_inodes",
			      json_u64(s->limit_inodes));
	if (is_hard && fstatfs(s->dir_fd, &st) == 0) {
		json_object_set_new(o, "kernel_bytes",
				    json_u64(st.f_bavail * (uint64_t)st.f_bsize));
		json_object_set_new(o, "kernel_inodes", json_u64(st.f_ffree));
	}
	return o;
}

static json_t *checkpoint_json(const struct keeping *k)
{
	struct statfs st = { 0 };
	const struct checkpoint *c = &k->checkpoint;
	json_t *o = json_pack("{s:o,s:o,s:s,s:s,s:b,s:o,s:o}", "path",
			      json_text(k->q->plan->checkpoint), "host", json_text(c->path), "key",
			      c->key, "mechanism", c->mounted ? "image" : "watched", "found",
			      c->found, "of_run", c->last[0] ? json_string(c->last) : json_null(),
			      "note", c->note[0] ? json_text(c->note) : json_null());
	if (c->mounted && fstatfs(c->root_fd, &st) == 0) {
		json_object_set_new(o, "kernel_bytes",
				    json_u64(st.f_blocks * (uint64_t)st.f_bsize));
		json_object_set_new(o, "kernel_free_bytes",
				    json_u64(st.f_bavail * (uint64_t)st.f_bsize));
	}
	return o;
}

json_t *describe_receipt(struct keeping *k)
{
	char missing[128];
	json_t *o = receipt_json(&k->box.entry, &k->box.facts, &k->box.outside);
	describe_missing(k, missing, sizeof missing);
	json_object_set_new(o, "runtime", chosen_summary_json(k->q->chosen, k->q->runtime));
	json_object_set_new(o, "budget", budget_json(k));
	json_object_set_new(o, "disk", disk_json(&k->scratch));
	if (k->checkpoint.path)
		json_object_set_new(o, "checkpoint", checkpoint_json(k));
	if (k->executor)
		json_object_set(o, "executor", k->executor);
	json_object_set_new(o, "missing_layers", json_string(missing));
	return o;
}

static void add_missing(char *ret, size_t room, const char *name)
{
	size_t used = strlen(ret);
	(void)snprintf(ret + used, room - used, "%s%s", used ? "," : "", name);
}

void describe_missing(struct keeping *k, char *ret, size_t room)
{
	const struct box_facts *in = &k->box.facts;
	ret[0] = 0;
	for (int i = 0; i < BOX_NS_COUNT_; i++)
		if (in->ns[i] == k->box.outside.own_ns[i] &&
		    !(i == BOX_NS_NET && !k->q->plan->own_network))
			add_missing(ret, room, i == BOX_NS_MNT ? "mount" : box_ns_names[i]);
	if (in->seccomp_mode != 2 || !in->seccomp_own)
		add_missing(ret, room, "seccomp");
	if (!k->q->plan->landlock_abi || oci_is_guest(&k->box))
		add_missing(ret, room, "landlock");
	if (oci_is_guest(&k->box))
		add_missing(ret, room, "user");
	if (budget_missing(k->budget)[0])
		add_missing(ret, room, budget_missing(k->budget));
	if (k->q->plan->limits.at[LIMIT_CPU_TIME].value && strstr(budget_missing(k->budget), "cpu"))
		add_missing(ret, room, "cpu_time"); /* nothing counts it */
	if (k->q->host->is_root && k->q->config->disk != DISK_WATCHED &&
	    str_eq(k->scratch.mechanism, "watched"))
		add_missing(ret, room, "disk");
}

json_t *describe_end(const struct keeping *k)
{
	return json_pack("{s:b,s:b,s:i,s:o}", "started", k->ending.started, "exited",
			 k->ending.exited, "wait_status",
			 k->ending.exited ? k->ending.wait_status : -1, "wall_usec",
			 json_u64(k->ending.wall_ns / 1000));
}

const char *stage_name(enum stage stage)
{
	static const char *const names[STAGE_COUNT_] = {
		[STAGE_CLAIM] = "claim",     [STAGE_BUDGET] = "budget",
		[STAGE_CLONE] = "clone",     [STAGE_RECORD] = "record",
		[STAGE_SCRATCH] = "scratch", [STAGE_BOX] = "box",
		[STAGE_RECEIPT] = "receipt", [STAGE_START] = "start",
		[STAGE_RUN] = "run",         [STAGE_COLLECT] = "collect",
		[STAGE_CLEAN] = "clean",     [STAGE_VERDICT] = "verdict",
	};
	return names[stage];
}

static json_t *stages_json(const struct stages *s)
{
	json_t *o = json_object();
	for (int i = 0; i < STAGE_VERDICT; i++)
		json_object_set_new(o, stage_name(i), json_u64(s->ns[i] / 1000));
	return o;
}

static void set_time(json_t *o, const char *key, uint64_t real_ns)
{
	char text[40];
	json_object_set_new(o, key,
			    real_ns ? json_string(clock_write(real_ns, text, sizeof text))
				    : json_null());
}

json_t *describe_after(const struct step_end *e)
{
	return json_pack("{s:o,s:o,s:o,s:o}", "step", json_text(e->step), "run",
			 e->run[0] ? json_string(e->run) : json_null(), "cause",
			 json_text(e->cause), "exit_code",
			 e->exit_code >= 0 ? json_integer(e->exit_code) : json_null());
}

json_t *describe_verdict(const struct keeping *k, const struct verdict *v,
			 const struct run_times *times)
{
	json_t *o = verdict_json(v, &k->ending);
	json_object_set_new(o, "id", json_string(k->q->id));
	json_object_set_new(o, "runtime", json_string(k->q->runtime->name));
	json_object_set_new(o, "runtime_state", chosen_summary_json(k->q->chosen, k->q->runtime));
	if (k->q->analysis->quest)
		json_object_set_new(o, "quest", json_text(k->q->analysis->quest));
	if (k->q->analysis->name)
		json_object_set_new(o, "name", json_text(k->q->analysis->name));
	if (k->ending.input_changed)
		json_object_set_new(o, "input_changed", json_text(k->ending.input_changed));
	if (k->ending.after)
		json_object_set_new(o, "post_process", describe_after(k->ending.after));
	if (k->ending.notebook)
		json_object_set_new(o, "notebook", notebook_end_json(k->ending.notebook));
	if (k->executor)
		json_object_set(o, "executor", k->executor);
	json_object_set_new(o, "timings_usec", stages_json(&k->stages));
	set_time(o, "accepted", times->accepted_real_ns);
	set_time(o, "started", times->started_real_ns);
	set_time(o, "ended", times->ended_real_ns);
	return o;
}

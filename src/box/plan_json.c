/* The plan as JSON, for plan.json and `cupel plan --json`. */
#include "box/plan.h"

#include "spec/spec_json.h"

const char *step_kind_name(enum step_kind kind)
{
	static const char *const names[] = {
		[STEP_TMPFS] = "tmpfs", [STEP_BIND] = "bind",     [STEP_WORK] = "work",
		[STEP_PROC] = "proc",   [STEP_DEVICE] = "device", [STEP_DIR] = "dir",
		[STEP_FILE] = "file",   [STEP_LINK] = "link",     [STEP_MASK] = "mask",
		[STEP_COVER] = "cover", [STEP_SEAL] = "seal",     [STEP_IMAGE] = "image",
		[STEP_DROP] = "drop",   [STEP_SOCKET] = "socket", [STEP_CHECKPOINT] = "checkpoint",
	};
	return names[kind];
}

static json_t *step_json(const struct step *s)
{
	json_t *o = json_object();
	json_object_set_new(o, "kind", json_string(step_kind_name(s->kind)));
	json_object_set_new(o, "target", json_text(s->target));
	if (s->secret)
		json_object_set_new(o, "content", json_null());
	else if (s->source)
		json_object_set_new(o, s->kind == STEP_FILE ? "content" : "source",
				    json_text(s->source));
	if (s->kind == STEP_TMPFS) {
		json_object_set_new(o, "size_bytes", json_u64(s->size_bytes));
		json_object_set_new(o, "inodes", json_u64(s->inodes));
	}
	if (s->kind == STEP_BIND || s->kind == STEP_WORK || s->kind == STEP_CHECKPOINT)
		json_object_set_new(o, "writable",
				    json_boolean(s->kind != STEP_BIND || s->writable));
	return o;
}

static json_t *rules_json(const struct plan *p)
{
	static const char *const names[] = {
		[ACCESS_READ] = "read", [ACCESS_WRITE] = "write", [ACCESS_DEVICE] = "device"
	};
	json_t *array = json_array();
	for (size_t i = 0; i < p->n_rules; i++)
		json_array_append_new(array,
				      json_pack("{s:o,s:s}", "path", json_text(p->rules[i].path),
						"access", names[p->rules[i].access]));
	return array;
}

json_t *plan_json(const struct plan *p)
{
	json_t *steps = json_array();
	json_t *cpus = json_array();
	json_t *rlimits = json_object();
	for (size_t i = 0; i < p->n_steps; i++)
		json_array_append_new(steps, step_json(&p->steps[i]));
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &p->cpus))
			json_array_append_new(cpus, json_integer(cpu));
	for (size_t i = 0; i < p->n_rlimits; i++)
		json_object_set_new(rlimits, p->rlimits[i].name, json_u64(p->rlimits[i].value));
	return json_pack(
		"{s:s,s:o,s:o,s:o,s:o,s:s,s:{s:i,s:i},s:o,s:o,s:o,s:o,s:i,s:o,s:s,s:o,s:o}", "id",
		p->id, "work_dir", json_text(p->work_dir), "cwd", json_text(p->cwd), "argv",
		strv_json(&p->argv), "env", strv_json(&p->env), "hostname", p->hostname, "user",
		"uid", BOX_UID, "gid", BOX_GID, "steps", steps, "landlock", rules_json(p), "limits",
		limits_json(&p->limits), "rlimits", rlimits, "landlock_abi", p->landlock_abi,
		"cpus", cpus, "network", p->own_network ? "none" : "host", "allowed_missing",
		strv_json(&p->missing), "warnings", strv_json(&p->warnings));
}

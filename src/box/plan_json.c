/* The plan as JSON, for plan.json and `cupel plan --json`. */
#include "box/plan.h"

#include <string.h>

#include "base/writer.h"
#include "spec/secret.h"
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

const char *step_ids_name(enum step_ids ids)
{
	static const char *const names[] = {
		[IDS_PLAIN] = "plain", [IDS_UNMAPPED] = "unmapped", [IDS_RUN] = "run"
	};
	return names[ids];
}

static void write_step(struct writer *w, const struct step *s)
{
	writer_open(w, NULL, '{');
	writer_text(w, "kind", step_kind_name(s->kind));
	writer_text(w, "target", s->target);
	if (s->secret)
		writer_text(w, "content", NULL);
	else if (str_eq(s->target, PLAN_PROVENANCE))
		writer_text(w, "content", "what the record says");
	else if (s->source)
		writer_text(w, s->kind == STEP_FILE ? "content" : "source", s->source);
	if (s->kind == STEP_TMPFS || (s->kind == STEP_WORK && s->size_bytes)) {
		writer_u64(w, "size_bytes", s->size_bytes);
		writer_u64(w, "inodes", s->inodes);
	}
	if (s->kind == STEP_BIND || s->kind == STEP_WORK || s->kind == STEP_CHECKPOINT)
		writer_bool(w, "writable", s->kind != STEP_BIND || s->writable);
	if (s->kind == STEP_BIND) {
		writer_text(w, "ids", step_ids_name(s->ids));
		writer_bool(w, "searched", s->is_searched);
	}
	if (s->ids == IDS_RUN) {
		writer_u64(w, "owner_uid", s->owner_uid);
		writer_u64(w, "owner_gid", s->owner_gid);
	}
	writer_close(w, '}');
}

static void write_rules(struct writer *w, const struct plan *p)
{
	static const char *const names[] = {
		[ACCESS_READ] = "read", [ACCESS_WRITE] = "write", [ACCESS_DEVICE] = "device"
	};
	writer_open(w, "landlock", '[');
	for (size_t i = 0; i < p->n_rules; i++) {
		writer_open(w, NULL, '{');
		writer_text(w, "path", p->rules[i].path);
		writer_text(w, "access", names[p->rules[i].access]);
		writer_close(w, '}');
	}
	writer_close(w, ']');
}

static void write_process(struct writer *w, const struct plan *p)
{
	writer_open(w, "rlimits", '{');
	for (size_t i = 0; i < p->n_rlimits; i++)
		writer_u64(w, p->rlimits[i].name, p->rlimits[i].value);
	writer_close(w, '}');
	writer_u64(w, "landlock_abi", (uint64_t)p->landlock_abi);
	writer_open(w, "cpus", '[');
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &p->cpus))
			writer_u64(w, NULL, (uint64_t)cpu);
	writer_close(w, ']');
	writer_u64(w, "cpu_weight", p->cpu_weight);
}

/* Values that are secret are in no record: their names only. */
static void write_env(struct writer *w, const struct plan *p)
{
	CLEANUP_STRV struct strv shown = { 0 };
	CLEANUP_STRV struct strv secret = { 0 };
	for (size_t i = 0; i < p->env.n; i++) {
		const char *entry = p->env.v[i];
		if (env_entry_is_secret(entry))
			strv_addf(&secret, "%.*s", (int)strcspn(entry, "="), entry);
		else
			strv_add(&shown, entry);
	}
	writer_texts(w, "env", &shown);
	if (secret.n)
		writer_texts(w, "secret_env", &secret);
}

char *plan_text(const struct plan *p)
{
	CLEANUP_WRITER struct writer w = { 0 };
	writer_open(&w, NULL, '{');
	writer_text(&w, "id", p->id);
	writer_text(&w, "work_dir", p->work_dir);
	writer_text(&w, "cwd", p->cwd);
	writer_texts(&w, "argv", &p->argv);
	write_env(&w, p);
	writer_text(&w, "hostname", p->hostname);
	writer_open(&w, "user", '{');
	writer_u64(&w, "uid", BOX_UID);
	writer_u64(&w, "gid", BOX_GID);
	writer_close(&w, '}');
	writer_open(&w, "steps", '[');
	for (size_t i = 0; i < p->n_steps; i++)
		write_step(&w, &p->steps[i]);
	writer_close(&w, ']');
	write_rules(&w, p);
	writer_value(&w, "limits", limits_json(&p->limits));
	write_process(&w, p);
	writer_text(&w, "network", p->own_network ? "none" : "host");
	writer_texts(&w, "allowed_missing", &p->missing);
	writer_texts(&w, "warnings", &p->warnings);
	writer_close(&w, '}');
	return str_take(&w.text);
}

json_t *plan_json(const struct plan *p)
{
	CLEANUP_FREE char *text = plan_text(p);
	return json_loads(text, 0, NULL);
}

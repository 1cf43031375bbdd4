/* A job's plan as the container that an engine is asked for. */
#include <string.h>
#include <sys/resource.h>

#include "base/path.h"
#include "box/seccomp.h"
#include "executor/engine_parts.h"
#include "runtime/rootfs.h"

#define LOG_ROOM    65536 /* beyond the limit: whoever keeps the log sees that it was longer */
#define PROCESS_MAX 32768
#define FILES_MIN   64 /* open ones of pid 1 itself, and some to spare */

static void add_bind(json_t *to, const char *source, const char *target, bool writable)
{
	json_array_append_new(to,
			      json_pack("[o,o,b]", json_text(source), json_text(target), writable));
}

static void add_words(json_t *list, const char *option, const char *value)
{
	json_array_append_new(list, json_string(option));
	json_array_append_new(list, json_string(value));
}

static void add_own(json_t *to, const struct job *job, const char *name, bool writable)
{
	CLEANUP_FREE char *source = path_join(job->stage, name);
	CLEANUP_FREE char *target = xasprintf(ENGINE_DIR "/%s", name);
	add_bind(to, source, target, writable);
}

/* The image has it already. */
static bool is_of_tree(const struct job *job, const struct step *s)
{
	const struct runtime *r = job->runtime;
	return r->tree && (s->inside || (r->root && path_within(s->source, r->root)));
}

static void add_cover(json_t *to, const struct job *job, const struct step *s)
{
	const struct plan *p = job->plan;
	for (size_t i = 0; i < p->n_steps; i++) {
		if (p->steps[i].kind != STEP_FILE || !str_eq(p->steps[i].target, s->source))
			continue;
		CLEANUP_FREE char *source = stage_file(job->stage, i);
		add_bind(to, source, s->target, false);
	}
}

static void add_step(json_t *to, const struct job *job, size_t i)
{
	const struct step *s = &job->plan->steps[i];
	if (s->kind == STEP_BIND && !is_of_tree(job, s))
		add_bind(to, s->source, s->target, s->writable);
	if (s->kind == STEP_WORK)
		add_bind(to, job->work_dir, s->target, true);
	if (s->kind == STEP_CHECKPOINT)
		add_bind(to, s->source, s->target, true);
	if (s->kind == STEP_SOCKET)
		add_bind(to, s->source, s->target, false);
	if (s->kind == STEP_COVER)
		add_cover(to, job, s);
	if (s->kind == STEP_FILE) {
		CLEANUP_FREE char *source = stage_file(job->stage, i);
		add_bind(to, source, s->target, false);
	}
}

json_t *engine_binds(const struct job *job)
{
	json_t *list = json_array();
	add_own(list, job, "init", false);
	add_own(list, job, STAGE_GATE, false);
	add_own(list, job, "environment", false);
	add_own(list, job, STAGE_STATUS, true);
	add_own(list, job, "stdout", true);
	add_own(list, job, "stderr", true);
	for (size_t i = 0; i < job->plan->n_steps; i++)
		add_step(list, job, i);
	return list;
}

bool engine_needs_link(const struct engine *e, const char *source)
{
	return e->is_podman && strpbrk(source, ",:\"");
}

/* Podman makes options of its command line of what it is asked for: a path with a comma in it, or a colon, is shown by a link in the stage, or
 * as a mount of the other form. */
static void add_mount(const struct engine *e, const struct job *job, size_t i, const json_t *bind,
		      json_t *mounts, json_t *binds)
{
	const char *source = json_string_value(json_array_get(bind, 0));
	const char *target = json_string_value(json_array_get(bind, 1));
	bool writable = json_is_true(json_array_get(bind, 2));
	CLEANUP_FREE char *link = stage_link(job->stage, i);
	const char *from = engine_needs_link(e, source) ? link : source;
	if (e->is_podman && strchr(target, ',')) {
		CLEANUP_FREE char *text =
			xasprintf("%s:%s:%s,rbind,rprivate", from, target, writable ? "rw" : "ro");
		json_array_append_new(binds, json_text(text));
		return;
	}
	json_array_append_new(mounts,
			      json_pack("{s:s,s:o,s:o,s:b,s:{s:s}}", "Type", "bind", "Source",
					json_text(from), "Target", json_text(target), "ReadOnly",
					!writable, "BindOptions", "Propagation", "rprivate"));
}

static void set_mounts(const struct engine *e, const struct job *job, json_t *config)
{
	CLEANUP_JSON json_t *list = engine_binds(job);
	json_t *mounts = json_array(), *binds = json_array();
	for (size_t i = 0; i < json_array_size(list); i++)
		add_mount(e, job, i, json_array_get(list, i), mounts, binds);
	json_object_set_new(config, "Mounts", mounts);
	json_object_set_new(config, "Binds", binds);
}

static bool is_sealed(const struct plan *p, const char *target)
{
	for (size_t i = 0; i < p->n_steps; i++)
		if (p->steps[i].kind == STEP_SEAL && str_eq(p->steps[i].target, target))
			return true;
	return false;
}

static json_t *tmpfs(const struct engine *e, const struct plan *p)
{
	json_t *o = json_object();
	for (size_t i = 0; i < p->n_steps; i++) {
		const struct step *s = &p->steps[i];
		CLEANUP_STR struct str options = { 0 };
		if (s->kind != STEP_TMPFS || str_eq(s->target, "/"))
			continue;
		str_addf(&options, "%s,exec,nosuid,nodev,mode=%o,size=%llu",
			 is_sealed(p, s->target) ? "ro" : "rw", (unsigned)s->mode,
			 (unsigned long long)s->size_bytes);
		if (!e->is_podman) /* which knows no such option */
			str_addf(&options, ",nr_inodes=%llu", (unsigned long long)s->inodes);
		json_object_set_new(o, s->target, json_string(str_text(&options)));
		if (str_eq(s->target, "/tmp"))
			json_object_set(o, ROOT_SHARED_TMP, json_object_get(o, "/tmp"));
	}
	return o;
}

static void add_ulimit(json_t *list, const char *name, uint64_t value)
{
	json_array_append_new(list, json_pack("{s:s,s:o,s:o}", "Name", name, "Soft",
					      json_u64(value), "Hard", json_u64(value)));
}

/* Those of the analysis that pid 1 must not have, since it keeps the log, are set by pid 1. */
static void add_limits(json_t *list, const struct plan *p)
{
	for (size_t i = 0; i < p->n_rlimits; i++) {
		const struct plan_rlimit *l = &p->rlimits[i];
		char text[64];
		if (l->resource != RLIMIT_FSIZE && l->resource != RLIMIT_NOFILE)
			continue;
		(void)snprintf(text, sizeof text, "%d=%llu", l->resource,
			       (unsigned long long)l->value);
		add_words(list, "-l", text);
	}
}

static json_t *ulimits(const struct plan *p)
{
	struct rlimit own = { .rlim_max = PROCESS_MAX };
	json_t *list = json_array();
	for (size_t i = 0; i < p->n_rlimits; i++) {
		const struct plan_rlimit *l = &p->rlimits[i];
		bool is_files = l->resource == RLIMIT_NOFILE;
		if (l->resource != RLIMIT_FSIZE)
			add_ulimit(list, l->name,
				   is_files && l->value < FILES_MIN ? FILES_MIN : l->value);
	}
	/* Podman's own choice is more than some hosts allow. What counts is the limit of the group. */
	(void)getrlimit(RLIMIT_NPROC, &own);
	add_ulimit(list, "nproc", own.rlim_max < PROCESS_MAX ? own.rlim_max : PROCESS_MAX);
	return list;
}

static json_t *security(const struct engine *e, const struct job *job)
{
	json_t *list = json_pack("[s]", "no-new-privileges");
	CLEANUP_STR struct str masks = { 0 };
	/* Docker reads the profile from the request, Podman from a file. */
	CLEANUP_FREE char *seccomp = e->is_podman ? xasprintf("seccomp=%s/seccomp.json", job->stage)
						  : xasprintf("seccomp=%s", seccomp_profile());
	json_array_append_new(list, json_string(seccomp));
	for (size_t i = 0; e->is_podman && i < job->plan->n_steps; i++)
		if (job->plan->steps[i].kind == STEP_MASK)
			str_addf(&masks, "%s%s",
				 masks.length ? ":" : "mask=", job->plan->steps[i].target);
	if (masks.length)
		json_array_append_new(list, json_string(str_text(&masks)));
	return list;
}

static json_t *masked(const struct plan *p)
{
	json_t *list = json_array();
	for (size_t i = 0; i < p->n_steps; i++)
		if (p->steps[i].kind == STEP_MASK)
			json_array_append_new(list, json_string(p->steps[i].target));
	return list;
}

static json_t *devices(const struct plan *p)
{
	json_t *list = json_array();
	for (size_t i = 0; i < p->n_steps; i++)
		if (p->steps[i].kind == STEP_DEVICE && p->steps[i].any_kind)
			json_array_append_new(list, json_pack("{s:s,s:s,s:s}", "PathOnHost",
							      p->steps[i].source, "PathInContainer",
							      p->steps[i].target,
							      "CgroupPermissions", "rwm"));
	return list;
}

static char *cpu_list(const struct plan *p)
{
	CLEANUP_STR struct str text = { 0 };
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &p->cpus))
			str_addf(&text, "%s%d", text.length ? "," : "", i);
	str_add(&text, "");
	return str_take(&text);
}

static json_t *host_config(const struct engine *e, const struct job *job)
{
	const struct plan *p = job->plan;
	const struct limits *l = &p->limits;
	CLEANUP_FREE char *cpus = cpu_list(p);
	json_t *memory = json_u64(l->at[LIMIT_MEMORY].value);
	json_t *o = json_pack("{s:s,s:s,s:s,s:s,s:b,s:[s],s:O,s:o,s:o,s:o}", "NetworkMode",
			      p->own_network ? "none" : "host", "IpcMode", "private",
			      "CgroupnsMode", "private", "CpusetCpus", cpus, "ReadonlyRootfs", 1,
			      "CapDrop", "ALL", "Memory", memory, "MemorySwap", memory, "PidsLimit",
			      json_u64(l->at[LIMIT_PIDS].value), "NanoCpus",
			      json_u64(l->at[LIMIT_CPUS].value * 1000000));
	set_mounts(e, job, o);
	json_object_set_new(o, "Tmpfs", tmpfs(e, p));
	json_object_set_new(o, "Ulimits", ulimits(p));
	json_object_set_new(o, "SecurityOpt", security(e, job));
	json_object_set_new(o, "Devices", devices(p));
	if (!e->is_podman) {
		json_object_set_new(o, "MaskedPaths", masked(p));
		json_object_set_new(o, "ReadonlyPaths", json_pack("[s]", "/proc"));
	}
	/* Pid 1 keeps what is printed, up to its limit: an engine would keep either all of it or only the last of it. */
	json_object_set_new(o, "LogConfig", json_pack("{s:s}", "Type", "none"));
	json_object_set_new(o, "RestartPolicy", json_pack("{s:s}", "Name", "no"));
	return o;
}

static json_t *command(const struct job *job)
{
	static const char *const options[] = {
		[ACCESS_READ] = "-r", [ACCESS_WRITE] = "-w", [ACCESS_DEVICE] = "-d"
	};
	const struct plan *p = job->plan;
	json_t *list = json_array();
	char max[32];
	(void)snprintf(max, sizeof max, "%llu",
		       (unsigned long long)p->limits.at[LIMIT_LOG].value + LOG_ROOM);
	add_words(list, "-g", ENGINE_DIR "/" STAGE_GATE);
	add_words(list, "-E", ENGINE_DIR "/environment");
	add_words(list, "-o", ENGINE_DIR "/stdout");
	add_words(list, "-e", ENGINE_DIR "/stderr");
	add_words(list, "-m", max);
	add_limits(list, p);
	for (size_t i = 0; p->landlock_abi && i < p->n_rules; i++)
		add_words(list, options[p->rules[i].access], p->rules[i].path);
	if (p->landlock_abi)
		add_words(list, "-w", ROOT_SHARED_TMP);
	add_words(list, "-f", ENGINE_DIR "/" STAGE_STATUS);
	for (size_t i = 0; i < p->argv.n; i++)
		json_array_append_new(list, json_text(p->argv.v[i]));
	return list;
}

json_t *engine_create(const struct executor *x, const struct job *job, const char *image)
{
	CLEANUP_FREE char *user = xasprintf("%u:%u", job->uid, job->gid);
	CLEANUP_FREE char *tagged = xasprintf("%s:latest", image);
	return json_pack("{s:s,s:[s],s:o,s:s,s:s,s:s,s:[],s:b,s:{s:s,s:s,s:s,s:s},s:o}", "Image",
			 tagged, "Entrypoint", ENGINE_DIR "/init", "Cmd", command(job), "User",
			 user, "WorkingDir", job->plan->cwd, "Hostname", job->plan->hostname, "Env",
			 "NetworkDisabled", job->plan->own_network, "Labels", "cupel.home",
			 job->config->home, "cupel.run", job->id, "cupel.stage", job->stage,
			 "cupel.job", job->name, "HostConfig", host_config(x->data, job));
}

/* config.json of a bundle, from a plan. What the plan mounts is in the root already; the rest is here. */
#include <string.h>

#include "base/path.h"
#include "keeper/oci.h"

static json_t *list(const char *const words[])
{
	json_t *a = json_array();
	for (size_t i = 0; words[i]; i++)
		json_array_append_new(a, json_string(words[i]));
	return a;
}

static void add_mount(json_t *mounts, const char *target, const char *type, const char *source,
		      json_t *options)
{
	json_array_append_new(mounts, json_pack("{s:o,s:s,s:o,s:o}", "destination",
						json_text(target), "type", type, "source",
						json_text(source), "options", options));
}

/* A part of the root once more, at the same place: a runtime with a kernel of its own takes the root for one file system, read-only as a
 * whole. */
static void add_again(json_t *mounts, const struct oci_box *o, const struct step *s)
{
	static const char *const bind[] = { "rbind", "rw", "nosuid", "nodev", NULL };
	static const char *const tmpfs[] = { "rw", "nosuid", "nodev", NULL };
	CLEANUP_FREE char *source = xasprintf("%s/rootfs%s", o->dir, s->target);
	if (s->kind == STEP_WORK || s->kind == STEP_CHECKPOINT ||
	    (s->kind == STEP_BIND && s->writable)) {
		add_mount(mounts, s->target, "bind", source, list(bind));
	} else if (s->kind == STEP_TMPFS && s->mode == 01777) {
		json_t *options = list(tmpfs);
		CLEANUP_FREE char *size = xasprintf("size=%llu", (unsigned long long)s->size_bytes);
		json_array_append_new(options, json_string("mode=1777"));
		json_array_append_new(options, json_string(size));
		add_mount(mounts, s->target, "tmpfs", "tmpfs", options);
	}
}

static json_t *mounts(const struct launch_request *q, const struct oci_box *o)
{
	static const char *const proc[] = { "nosuid", "noexec", "nodev", "ro", NULL };
	static const char *const dev[] = { "rbind", "rprivate", "ro", "nosuid", "noexec", NULL };
	static const char *const cover[] = { "bind", "ro", "nosuid", "nodev", "noexec", NULL };
	bool is_guest = o->runtime.kind == OCI_RUNSC;
	json_t *a = json_array();
	add_mount(a, "/proc", "proc", "proc", list(proc));
	/* A runtime that is told of a mount there makes no devices of its own. */
	CLEANUP_FREE char *devices = xasprintf("%s/rootfs/dev", o->dir);
	if (!is_guest)
		add_mount(a, "/dev", "bind", devices, list(dev));
	for (size_t i = 0; i < q->plan->n_steps; i++) {
		const struct step *s = &q->plan->steps[i];
		if (is_guest)
			add_again(a, o, s);
		else if (s->kind == STEP_COVER && path_within(s->target, "/proc")) {
			CLEANUP_FREE char *source = xasprintf("%s/rootfs%s", o->dir, s->source);
			add_mount(a, s->target, "bind", source, list(cover));
		}
	}
	return a;
}

static json_t *masked(const struct plan *p)
{
	json_t *a = json_array();
	for (size_t i = 0; i < p->n_steps; i++)
		if (p->steps[i].kind == STEP_MASK && path_within(p->steps[i].target, "/proc"))
			json_array_append_new(a, json_text(p->steps[i].target));
	return a;
}

static json_t *namespaces(const struct box_entry *e)
{
	const char *const types[] = { "mount",
				      "pid",
				      e->has_ipc_ns ? "ipc" : NULL,
				      e->has_uts_ns ? "uts" : NULL,
				      e->has_net_ns ? "network" : NULL,
				      e->has_cgroup_ns ? "cgroup" : NULL };
	json_t *a = json_array();
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
		if (types[i])
			json_array_append_new(a, json_pack("{s:s}", "type", types[i]));
	return a;
}

/* What init is told, in the words of executor/kept1.c. */
static json_t *arguments(const struct plan *p, const struct oci_box *o, const struct box_entry *e)
{
	static const char *const rule_options[] = {
		[ACCESS_READ] = "-r", [ACCESS_WRITE] = "-w", [ACCESS_DEVICE] = "-d"
	};
	bool is_guest = o->runtime.kind == OCI_RUNSC;
	json_t *a = json_pack("[s]", OCI_INIT);
	if (is_guest)
		json_array_append_new(a, json_string("-g"));
	if (e->has_user_ns && !is_guest)
		json_array_append_new(a, json_string("-u"));
	if (!plan_may_miss(p, "seccomp"))
		json_array_append_new(a, json_string("-s"));
	if (p->checkpoint)
		json_array_extend(a, json_pack("[s,s]", "-k", p->checkpoint));
	for (size_t i = 0; i < p->n_rlimits; i++) {
		CLEANUP_FREE char *limit = xasprintf("%d=%llu", p->rlimits[i].resource,
						     (unsigned long long)p->rlimits[i].value);
		json_array_append_new(a, json_string("-l"));
		json_array_append_new(a, json_string(limit));
	}
	if (p->landlock_abi && !is_guest) {
		CLEANUP_FREE char *abi = xasprintf("%d", p->landlock_abi);
		json_array_append_new(a, json_string("-L"));
		json_array_append_new(a, json_string(abi));
		for (size_t i = 0; i < p->n_rules; i++) {
			json_array_append_new(a, json_string(rule_options[p->rules[i].access]));
			json_array_append_new(a, json_text(p->rules[i].path));
		}
	}
	json_array_append_new(a, json_string("--"));
	for (size_t i = 0; i < p->argv.n; i++)
		json_array_append_new(a, json_stringn_nocheck(p->argv.v[i], strlen(p->argv.v[i])));
	return a;
}

static json_t *process(const struct launch_request *q, const struct oci_box *o,
		       const struct box_entry *e)
{
	json_t *env = json_array(), *none = json_object();
	static const char *const sets[] = { "bounding", "effective", "inheritable", "permitted",
					    "ambient" };
	for (size_t i = 0; i < q->plan->env.n; i++)
		json_array_append_new(
			env, json_stringn_nocheck(q->plan->env.v[i], strlen(q->plan->env.v[i])));
	for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
		json_object_set_new(none, sets[i], json_array());
	return json_pack("{s:b,s:{s:I,s:I,s:i},s:o,s:o,s:o,s:o,s:b,s:i}", "terminal", 0, "user",
			 "uid", (json_int_t)e->uid, "gid", (json_int_t)e->gid, "umask", 022, "args",
			 arguments(q->plan, o, e), "env", env, "cwd", json_text(q->plan->cwd),
			 "capabilities", none, "noNewPrivileges", 1, "oomScoreAdj", BOX_OOM_SCORE);
}

json_t *oci_config(const struct launch_request *q, const struct oci_box *o,
		   const struct box_entry *e)
{
	CLEANUP_FREE char *path = xasprintf("/%s", o->group);
	/* What may be opened is decided by what is mounted: the runtime's own list would forbid a device that the plan has. */
	json_t *resources = json_pack("{s:[{s:b,s:s}]}", "devices", "allow", 1, "access", "rwm");
	json_t *linux_part = json_pack("{s:o,s:s,s:o,s:o}", "namespaces", namespaces(e),
				       "cgroupsPath", path, "maskedPaths", masked(q->plan),
				       "resources", resources);
	/* The plan has sealed the root, and runc leaves it so. */
	return json_pack("{s:s,s:o,s:{s:s,s:b},s:o,s:o,s:o}", "ociVersion", "1.0.2", "process",
			 process(q, o, e), "root", "path", "rootfs", "readonly",
			 o->runtime.kind != OCI_RUNC, "hostname", json_text(q->plan->hostname),
			 "mounts", mounts(q, o), "linux", linux_part);
}

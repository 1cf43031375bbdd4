/* Compares; the kernel's word counts, not what was asked for. */
#include "box/receipt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "box/seccomp.h"

static uint64_t status_number(const char *status, const char *key, int base)
{
	const char *at = strstr(status, key);
	return at ? strtoull(at + strlen(key), NULL, base) : UINT64_MAX;
}

static void status_ids(const char *status, const char *key, uint32_t ret[4])
{
	const char *at = strstr(status, key);
	char *end = (char *)at + (at ? strlen(key) : 0);
	for (int i = 0; i < 4; i++) /* without the key all are 0, root: never what was planned */
		ret[i] = at ? (uint32_t)strtoul(end, &end, 10) : 0;
}

static int read_own_namespaces(struct box_outside *o, struct err *err)
{
	CLEANUP_FD int dir_fd = open("/proc/self/ns", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < BOX_NS_COUNT_; i++) {
		char link[64] = "";
		if (readlinkat(dir_fd, box_ns_names[i], link, sizeof link - 1) < 0 &&
		    errno != ENOENT)
			return err_errno(err, "read /proc/self/ns/%s", box_ns_names[i]);
		const char *number = strchr(link, '[');
		o->own_ns[i] = number ? strtoull(number + 1, NULL, 10) : 0;
	}
	return 0;
}

int outside_read(pid_t init_pid, struct box_outside *ret, struct err *err)
{
	struct box_outside o = { 0 };
	char path[64], text[64];
	CLEANUP_FREE char *status = xmalloc(8192);
	(void)snprintf(path, sizeof path, "/proc/%d", (int)init_pid);
	CLEANUP_FD int dir_fd = open(path, O_DIRECTORY | O_PATH | O_CLOEXEC);
	if (dir_fd < 0 || fs_read_small(dir_fd, "status", status, 8192) < 0)
		return err_errno(err, "read the box's state from outside");
	if (fs_read_small(dir_fd, "uid_map", o.uid_map, sizeof o.uid_map) < 0)
		return err_errno(err, "read the box's uid map from outside");
	if (fs_read_small(dir_fd, "oom_score_adj", text, sizeof text) > 0)
		o.oom_score_adj = (int)strtol(text, NULL, 10);
	status_ids(status, "\nUid:", o.uid);
	status_ids(status, "\nGid:", o.gid);
	o.caps_effective = status_number(status, "\nCapEff:", 16);
	o.no_new_privs = (uint32_t)status_number(status, "\nNoNewPrivs:", 10);
	o.seccomp_mode = (uint32_t)status_number(status, "\nSeccomp:", 10);
	int r = read_own_namespaces(&o, err);
	if (r < 0)
		return r;
	*ret = o;
	return 0;
}

static bool wants_namespace(const struct box_entry *e, enum box_ns ns)
{
	switch (ns) {
	case BOX_NS_USER:
		return e->has_user_ns;
	case BOX_NS_NET:
		return e->has_net_ns;
	case BOX_NS_IPC:
		return e->has_ipc_ns;
	case BOX_NS_UTS:
		return e->has_uts_ns;
	case BOX_NS_CGROUP:
		return e->has_cgroup_ns;
	default:
		return true;
	}
}

static const char *ns_layer(enum box_ns ns)
{
	return ns == BOX_NS_MNT ? "mount" : box_ns_names[ns];
}

static int check_ids(const struct box_entry *e, const struct box_facts *in,
		     const struct box_outside *out, struct err *err)
{
	uint32_t inside_uid = e->has_user_ns ? BOX_UID : e->uid;
	uint32_t inside_gid = e->has_user_ns ? BOX_GID : e->gid;
	for (int i = 0; i < 4; i++)
		if (in->uid[i] != inside_uid || in->gid[i] != inside_gid || out->uid[i] != e->uid ||
		    out->gid[i] != e->gid)
			return err_layer(
				err, "user",
				"uid or gid differ: inside %u:%u, outside %u:%u, planned %u:%u",
				in->uid[i], in->gid[i], out->uid[i], out->gid[i], e->uid, e->gid);
	/* An ordinary user cannot drop its own supplementary groups; in its user namespace they are all nobody's. */
	if (in->n_groups && e->is_root)
		return err_layer(err, "user", "supplementary groups are still there");
	return 0;
}

static int check_layers(const struct box_entry *e, const struct box_facts *in,
			const struct box_outside *out, struct err *err)
{
	const struct plan *p = e->plan;
	for (int i = 0; i < BOX_NS_COUNT_; i++)
		if (wants_namespace(e, i) && in->ns[i] == out->own_ns[i])
			return err_layer(err, ns_layer(i), "the box shares the host's %s namespace",
					 box_ns_names[i]);
	for (int i = 0; i < 5; i++)
		if (in->caps[i])
			return err_layer(err, "user", "a capability is left: set %d is %llx", i,
					 (unsigned long long)in->caps[i]);
	if (out->caps_effective || !in->no_new_privs || !out->no_new_privs)
		return err_layer(err, "user", "capabilities or no_new_privs did not take");
	if ((in->seccomp_mode != 2 || out->seccomp_mode != 2 || !in->seccomp_own) &&
	    !plan_may_miss(p, "seccomp"))
		return err_layer(err, "seccomp", "no filter is in force (mode %u)",
				 in->seccomp_mode);
	if (p->landlock_abi && in->landlock_tried && !in->landlock_denies)
		return err_layer(err, "landlock", "a write that it should refuse was let through");
	if (p->checkpoint && !in->has_checkpoint)
		return err_layer(err, "mount", "the checkpoint is no writable mount of its own");
	if (in->n_id_mapped < in->n_id_mapped_made)
		return err_layer(err, "mount", "%u of %u id-mapped mounts are in force",
				 in->n_id_mapped, in->n_id_mapped_made);
	if (in->odd_mount[0])
		return err_layer(err, "mount", "weaker than planned: %s", in->odd_mount);
	return 0;
}

/* Faults of what the caller named, which nobody could see before. */
static int check_shown(const struct box_facts *in, struct err *err)
{
	if (in->kernel_mount[0])
		return err_set(
			err, ERR_CALLER, EPERM,
			"%s is a file system of the kernel, mounted below an input; analyses are shown data only: "
			"give a narrower directory",
			in->kernel_mount);
	if (in->unreadable[0])
		return err_set(
			err, ERR_CALLER, EACCES,
			"%s: the run's user can't read it, although the caller may; give a copy that its owner or "
			"its group may read",
			in->unreadable);
	return 0;
}

int receipt_check(const struct box_entry *e, const struct box_facts *in,
		  const struct box_outside *out, struct err *err)
{
	const struct plan *p = e->plan;
	int r = check_ids(e, in, out, err);
	if (r >= 0)
		r = check_layers(e, in, out, err);
	if (r >= 0)
		r = check_shown(in, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < p->n_rlimits; i++)
		if (in->rlimits[i] > p->rlimits[i].value)
			return err_set(err, ERR_HOST, EPERM, "the limit %s is %llu, planned %llu",
				       p->rlimits[i].name, (unsigned long long)in->rlimits[i],
				       (unsigned long long)p->rlimits[i].value);
	if (in->n_fds != 4 || in->dumpable || !str_eq(in->cwd, p->cwd))
		return err_set(err, ERR_HOST, EPERM,
			       "init has %u descriptors (4 planned), dumpable %u, directory %s",
			       in->n_fds, in->dumpable, in->cwd);
	return 0;
}

static json_t *namespaces_json(const struct box_entry *e, const struct box_facts *in,
			       const struct box_outside *out)
{
	json_t *o = json_object();
	for (int i = 0; i < BOX_NS_COUNT_; i++)
		json_object_set_new(o, box_ns_names[i],
				    json_pack("{s:o,s:o,s:b}", "inside", json_u64(in->ns[i]),
					      "host", json_u64(out->own_ns[i]), "own",
					      in->ns[i] != out->own_ns[i]));
	return o;
}

static json_t *caps_json(const struct box_facts *in)
{
	static const char *const names[] = { "inheritable", "permitted", "effective", "bounding",
					     "ambient" };
	json_t *o = json_object();
	for (int i = 0; i < 5; i++) {
		char hex[24];
		(void)snprintf(hex, sizeof hex, "%llx", (unsigned long long)in->caps[i]);
		json_object_set_new(o, names[i], json_string(hex));
	}
	return o;
}

static json_t *steps_json(const struct box_facts *in)
{
	json_t *o = json_object();
	for (size_t i = 0; i < BOX_STEPS_MAX && box_step_names[i]; i++)
		json_object_set_new(o, box_step_names[i], json_integer(in->step_usec[i]));
	return o;
}

json_t *receipt_json(const struct box_entry *e, const struct box_facts *in,
		     const struct box_outside *out)
{
	json_t *rlimits = json_object();
	for (size_t i = 0; i < e->plan->n_rlimits; i++)
		json_object_set_new(rlimits, e->plan->rlimits[i].name, json_u64(in->rlimits[i]));
	json_t *user = json_pack("{s:i,s:i,s:I,s:I,s:s,s:i}", "uid_inside", in->uid[1],
				 "gid_inside", in->gid[1], "uid_host", (json_int_t)out->uid[1],
				 "gid_host", (json_int_t)out->gid[1], "uid_map", out->uid_map,
				 "groups", in->n_groups);
	json_t *seccomp = json_pack("{s:i,s:i,s:i,s:s}", "mode", in->seccomp_mode, "filters",
				    in->seccomp_filters, "instructions", seccomp_length(), "sha256",
				    seccomp_digest());
	json_t *landlock = json_pack("{s:i,s:b,s:i}", "abi", in->landlock_abi,
				     "proven_by_refused_write", in->landlock_denies, "rules",
				     (int)e->plan->n_rules);
	return json_pack(
		"{s:o,s:o,s:o,s:b,s:o,s:o,s:{s:i,s:i,s:i,s:i,s:i},s:o,s:i,s:i,s:s,s:i,s:o}",
		"namespaces", namespaces_json(e, in, out), "user", user, "capabilities",
		caps_json(in), "no_new_privs", in->no_new_privs, "seccomp", seccomp, "landlock",
		landlock, "mounts", "all", in->n_mounts, "writable", in->n_writable, "id_mapped",
		in->n_id_mapped, "searched", in->n_searched, "searched_in_part", in->n_in_part,
		"rlimits", rlimits, "cpus_visible", in->n_cpus, "descriptors_of_init", in->n_fds,
		"cwd", in->cwd, "oom_score_adj", out->oom_score_adj, "setup_usec", steps_json(in));
}

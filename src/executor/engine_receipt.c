/* What a container really is, before the analysis starts in it: pid 1 waits. The kernel's word counts, and a difference from what was asked
 * for is an error. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/path.h"
#include "executor/engine_parts.h"

#define EXPECT_MAX (4 << 20)
#define MOUNTS_MAX (1 << 20)

struct receiving {
	const json_t *expected;
	pid_t pid;
	int proc_fd; /* owned; /proc/PID */
	json_t *seen;
};

static int differs(struct err *err, const char *layer, const char *what)
{
	(void)err_set(err, ERR_HOST, EPERM, "the container is not what was asked for: %s: %s",
		      layer, what);
	if (err)
		(void)snprintf(err->layer, sizeof err->layer, "%s", layer);
	return -EPERM;
}

static uint64_t expected(const struct receiving *r, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(r->expected, key));
}

static const char *field(const char *status, const char *key)
{
	const char *at = strstr(status, key);
	return at ? at + strlen(key) + strspn(at + strlen(key), " \t") : NULL;
}

/* All of a line's numbers are this one; an empty line will do for groups. */
static bool all_are(const char *at, uint64_t number, bool may_be_none)
{
	int n = 0;
	for (; at && *at && *at != '\n'; n++) {
		char *end = NULL;
		if (strtoull(at, &end, 10) != number || end == at)
			return false;
		at = end + strspn(end, " \t");
	}
	return n || may_be_none;
}

static int check_init(struct receiving *r, struct err *err)
{
	static const char *const sets[] = { "\nCapInh:", "\nCapPrm:", "\nCapEff:", "\nCapBnd:",
					    "\nCapAmb:" };
	char status[8192];
	if (fs_read_small(r->proc_fd, "status", status, sizeof status) < 0)
		return err_errno(err, "read the state of the container's pid 1");
	if (!all_are(field(status, "\nUid:"), expected(r, "uid"), false) ||
	    !all_are(field(status, "\nGid:"), expected(r, "gid"), false) ||
	    !all_are(field(status, "\nGroups:"), expected(r, "gid"), true))
		return differs(err, "user", "it runs as somebody else, or in other groups");
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		const char *at = field(status, sets[i]);
		if (!at || strtoull(at, NULL, 16) != 0)
			return differs(err, "user", "it has capabilities");
	}
	if (!all_are(field(status, "\nNoNewPrivs:"), 1, false))
		return differs(err, "seccomp", "no_new_privs is not set");
	const char *filters = field(status, "\nSeccomp_filters:");
	/* The engine's, and our own: pid 1 loads that itself. Kernels before 5.9 do not say how many there are. */
	if (!all_are(field(status, "\nSeccomp:"), 2, false) ||
	    (filters && strtoull(filters, NULL, 10) < 2))
		return differs(err, "seccomp", "it has not both filters of system calls");
	json_object_set_new(r->seen, "init",
			    json_pack("{s:i,s:o,s:o,s:i,s:i,s:i}", "pid", (int)r->pid, "uid",
				      json_u64(expected(r, "uid")), "gid",
				      json_u64(expected(r, "gid")), "capabilities", 0,
				      "no_new_privs", 1, "seccomp_filters",
				      filters ? (int)strtoul(filters, NULL, 10) : 0));
	return 0;
}

/* 1 if the container has one of its own, 0 if not, -EACCES if that is not ours to see. */
static int has_own(const struct receiving *r, const char *name)
{
	char theirs[64] = "", ours[64] = "", path[64];
	(void)snprintf(path, sizeof path, "ns/%s", name);
	if (readlinkat(r->proc_fd, path, theirs, sizeof theirs - 1) < 0)
		return -EACCES;
	(void)snprintf(path, sizeof path, "/proc/self/ns/%s", name);
	return readlink(path, ours, sizeof ours - 1) > 0 && !str_eq(theirs, ours);
}

static int check_namespaces(struct receiving *r, struct err *err)
{
	static const char *const names[][2] = { { "mnt", "mount" }, { "pid", "pid" },
						{ "ipc", "ipc" },   { "uts", "uts" },
						{ "net", "net" },   { "cgroup", "cgroup" } };
	json_t *seen = json_object();
	json_object_set_new(r->seen, "own_namespaces", seen);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const json_t *asked = json_object_get(r->expected, names[i][1]);
		int own = has_own(r, names[i][0]);
		json_object_set_new(seen, names[i][1],
				    own < 0 ? json_string("not seen") : json_boolean(own));
		if (own == 0 && (!asked || json_is_true(asked)))
			return differs(err, names[i][1], "it shares the host's namespace");
	}
	return 0;
}

static int check_group(struct receiving *r, struct err *err)
{
	struct group_values v = { 0 };
	group_read(r->pid, &v);
	json_object_set_new(r->seen, "group",
			    json_pack("{s:b,s:o,s:o,s:o,s:o,s:o}", "is_known", v.is_known,
				      "memory_max", json_u64(v.mem_max), "swap_max",
				      json_u64(v.swap_max), "pids_max", json_u64(v.pids_max),
				      "quota_usec", json_u64(v.quota_usec), "period_usec",
				      json_u64(v.period_usec)));
	/* The kernel counts pages: the limit is rounded down to one. */
	if (expected(r, "memory") &&
	    (v.mem_max / 4096 != expected(r, "memory") / 4096 || v.swap_max != 0))
		return differs(err, "memory", "the group has another limit, or may use swap");
	if (expected(r, "pids") && v.pids_max != expected(r, "pids"))
		return differs(err, "pids", "the group has another limit");
	if (expected(r, "cpu") &&
	    (!v.period_usec || v.quota_usec * 1000 / v.period_usec != expected(r, "cpu")))
		return differs(err, "cpu", "the group has another quota");
	return 0;
}

/* It leads to the very thing that we see under this name, through no link: engines follow links. */
static int check_bind(const struct receiving *r, int root_fd, const json_t *bind, struct err *err)
{
	const char *source = json_string_value(json_array_get(bind, 0));
	const char *target = json_string_value(json_array_get(bind, 1));
	struct stat here = { 0 }, there = { 0 };
	CLEANUP_FD int here_fd = fs_open_resolve(AT_FDCWD, source, O_PATH | O_CLOEXEC, 0,
						 RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	CLEANUP_FD int there_fd =
		fs_open_resolve(root_fd, target, O_PATH | O_CLOEXEC, 0, RESOLVE_IN_ROOT);
	if (here_fd < 0 || there_fd < 0 || fstat(here_fd, &here) < 0 || fstat(there_fd, &there) < 0)
		return err_set(err, ERR_HOST, EIO, "%s, shown as %s, can't be looked at", source,
			       target);
	return here.st_dev == there.st_dev && here.st_ino == there.st_ino
		       ? 0
		       : differs(err, "mount", target);
}

static int check_binds(struct receiving *r, struct err *err)
{
	const json_t *binds = json_object_get(r->expected, "binds");
	CLEANUP_FD int root_fd = openat(r->proc_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int e = 0;
	if (root_fd < 0 &&
	    geteuid() != 0) /* a container of another user's is not ours to look into */
		return 0;
	if (root_fd < 0)
		return err_errno(err, "look at the container's root");
	for (size_t i = 0; e >= 0 && i < json_array_size(binds); i++)
		e = check_bind(r, root_fd, json_array_get(binds, i), err);
	return e;
}

static bool may_be_writable(const struct receiving *r, const char *target)
{
	static const char *const own[] = { "/tmp", ROOT_SHARED_TMP, "/run" };
	const json_t *binds = json_object_get(r->expected, "binds");
	if (root_is_engines(target))
		return true;
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		if (str_eq(target, own[i]))
			return true;
	for (size_t i = 0; i < json_array_size(binds); i++) {
		const json_t *bind = json_array_get(binds, i);
		if (json_is_true(json_array_get(bind, 2)) &&
		    str_eq(target, json_string_value(json_array_get(bind, 1))))
			return true;
	}
	return false;
}

/* Each mount: "ID PARENT DEVICE ROOT TARGET OPTIONS...". A path with blanks has them as \040; none of the writable ones of ours has. */
static int check_mounts(struct receiving *r, struct err *err)
{
	CLEANUP_FREE char *text = xcalloc(1, MOUNTS_MAX);
	CLEANUP_FD int fd = openat(r->proc_fd, "mountinfo", O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	for (ssize_t n = 1;
	     fd >= 0 && n > 0 && length<MOUNTS_MAX - 1; length += n> 0 ? (size_t)n : 0)
		n = read(fd, text + length, MOUNTS_MAX - 1 - length);
	if (!length && geteuid() == 0)
		return err_set(err, ERR_HOST, EIO, "the container's mounts can't be read");
	int n_writable = 0;
	for (char *line = text, *next; *line; line = next) {
		char target[4096] = "", options[16] = "";
		next = line + strcspn(line, "\n");
		next += *next == '\n';
		if (sscanf(line, "%*s %*s %*s %*s %4095s %15s", target, options) != 2)
			continue;
		bool writable = str_starts(options, "rw");
		n_writable += writable;
		if (writable && !may_be_writable(r, target))
			return differs(err, "mount", target);
	}
	json_object_set_new(r->seen, "writable_mounts", json_integer(n_writable));
	return 0;
}

/* Whatever is allowed to be missing: see the probe. */
static int check_landlock(struct receiving *r, int stage_fd, struct err *err)
{
	char status[STATUS_MAX + 1] = "";
	(void)engine_notes(stage_fd, status, sizeof status);
	const char *at = strstr(status, "landlock ");
	int abi = at ? (int)strtol(at + strlen("landlock "), NULL, 10) : 0;
	json_object_set_new(r->seen, "landlock_abi", json_integer(abi));
	return abi > 0 && abi >= (int)expected(r, "landlock")
		       ? 0
		       : differs(err, "landlock", "it is not in force");
}

static void receiving_release(struct receiving *r)
{
	cleanup_fd(&r->proc_fd);
}

int engine_receipt(const struct executor *x, const json_t *inspection, const char *stage,
		   json_t **ret, struct err *err)
{
	const json_t *state = json_object_get(inspection, "State");
	const json_t *asked = json_object_get(inspection, "HostConfig");
	CLEANUP_JSON json_t *expect = NULL;
	CLEANUP_JSON json_t *seen = json_object();
	CLEANUP(receiving_release)
	struct receiving r = {
		.pid = (pid_t)json_integer_value(json_object_get(state, "Pid")),
		.proc_fd = -1,
		.seen = seen,
	};
	char path[64];
	CLEANUP_FD int stage_fd = open(stage, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int e = json_read_file(stage_fd, STAGE_EXPECT, EXPECT_MAX, &expect, err);
	if (e < 0)
		return e;
	r.expected = expect;
	(void)snprintf(path, sizeof path, "/proc/%d", (int)r.pid);
	r.proc_fd = r.pid > 0 ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	if (r.proc_fd < 0)
		return err_set(err, ERR_HOST, EIO, "the container's pid 1 is not on this host");
	if (!json_is_true(json_object_get(asked, "ReadonlyRootfs")) ||
	    json_is_true(json_object_get(asked, "Privileged")))
		return differs(err, "mount", "the engine did not take what it was told");
	int (*const checks[])(struct receiving *, struct err *) = { check_init, check_namespaces,
								    check_group, check_mounts,
								    check_binds };
	for (size_t i = 0; e >= 0 && i < sizeof checks / sizeof *checks; i++)
		e = checks[i](&r, err);
	if (e >= 0)
		e = check_landlock(&r, stage_fd, err);
	*ret = json_incref(seen);
	return e;
}

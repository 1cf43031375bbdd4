/* The way from the top of the v2 tree down to PARENT: controllers are switched on level by level, and an ordinary user needs a
 * part of the tree that was delegated to him. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/str.h"
#include "budget/group.h"

#define WANTED (LIMITER_ALL | CONTROLLER_BIT(CONTROLLER_IO))

static unsigned read_controllers(int dir_fd, const char *file)
{
	char words[512];
	return fs_read_small(dir_fd, file, words, sizeof(words)) < 0 ? 0 : controllers_parse(words);
}

static int enable_one(int dir_fd, enum controller c, struct err *err)
{
	char word[16];
	(void)snprintf(word, sizeof(word), "+%s", controller_name(c));
	int r = fs_write_small(dir_fd, "cgroup.subtree_control", word);
	/* io is for accounting only: its absence takes nothing away from the limits. */
	if (r >= 0 || c == CONTROLLER_IO)
		return 0;
	if (r == -EBUSY)
		return err_layer(
			err, controller_name(c),
			"the group has processes of its own, so it cannot give controllers to children. "
			"Remedy, as root in that group's directory: mkdir init && "
			"for p in $(cat cgroup.procs); do echo $p >init/cgroup.procs; done; in a "
			"container do so in its start script, or run cupel under systemd");
	return err_set(err, ERR_HOST, -r, "write %s to cgroup.subtree_control: %s", word,
		       strerror(-r));
}

int cgroup2_enable(int dir_fd, unsigned wanted, unsigned *ret_enabled, struct err *err)
{
	unsigned offered = read_controllers(dir_fd, "cgroup.controllers");
	unsigned on = read_controllers(dir_fd, "cgroup.subtree_control");
	for (int c = 0; c < CONTROLLER_COUNT_; c++)
		if (wanted & offered & ~on & CONTROLLER_BIT(c)) {
			int r = enable_one(dir_fd, (enum controller)c, err);
			if (r < 0)
				return r;
		}
	*ret_enabled = read_controllers(dir_fd, "cgroup.subtree_control");
	return 0;
}

/* The exact commands that give a user a place for his runs; errno says why he has none. */
static int not_delegated(const struct hierarchy *v2, const char *what, struct err *err)
{
	unsigned uid = (unsigned)geteuid();
	const char *m = v2->mount;
	if (errno == EROFS)
		return err_set(err, ERR_HOST, EROFS, "%s in %s", what, m);
	return err_set(
		err, ERR_HOST, EACCES,
		"%s, and no part of the cgroup tree is delegated to this user. Remedy, as root: "
		"echo '+memory +cpu +pids' >%s/cgroup.subtree_control; "
		"mkdir -p %s/u%u/shell %s/u%u/cupel; "
		"echo '+memory +cpu +pids' >%s/u%u/cgroup.subtree_control; chown -R %u %s/u%u; "
		"echo PID-OF-THE-SHELL >%s/u%u/shell/cgroup.procs; "
		"then set cgroup.parent: u%u/cupel",
		what, m, m, uid, m, uid, m, uid, uid, m, uid, m, uid, uid);
}

/* Length of the common leading components of two paths below the mount point. */
static size_t common_length(const char *a, const char *b)
{
	size_t common = 0;
	for (size_t i = 0;; i++) {
		bool end_a = a[i] == '\0' || a[i] == '/', end_b = b[i] == '\0' || b[i] == '/';
		if (end_a && end_b)
			common = i;
		if (a[i] != b[i] || a[i] == '\0')
			return common;
	}
}

/* A process may be moved by an ordinary user only below a group whose cgroup.procs he can write, and that holds both its old and
 * its new place. Found out here, since otherwise the launch would fail after all the rest was done. */
static int check_delegation(const struct hierarchy *v2, const char *parent, struct err *err)
{
	if (geteuid() == 0)
		return 0;
	CLEANUP_FREE char *own = hierarchy_own_path(v2);
	CLEANUP_FREE char *target = xasprintf("/%s", parent);
	errno = 0;
	if (!own)
		return not_delegated(v2, "this process's group is outside the mounted tree", err);
	CLEANUP_FREE char *common = xstrndup(own, common_length(own, target));
	CLEANUP_FREE char *procs = xasprintf("%s%s/cgroup.procs", v2->mount, common);
	CLEANUP_FREE char *parent_procs = xasprintf("%s%s/cgroup.procs", v2->mount, target);
	if (faccessat(AT_FDCWD, procs, W_OK, AT_EACCESS) < 0)
		return not_delegated(v2, "processes of this user cannot be moved", err);
	if (faccessat(AT_FDCWD, parent_procs, W_OK, AT_EACCESS) < 0 && errno != ENOENT)
		return not_delegated(v2, "the parent group is not writable", err);
	return 0;
}

/* Opens PARENT, making it where it is missing, with the controllers on at each level above and in it. */
static int parent_open(const struct hierarchy *v2, const char *parent, unsigned *ret_enabled,
		       struct err *err)
{
	CLEANUP_FD int at = open(v2->mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (at < 0)
		return err_errno(err, "open %s", v2->mount);
	unsigned enabled = 0;
	for (const char *rest = parent;;) {
		int r = cgroup2_enable(at, WANTED, &enabled, err);
		if (r < 0)
			return err_wrap(err, "cgroup %s, on the way to '%s'", v2->mount, parent);
		if (*rest == '\0')
			break;
		size_t length = strcspn(rest, "/");
		CLEANUP_FREE char *name = xstrndup(rest, length);
		rest += length;
		rest += strspn(rest, "/");
		int next = group_open(at, name, true);
		if (next < 0)
			return err_set(err, ERR_HOST, -next, "make group '%s' for '%s' in %s: %s",
				       name, parent, v2->mount, strerror(-next));
		cleanup_fd(&at);
		at = next;
	}
	*ret_enabled = enabled;
	return take_fd(&at);
}

static int parent_cap(int parent_fd, const struct budget_request *request, struct err *err)
{
	struct cgroup2_caps caps;
	cgroup2_caps(request->aggregate, request_cpu_weight(request), &caps);
	const char *const rows[][2] = { { "memory.max", caps.memory },
					{ "cpu.max", caps.cpu },
					{ "cpu.weight", caps.weight },
					{ "pids.max", caps.pids } };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		/* A missing controller is judged where the run's own group is made. */
		if (rows[i][1][0] == '\0' || !group_has(parent_fd, rows[i][0]))
			continue;
		int r = group_write_changed(parent_fd, rows[i][0], rows[i][1], err);
		if (r < 0)
			return err_wrap(err, "the cap of all runs");
	}
	return 0;
}

int cgroup2_create(const struct hierarchies *host, const struct budget_request *request,
		   struct budget **ret, struct err *err)
{
	int r = check_delegation(&host->v2, request->parent, err);
	if (r < 0)
		return r;
	unsigned enabled = 0;
	CLEANUP_FD int parent_fd = parent_open(&host->v2, request->parent, &enabled, err);
	if (parent_fd < 0)
		return parent_fd;
	r = parent_cap(parent_fd, request, err);
	if (r < 0)
		return r;
	CLEANUP_FREE char *path = xasprintf("%s/%s", request->parent, request->id);
	struct cgroup2_place place = { .parent_fd = take_fd(&parent_fd),
				       .name = request->id,
				       .path = path,
				       .controllers = enabled,
				       .ops = &cgroup2_ops };
	return cgroup2_create_at(&place, request, ret, err);
}

/* The budget on cgroup v1: one group of the same name in each controller's own tree.
 *
 * Kernel facts relied on: Documentation/admin-guide/cgroup-v1 (memory, cpuacct, pids, blkio) and
 * scheduler/sched-bwc. v1 has no group-wide OOM kill and no kill file: the keeper is told by an eventfd, and members
 * are ended one by one. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/path.h"
#include "base/str.h"
#include "budget/cgroup1.h"
#include "budget/group.h"

static void cgroup1_free(struct budget *b)
{
	struct cgroup1 *g = (struct cgroup1 *)b;
	for (size_t i = 0; i < g->n; i++) {
		cleanup_fd(&g->at[i].parent_fd);
		cleanup_fd(&g->at[i].dir_fd);
	}
	cleanup_fd(&g->oom_fd);
	settings_release(&g->settings);
	free(g->path);
	free(g->id);
	free(g);
}

/* For a creation that fails half-way: the groups made so far go with the handle. */
static void cgroup1_abandon(struct cgroup1 **g)
{
	if (!*g)
		return;
	cleanup_fd(&(*g)->oom_fd);
	for (size_t i = 0; i < (*g)->n; i++)
		(void)group_remove((*g)->at[i].parent_fd, (*g)->id, NULL);
	cgroup1_free(&(*g)->base);
	*g = NULL;
}

int cgroup1_dir(const struct cgroup1 *g, enum controller c)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->at[i].controllers & CONTROLLER_BIT(c))
			return g->at[i].dir_fd;
	return -1;
}

static int cgroup1_join_fds(struct budget *b, int ret_fds[BUDGET_JOIN_MAX], struct err *err)
{
	struct cgroup1 *g = (struct cgroup1 *)b;
	for (size_t i = 0; i < g->n; i++) {
		ret_fds[i] = openat(g->at[i].dir_fd, "tasks", O_WRONLY | O_CLOEXEC);
		if (ret_fds[i] >= 0)
			continue;
		int r = err_errno(err, "open tasks of group %s", g->path);
		while (i > 0)
			cleanup_fd(&ret_fds[--i]);
		return r;
	}
	return (int)g->n;
}

static int cgroup1_clone_fd(struct budget *b)
{
	return -EOPNOTSUPP;
}

static int cgroup1_members_fd(struct budget *b)
{
	const struct cgroup1 *g = (const struct cgroup1 *)b;
	return g->n > 0 ? g->at[0].dir_fd : -EOPNOTSUPP; /* a run is in all of its groups */
}

static int cgroup1_oom_fd(struct budget *b)
{
	struct cgroup1 *g = (struct cgroup1 *)b;
	return g->oom_fd < 0 ? -EOPNOTSUPP : g->oom_fd;
}

static short cgroup1_oom_events(struct budget *b)
{
	return POLLIN;
}

static void cgroup1_oom_ack(struct budget *b)
{
	uint64_t count;
	ssize_t n = read(((struct cgroup1 *)b)->oom_fd, &count, sizeof(count));
	(void)n; /* non-blocking: nothing to consume is fine */
}

static int cgroup1_kill_all(struct budget *b, uint64_t wait_ns, struct err *err)
{
	struct cgroup1 *g = (struct cgroup1 *)b;
	int dir_fds[CONTROLLER_COUNT_];
	for (size_t i = 0; i < g->n; i++)
		dir_fds[i] = g->at[i].dir_fd;
	return group_kill(dir_fds, g->n, clock_monotonic_ns() + wait_ns, err);
}

static int cgroup1_receipt(struct budget *b, struct budget_value ret[BUDGET_VALUES_MAX])
{
	return settings_read(&((struct cgroup1 *)b)->settings, ret);
}

static const char *cgroup1_path(struct budget *b)
{
	return ((struct cgroup1 *)b)->path;
}

static int cgroup1_remove(struct budget *b, struct err *err)
{
	struct cgroup1 *g = (struct cgroup1 *)b;
	int result = 0;
	for (size_t i = 0; i < g->n; i++) {
		int r = group_remove(g->at[i].parent_fd, g->id, result < 0 ? NULL : err);
		if (r < 0 && result == 0)
			result = r;
	}
	return result;
}

static const struct budget_ops cgroup1_ops = {
	.name = "cgroup1",
	.clone_fd = cgroup1_clone_fd,
	.join_fds = cgroup1_join_fds,
	.members_fd = cgroup1_members_fd,
	.read_usage = cgroup1_read_usage,
	.oom_fd = cgroup1_oom_fd,
	.oom_events = cgroup1_oom_events,
	.oom_ack = cgroup1_oom_ack,
	.kill_all = cgroup1_kill_all,
	.receipt = cgroup1_receipt,
	.path = cgroup1_path,
	.remove = cgroup1_remove,
	.free = cgroup1_free,
};

/* What an administrator has to do so that this user can make groups in one tree. */
static int no_access(const struct hierarchy *h, const struct budget_request *request, int code,
		     struct err *err)
{
	CLEANUP_FREE char *top = path_parent(h->mount); /* where the other trees are mounted too */
	if (code == EROFS)
		return err_set(err, ERR_HOST, code, "cannot make groups in %s/%s. Remedy: %s",
			       h->mount, request->parent, GROUPS_READ_ONLY);
	return err_set(
		err, ERR_HOST, code,
		"cannot make groups in %s/%s: %s. Remedy, as root, for all trees at once: "
		"for c in memory cpu cpuacct pids; do mkdir -p %s/$c/%s; chown -R %u %s/$c/%s; done",
		h->mount, request->parent, strerror(code), top, request->parent,
		(unsigned)geteuid(), top, request->parent);
}

/* PARENT with its cap and the empty PARENT/ID in one tree. */
static int level_make(const struct hierarchy *h, const struct budget_request *request,
		      struct level *ret, struct err *err)
{
	CLEANUP_FD int mount_fd = open(h->mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mount_fd < 0)
		return err_errno(err, "open %s", h->mount);
	CLEANUP_FD int parent_fd = group_open(mount_fd, request->parent, true);
	if (parent_fd < 0)
		return no_access(h, request, -parent_fd, err);

	struct level level = { .controllers = h->controllers, .parent_fd = parent_fd };
	int r = cgroup1_cap_parent(&level, request, err);
	if (r == -EROFS || r == -EACCES || r == -EPERM)
		return no_access(h, request, -r, err);
	if (r < 0)
		return err_wrap(err, "the cap of all runs on %s/%s", h->mount, request->parent);
	level.dir_fd = group_make(parent_fd, request->id);
	if (level.dir_fd == -EEXIST)
		return err_set(err, ERR_CALLER, EEXIST,
			       "a group for the id '%s' exists already: %s/%s/%s", request->id,
			       h->mount, request->parent, request->id);
	if (level.dir_fd < 0)
		return no_access(h, request, -level.dir_fd, err);
	(void)take_fd(&parent_fd);
	*ret = level;
	return 0;
}

/* The limiters that are gone when this tree is: accounting of cpu time belongs to the cpu limiter. */
static unsigned level_limiters(const struct hierarchy *h)
{
	unsigned limiters = h->controllers & LIMITER_ALL;
	return h->controllers & CONTROLLER_BIT(CONTROLLER_CPUACCT) ? limiters | LIMITER_CPU
								   : limiters;
}

/* Seen on 6.18: the blkio tree counts nothing unless somebody throttles. Then the tree's own top, which has all processes below it, has
 * no line for any device, and a group of ours would have none either. Only that top has a release_agent. */
static bool counts_nothing(const struct hierarchy *h)
{
	char text[512] = "";
	if (h->controllers != CONTROLLER_BIT(CONTROLLER_IO))
		return false;
	CLEANUP_FD int fd = open(h->mount, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 && group_has(fd, "release_agent") &&
	       fs_read_small(fd, "blkio.throttle.io_service_bytes", text, sizeof text) >= 0 &&
	       !strstr(text, "Read");
}

static int levels_make(struct cgroup1 *g, const struct hierarchies *host,
		       const struct budget_request *request, struct err *err)
{
	struct err first = { 0 }; /* one text; but every limiter that is refused is named */
	unsigned unusable = 0;
	for (size_t i = 0; i < host->n_v1; i++) {
		struct err failure = { 0 };
		if (counts_nothing(&host->v1[i]))
			continue;
		int r = level_make(&host->v1[i], request, &g->at[g->n], &failure);
		if (r == -EEXIST) {
			if (err)
				*err = failure;
			return r;
		}
		if (r >= 0) {
			g->n++;
			continue;
		}
		unusable |=
			request_refuses(request, level_limiters(&host->v1[i]), &g->base.missing);
		if (unusable && !first.code)
			first = failure;
	}
	if (unusable)
		return err_layer(err, limiter_names(unusable), "%s", first.text);
	unsigned has = 0;
	for (size_t i = 0; i < g->n; i++)
		has |= g->at[i].controllers;
	if (!(has & CONTROLLER_BIT(CONTROLLER_CPUACCT)))
		has &= ~LIMITER_CPU;
	unsigned refused = request_refuses(request, LIMITER_ALL & ~has, &g->base.missing);
	if (refused)
		return err_layer(
			err, limiter_names(refused),
			"no cgroup v1 tree with this controller is mounted. Remedy, as root: "
			"mkdir -p /sys/fs/cgroup/%s && mount -t cgroup -o %s cgroup "
			"/sys/fs/cgroup/%s",
			limiter_name(refused),
			refused & LIMITER_MEMORY ? "memory"
			: refused & LIMITER_CPU  ? "cpu,cpuacct"
						 : "pids",
			limiter_name(refused));
	return 0;
}

/* "EVENTFD FD-OF-OOM_CONTROL" in cgroup.event_control: the kernel keeps its own hold on both. */
static int oom_listen(struct cgroup1 *g, struct err *err)
{
	int dir_fd = cgroup1_dir(g, CONTROLLER_MEMORY);
	if (dir_fd < 0)
		return 0;
	CLEANUP_FD int control_fd = openat(dir_fd, "memory.oom_control", O_RDONLY | O_CLOEXEC);
	if (control_fd < 0)
		return err_errno(err, "open memory.oom_control");
	CLEANUP_FD int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (event_fd < 0)
		return err_errno(err, "eventfd");
	char text[32];
	(void)snprintf(text, sizeof(text), "%d %d", event_fd, control_fd);
	int r = fs_write_small(dir_fd, "cgroup.event_control", text);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "ask for OOM events in cgroup.event_control: %s",
			       strerror(-r));
	g->oom_fd = take_fd(&event_fd);
	return 0;
}

int cgroup1_create(const struct hierarchies *host, const struct budget_request *request,
		   struct budget **ret, struct err *err)
{
	__attribute__((cleanup(cgroup1_abandon))) struct cgroup1 *g = xcalloc(1, sizeof(*g));
	g->base.ops = &cgroup1_ops;
	g->oom_fd = -1;
	g->id = xstrdup(request->id);
	g->path = xasprintf("%s/%s", request->parent, request->id);

	int r = levels_make(g, host, request, err);
	if (r >= 0)
		r = cgroup1_limit(g, request->limits, err);
	if (r >= 0)
		r = oom_listen(g, err);
	if (r < 0)
		return r;
	*ret = &take_ptr(g)->base;
	return 0;
}

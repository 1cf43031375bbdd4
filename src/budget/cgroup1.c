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

#define CFS_PERIOD_US    100000u
#define CFS_QUOTA_MIN_US 1000u

static void cgroup1_free(struct budget *b)
{
	struct cgroup1 *g = (struct cgroup1 *)b;
	for (size_t i = 0; i < g->n; i++) {
		cleanup_fd(&g->at[i].parent_fd);
		cleanup_fd(&g->at[i].dir_fd);
	}
	cleanup_fd(&g->oom_fd);
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

/* Groups count in their parent only with use_hierarchy, which is fixed on since 5.11 and a choice before. */
static int parent_memory(int parent_fd, const struct limits *cap, struct err *err)
{
	char have[8] = "";
	if (fs_read_small(parent_fd, "memory.use_hierarchy", have, sizeof(have)) >= 0 &&
	    str_eq(have, "0")) {
		int r = group_write_changed(parent_fd, "memory.use_hierarchy", "1", err);
		if (r < 0)
			return r;
	}
	if (!cap || !cap->at[LIMIT_MEMORY].value)
		return 0;
	char want[32];
	(void)snprintf(want, sizeof(want), "%" PRIu64, round_to_page(cap->at[LIMIT_MEMORY].value));
	return group_write_changed(parent_fd, "memory.limit_in_bytes", want, err);
}

static uint64_t cfs_quota_us(uint64_t milli_cpus)
{
	uint64_t quota = milli_cpus * (CFS_PERIOD_US / 1000);
	return quota < CFS_QUOTA_MIN_US ? CFS_QUOTA_MIN_US : quota;
}

static int parent_cpu(int parent_fd, const struct limits *cap, struct err *err)
{
	if (!cap || !cap->at[LIMIT_CPUS].value)
		return 0;
	char want[32];
	(void)snprintf(want, sizeof(want), "%u", GROUP_CPU_SHARES);
	int r = group_write_changed(parent_fd, "cpu.shares", want, err);
	if (r >= 0)
		r = group_write_changed(parent_fd, "cpu.cfs_period_us", "100000", err);
	(void)snprintf(want, sizeof(want), "%" PRIu64, cfs_quota_us(cap->at[LIMIT_CPUS].value));
	return r < 0 ? r : group_write_changed(parent_fd, "cpu.cfs_quota_us", want, err);
}

static int parent_pids(int parent_fd, const struct limits *cap, struct err *err)
{
	if (!cap || !cap->at[LIMIT_PIDS].value)
		return 0;
	char want[32];
	(void)snprintf(want, sizeof(want), "%" PRIu64, cap->at[LIMIT_PIDS].value);
	return group_write_changed(parent_fd, "pids.max", want, err);
}

static int parent_cap(const struct level *level, const struct limits *cap, struct err *err)
{
	int r = 0;
	if (level->controllers & LIMITER_MEMORY)
		r = parent_memory(level->parent_fd, cap, err);
	if (r >= 0 && level->controllers & LIMITER_CPU)
		r = parent_cpu(level->parent_fd, cap, err);
	if (r >= 0 && level->controllers & LIMITER_PIDS)
		r = parent_pids(level->parent_fd, cap, err);
	return r;
}

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
	int r = parent_cap(&level, request->aggregate, err);
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

static int levels_make(struct cgroup1 *g, const struct hierarchies *host,
		       const struct budget_request *request, struct err *err)
{
	struct err first = { 0 }; /* one text; but every limiter that is refused is named */
	unsigned unusable = 0;
	for (size_t i = 0; i < host->n_v1; i++) {
		struct err failure = { 0 };
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

static int set_memory(struct cgroup1 *g, uint64_t bytes, struct err *err)
{
	int dir_fd = cgroup1_dir(g, CONTROLLER_MEMORY);
	if (dir_fd < 0 || bytes == 0)
		return 0;
	char want[32];
	(void)snprintf(want, sizeof(want), "%" PRIu64, round_to_page(bytes));
	int r = settings_write(&g->settings, dir_fd, "memory.limit_in_bytes", want, err);
	/* memsw counts memory and swap together: the same value means no swap. It is there only where the kernel accounts
	 * swap; swappiness 0 keeps the group's own reclaim from swapping anywhere. */
	if (r >= 0 && group_has(dir_fd, "memory.memsw.limit_in_bytes"))
		r = settings_write(&g->settings, dir_fd, "memory.memsw.limit_in_bytes", want, err);
	if (r >= 0 && group_has(dir_fd, "memory.swappiness"))
		r = settings_write(&g->settings, dir_fd, "memory.swappiness", "0", err);
	return r;
}

/* v1 refuses a quota above the parent's, where v2 just applies the smaller one: so take the smaller one here. */
static uint64_t quota_within_parent(int dir_fd, uint64_t quota)
{
	uint64_t cap = group_number(dir_fd, "../cpu.cfs_quota_us");
	uint64_t period = group_number(dir_fd, "../cpu.cfs_period_us");
	if (cap == 0 || period == 0)
		return quota;
	uint64_t scaled = cap * CFS_PERIOD_US / period;
	return scaled < quota ? scaled : quota;
}

static int set_cpu(struct cgroup1 *g, uint64_t milli_cpus, struct err *err)
{
	int dir_fd = cgroup1_dir(g, CONTROLLER_CPU);
	if (dir_fd < 0 || milli_cpus == 0)
		return 0;
	char want[32];
	(void)snprintf(want, sizeof(want), "%" PRIu64,
		       quota_within_parent(dir_fd, cfs_quota_us(milli_cpus)));
	int r = settings_write(&g->settings, dir_fd, "cpu.cfs_period_us", "100000", err);
	return r < 0 ? r : settings_write(&g->settings, dir_fd, "cpu.cfs_quota_us", want, err);
}

static int set_pids(struct cgroup1 *g, uint64_t pids, struct err *err)
{
	int dir_fd = cgroup1_dir(g, CONTROLLER_PIDS);
	if (dir_fd < 0 || pids == 0)
		return 0;
	char want[32];
	(void)snprintf(want, sizeof(want), "%" PRIu64, pids);
	return settings_write(&g->settings, dir_fd, "pids.max", want, err);
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
		r = set_memory(g, request->limits->at[LIMIT_MEMORY].value, err);
	if (r >= 0)
		r = set_cpu(g, request->limits->at[LIMIT_CPUS].value, err);
	if (r >= 0)
		r = set_pids(g, request->limits->at[LIMIT_PIDS].value, err);
	if (r >= 0)
		r = oom_listen(g, err);
	if (r < 0)
		return r;
	*ret = &take_ptr(g)->base;
	return 0;
}

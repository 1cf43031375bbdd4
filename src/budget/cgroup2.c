/* The budget on cgroup v2: one group in the unified tree (Documentation/admin-guide/cgroup-v2).
 *
 * A group whose children have controllers holds no processes itself, so PARENT never has members. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/str.h"
#include "budget/cgroup2.h"

#define CPU_PERIOD_US    100000u
#define CPU_QUOTA_MIN_US 1000u

static void cgroup2_free(struct budget *b)
{
	struct cgroup2 *g = (struct cgroup2 *)b;
	cleanup_fd(&g->parent_fd);
	cleanup_fd(&g->dir_fd);
	cleanup_fd(&g->oom_fd);
	settings_release(&g->settings);
	free(g->name);
	free(g->path);
	free(g);
}

/* For a creation that fails half-way: the group made goes with the handle. */
static void cgroup2_abandon(struct cgroup2 **g)
{
	if (!*g)
		return;
	if ((*g)->dir_fd >= 0)
		(void)group_remove((*g)->parent_fd, (*g)->name, NULL);
	cgroup2_free(&(*g)->base);
	*g = NULL;
}

/* Whoever is to be in the group is born in it. */
static int cgroup2_join_fds(struct budget *b, int ret_fds[BUDGET_JOIN_MAX], struct err *err)
{
	return 0;
}

static int cgroup2_clone_fd(struct budget *b)
{
	return ((struct cgroup2 *)b)->dir_fd;
}

static int cgroup2_oom_fd(struct budget *b)
{
	struct cgroup2 *g = (struct cgroup2 *)b;
	return g->oom_fd < 0 ? -EOPNOTSUPP : g->oom_fd;
}

static short cgroup2_oom_events(struct budget *b)
{
	return POLLPRI;
}

/* A kernfs file is quiet again once it has been read since its last change. */
static void cgroup2_oom_ack(struct budget *b)
{
	char text[256];
	ssize_t n = pread(((struct cgroup2 *)b)->oom_fd, text, sizeof(text), 0);
	(void)n;
}

/* Waits until cgroup.events says "populated 0": no process in the group or below it. */
static int wait_empty(int dir_fd, uint64_t deadline_ns, struct err *err)
{
	CLEANUP_FD int fd = openat(dir_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ENODEV ? 0
							  : err_errno(err, "open cgroup.events");
	for (;;) {
		char text[256];
		ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
		if (n < 0)
			return errno == ENODEV ? 0 : err_errno(err, "read cgroup.events");
		text[n] = '\0';
		if (text_number(text, "populated") == 0)
			return 0;
		int left_ms = deadline_ms(deadline_ns);
		if (left_ms == 0)
			return err_set(err, ERR_HOST, ETIMEDOUT, "the group did not empty in time");
		struct pollfd changed = { .fd = fd, .events = POLLPRI };
		if (poll(&changed, 1, left_ms) < 0 && errno != EINTR)
			return err_errno(err, "wait for cgroup.events");
	}
}

/* Before 5.14 there is no cgroup.kill: frozen, the members can't fork while they are ended one by one. */
static int freeze_and_kill(int dir_fd, uint64_t deadline_ns, struct err *err)
{
	(void)fs_write_small(dir_fd, "cgroup.freeze", "1");
	/* A systemd scope's members are in its two children, a plain group's in itself. */
	CLEANUP_FD int keeper_fd = group_open(dir_fd, "keeper", false);
	CLEANUP_FD int box_fd = group_open(dir_fd, "box", false);
	int all[] = { dir_fd, keeper_fd, box_fd };
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		int r = all[i] < 0 ? 0 : group_kill(&all[i], 1, deadline_ns, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int cgroup2_kill(int dir_fd, uint64_t deadline_ns, struct err *err)
{
	int r = fs_write_small(dir_fd, "cgroup.kill", "1");
	if (r == -ENOENT && group_has(dir_fd, "cgroup.procs"))
		r = freeze_and_kill(dir_fd, deadline_ns, err);
	else if (r < 0 && r != -ENOENT && r != -ENODEV)
		return err_set(err, ERR_HOST, -r, "write cgroup.kill: %s", strerror(-r));
	return r < 0 && r != -ENOENT && r != -ENODEV ? r : wait_empty(dir_fd, deadline_ns, err);
}

static int cgroup2_kill_all(struct budget *b, uint64_t wait_ns, struct err *err)
{
	return cgroup2_kill(((struct cgroup2 *)b)->dir_fd, clock_monotonic_ns() + wait_ns, err);
}

static int cgroup2_receipt(struct budget *b, struct budget_value ret[BUDGET_VALUES_MAX])
{
	return settings_read(&((struct cgroup2 *)b)->settings, ret);
}

static const char *cgroup2_path(struct budget *b)
{
	return ((struct cgroup2 *)b)->path;
}

static int cgroup2_remove(struct budget *b, struct err *err)
{
	struct cgroup2 *g = (struct cgroup2 *)b;
	return group_remove(g->parent_fd, g->name, err);
}

#define CGROUP2_OPS(NAME)                                                                          \
	{                                                                                          \
		.name = NAME, .clone_fd = cgroup2_clone_fd, .join_fds = cgroup2_join_fds,          \
		.members_fd = cgroup2_clone_fd, .read_usage = cgroup2_read_usage,                  \
		.oom_fd = cgroup2_oom_fd, .oom_events = cgroup2_oom_events,                        \
		.oom_ack = cgroup2_oom_ack, .kill_all = cgroup2_kill_all,                          \
		.receipt = cgroup2_receipt, .path = cgroup2_path, .remove = cgroup2_remove,        \
		.free = cgroup2_free,                                                              \
	}
const struct budget_ops cgroup2_ops = CGROUP2_OPS("cgroup2");
const struct budget_ops cgroup2_systemd_ops = CGROUP2_OPS("cgroup2-systemd");

void cgroup2_caps(const struct limits *limits, unsigned weight, struct cgroup2_caps *ret)
{
	*ret = (struct cgroup2_caps){ 0 };
	if (!limits)
		return;
	uint64_t bytes = limits->at[LIMIT_MEMORY].value, milli = limits->at[LIMIT_CPUS].value;
	uint64_t quota = milli * (CPU_PERIOD_US / 1000);
	if (bytes)
		(void)snprintf(ret->memory, sizeof(ret->memory), "%" PRIu64, round_to_page(bytes));
	if (milli)
		(void)snprintf(ret->cpu, sizeof(ret->cpu), "%" PRIu64 " %u",
			       quota < CPU_QUOTA_MIN_US ? CPU_QUOTA_MIN_US : quota, CPU_PERIOD_US);
	if (weight)
		(void)snprintf(ret->weight, sizeof(ret->weight), "%u", weight);
	if (limits->at[LIMIT_PIDS].value)
		(void)snprintf(ret->pids, sizeof(ret->pids), "%" PRIu64,
			       limits->at[LIMIT_PIDS].value);
}

static int set_limits(struct cgroup2 *g, const struct limits *limits, struct err *err)
{
	struct cgroup2_caps caps;
	cgroup2_caps(limits, 0, &caps);
	int r = 0;
	if (g->controllers & LIMITER_MEMORY) {
		if (caps.memory[0])
			r = settings_write(&g->settings, g->dir_fd, "memory.max", caps.memory, err);
		/* Absent where the kernel does not account swap or the host has none of it configured. */
		if (r >= 0 && group_has(g->dir_fd, "memory.swap.max"))
			r = settings_write(&g->settings, g->dir_fd, "memory.swap.max", "0", err);
		if (r >= 0)
			r = settings_write(&g->settings, g->dir_fd, "memory.oom.group", "1", err);
	}
	if (r >= 0 && g->controllers & LIMITER_CPU && caps.cpu[0])
		r = settings_write(&g->settings, g->dir_fd, "cpu.max", caps.cpu, err);
	if (r >= 0 && g->controllers & LIMITER_PIDS && caps.pids[0])
		r = settings_write(&g->settings, g->dir_fd, "pids.max", caps.pids, err);
	return r;
}

int cgroup2_create_at(struct cgroup2_place *place, const struct budget_request *request,
		      struct budget **ret, struct err *err)
{
	__attribute__((cleanup(cgroup2_abandon))) struct cgroup2 *g = xcalloc(1, sizeof(*g));
	*g = (struct cgroup2){ .base = { .ops = place->ops },
			       .name = xstrdup(place->name),
			       .path = xstrdup(place->path),
			       .parent_fd = take_fd(&place->parent_fd),
			       .dir_fd = -1,
			       .oom_fd = -1,
			       .controllers = place->controllers };
	unsigned absent = LIMITER_ALL & ~place->controllers;
	unsigned refused = request_refuses(request, absent, &g->base.missing);
	if (refused)
		return err_layer(
			err, limiter_names(refused),
			"the controller is not available below the cgroup of %s. Remedy: boot "
			"without cgroup_disable=%s, or have it delegated "
			"(systemd: Delegate=cpu memory pids io)",
			place->path, limiter_name(refused));

	g->dir_fd = group_make(g->parent_fd, g->name);
	if (g->dir_fd == -EEXIST)
		return err_set(err, ERR_CALLER, EEXIST,
			       "a group for the id '%s' exists already: %s", request->id, g->path);
	if (g->dir_fd < 0)
		return err_set(err, ERR_HOST, -g->dir_fd, "make group %s: %s", g->path,
			       strerror(-g->dir_fd));
	int r = set_limits(g, request->limits, err);
	if (r < 0)
		return r;
	if (g->controllers & LIMITER_MEMORY) {
		g->oom_fd = openat(g->dir_fd, "memory.events", O_RDONLY | O_CLOEXEC);
		if (g->oom_fd < 0)
			return err_errno(err, "open memory.events");
		cgroup2_oom_ack(&g->base);
	}
	*ret = &take_ptr(g)->base;
	return 0;
}

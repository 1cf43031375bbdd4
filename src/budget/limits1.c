/* The values of v1 groups: the caps of all runs on PARENT, the limits of one run on its own groups. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/fs.h"
#include "base/str.h"
#include "budget/cgroup1.h"
#include "spec/config.h"

#define CFS_PERIOD_US    100000u
#define CFS_QUOTA_MIN_US 1000u

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

static int parent_cpu(int parent_fd, const struct budget_request *request, struct err *err)
{
	const struct limits *cap = request->aggregate;
	if (!cap)
		return 0;
	char want[32];
	unsigned shares = request_cpu_weight(request) * GROUP_SHARES / CPU_WEIGHT_OTHERS;
	(void)snprintf(want, sizeof(want), "%u",
		       shares < GROUP_SHARES_MIN ? GROUP_SHARES_MIN : shares);
	int r = group_write_changed(parent_fd, "cpu.shares", want, err);
	if (r < 0 || !cap->at[LIMIT_CPUS].value)
		return r;
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

int cgroup1_cap_parent(const struct level *level, const struct budget_request *request,
		       struct err *err)
{
	const struct limits *cap = request->aggregate;
	int r = 0;
	if (level->controllers & LIMITER_MEMORY)
		r = parent_memory(level->parent_fd, cap, err);
	if (r >= 0 && level->controllers & LIMITER_CPU)
		r = parent_cpu(level->parent_fd, request, err);
	if (r >= 0 && level->controllers & LIMITER_PIDS)
		r = parent_pids(level->parent_fd, cap, err);
	return r;
}

static int write_if_there(struct cgroup1 *g, int dir_fd, const char *file, const char *want,
			  struct err *err)
{
	struct err why = { 0 };
	int r = settings_write(&g->settings, dir_fd, file, want, &why);
	if (r == -ENOENT)
		return 0;
	if (r < 0 && err)
		*err = why;
	return r;
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
	if (r >= 0)
		r = write_if_there(g, dir_fd, "memory.memsw.limit_in_bytes", want, err);
	return r < 0 ? r : write_if_there(g, dir_fd, "memory.swappiness", "0", err);
}

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
	uint64_t quota = cfs_quota_us(milli_cpus);
	(void)snprintf(want, sizeof(want), "%" PRIu64, quota);
	int r = settings_write(&g->settings, dir_fd, "cpu.cfs_period_us", "100000", err);
	if (r < 0)
		return r;
	struct err why = { 0 };
	r = settings_write(&g->settings, dir_fd, "cpu.cfs_quota_us", want, &why);
	if (r != -EINVAL) {
		if (r < 0 && err)
			*err = why;
		return r;
	}
	/* v1 refuses a quota above the parent's, where v2 just applies the smaller one: so take the smaller one here. */
	(void)snprintf(want, sizeof(want), "%" PRIu64, quota_within_parent(dir_fd, quota));
	return settings_write(&g->settings, dir_fd, "cpu.cfs_quota_us", want, err);
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

int cgroup1_limit(struct cgroup1 *g, const struct limits *limits, struct err *err)
{
	int r = set_memory(g, limits->at[LIMIT_MEMORY].value, err);
	if (r >= 0)
		r = set_cpu(g, limits->at[LIMIT_CPUS].value, err);
	return r < 0 ? r : set_pids(g, limits->at[LIMIT_PIDS].value, err);
}

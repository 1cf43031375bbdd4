/* What cgroup v1 has counted for a group. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/str.h"
#include "budget/cgroup1.h"

static int read_memory(int dir_fd, char buffer[GROUP_TEXT_MAX], struct usage *u)
{
	if (!*group_text(dir_fd, "memory.usage_in_bytes", buffer))
		return -ENOENT;
	u->mem_bytes = text_leading_number(buffer);
	u->mem_peak_bytes = group_number(dir_fd, "memory.max_usage_in_bytes");
	/* With both limits equal the kernel meets the one of memory + swap first and counts there. */
	u->mem_limit_hits = group_number(dir_fd, "memory.failcnt") +
			    group_number(dir_fd, "memory.memsw.failcnt");
	u->mem_kernel_bytes = group_number(dir_fd, "memory.kmem.usage_in_bytes");

	const char *stat = group_text(dir_fd, "memory.stat", buffer);
	u->mem_anon_bytes = text_number(stat, "total_rss");
	u->mem_shmem_bytes = text_number(stat, "total_shmem");
	/* "cache" has the pages of tmpfs in it, which are as hard to give back as anonymous ones. */
	uint64_t cache = text_number(stat, "total_cache");
	u->mem_file_bytes = cache > u->mem_shmem_bytes ? cache - u->mem_shmem_bytes : 0;

	u->oom_kills = text_number(group_text(dir_fd, "memory.oom_control", buffer), "oom_kill");
	/* Seen on 6.18: both failcnt stay 0. A kill for memory is then the least that is known. */
	if (u->mem_limit_hits < u->oom_kills)
		u->mem_limit_hits = u->oom_kills;
	return 0;
}

/* The kernel counts how long a thread was ready to run and had no cpu: the second number (Documentation/scheduler/sched-stats). */
static bool read_delay(pid_t tid, uint64_t *ret_ns)
{
	char path[40], text[96];
	(void)snprintf(path, sizeof path, "/proc/%d/schedstat", (int)tid);
	if (fs_read_small(AT_FDCWD, path, text, sizeof text) < 0)
		return false;
	const char *second = strchr(text, ' ');
	if (!second)
		return false;
	*ret_ns = strtoull(second + 1, NULL, 10);
	return true;
}

static uint64_t delay_before(const struct waits *w, pid_t tid)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->last[i].tid == tid)
			return w->last[i].delay_ns;
	return 0;
}

/* Of each interval the thread that waited longest counts, as `some` of cpu.pressure does: two that wait at once are one wait. */
void waits_sample(struct waits *w, int dir_fd)
{
	char buffer[GROUP_TEXT_MAX];
	struct waits now = { .sampled_ns = clock_monotonic_ns(), .total_ns = w->total_ns };
	uint64_t longest = 0;
	for (const char *at = group_text(dir_fd, "tasks", buffer);
	     at && *at && now.n < WAIT_THREADS_MAX;) {
		struct wait_sample *s = &now.last[now.n];
		s->tid = (pid_t)strtol(at, NULL, 10);
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
		if (s->tid <= 0 || !read_delay(s->tid, &s->delay_ns))
			continue;
		uint64_t before = delay_before(w, s->tid);
		uint64_t waited = s->delay_ns > before ? s->delay_ns - before : 0;
		longest = waited > longest ? waited : longest;
		now.n++;
	}
	if (!now.n) /* all are gone: what was seen before stays */
		return;
	uint64_t interval = w->sampled_ns ? now.sampled_ns - w->sampled_ns : longest;
	now.total_ns += longest < interval ? longest : interval;
	*w = now;
}

static void read_cpu(struct cgroup1 *g, char buffer[GROUP_TEXT_MAX], struct usage *u)
{
	int acct_fd = cgroup1_dir(g, CONTROLLER_CPUACCT);
	if (acct_fd >= 0) {
		u->cpu_usec = group_number(acct_fd, "cpuacct.usage") / 1000;
		u->cpu_user_usec = group_number(acct_fd, "cpuacct.usage_user") / 1000;
		u->cpu_system_usec = group_number(acct_fd, "cpuacct.usage_sys") / 1000;
	}
	int cpu_fd = cgroup1_dir(g, CONTROLLER_CPU);
	if (cpu_fd >= 0) {
		const char *stat = group_text(cpu_fd, "cpu.stat", buffer);
		u->throttled_periods = text_number(stat, "nr_throttled");
		u->throttled_usec = text_number(stat, "throttled_time") / 1000;
		waits_sample(&g->waits, cpu_fd);
		uint64_t waited = g->waits.total_ns / 1000;
		u->has_cpu_wait = g->waits.sampled_ns != 0;
		u->cpu_wait_usec = waited > u->throttled_usec ? waited - u->throttled_usec : 0;
	}
}

static void read_pids(struct cgroup1 *g, char buffer[GROUP_TEXT_MAX], struct usage *u)
{
	int dir_fd = cgroup1_dir(g, CONTROLLER_PIDS);
	if (dir_fd < 0)
		return;
	u->pids = group_number(dir_fd, "pids.current");
	u->pids_limit_hits = text_number(group_text(dir_fd, "pids.events", buffer), "max");
	/* pids.peak is new in 6.1; before that the largest sample has to do. */
	uint64_t peak = group_number(dir_fd, "pids.peak");
	if (peak < u->pids)
		peak = u->pids;
	if (peak > g->pids_peak)
		g->pids_peak = peak;
	u->pids_peak = g->pids_peak;
}

/* Lines "8:0 Read 4096", one a device and kind. */
static void read_io(int dir_fd, char buffer[GROUP_TEXT_MAX], struct usage *u)
{
	for (const char *line = group_text(dir_fd, "blkio.throttle.io_service_bytes", buffer);
	     line && *line;) {
		const char *kind = line + strcspn(line, " \n");
		kind += *kind == ' ';
		if (str_starts(kind, "Read "))
			u->io_read_bytes += text_number(kind, "Read");
		if (str_starts(kind, "Write "))
			u->io_write_bytes += text_number(kind, "Write");
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
}

int cgroup1_read_usage(struct budget *b, struct usage *ret, struct err *err)
{
	struct cgroup1 *g = (struct cgroup1 *)b;
	struct usage u = { 0 };
	char buffer[GROUP_TEXT_MAX];
	int memory_fd = cgroup1_dir(g, CONTROLLER_MEMORY);
	int io_fd = cgroup1_dir(g, CONTROLLER_IO);

	if (memory_fd >= 0 && read_memory(memory_fd, buffer, &u) < 0)
		return err_set(err, ERR_HOST, ENOENT, "group %s is gone", g->path);
	read_cpu(g, buffer, &u);
	read_pids(g, buffer, &u);
	if (io_fd >= 0)
		read_io(io_fd, buffer, &u);
	*ret = u;
	return 0;
}

/* What cgroup v2 has counted for a group (Documentation/admin-guide/cgroup-v2). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "budget/cgroup2.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void read_memory(struct cgroup2 *g, char buffer[GROUP_TEXT_MAX], struct usage *u)
{
	u->mem_bytes = group_number(g->dir_fd, "memory.current");
	/* memory.peak is new in 5.19; before that the largest sample has to do. */
	g->mem_peak_bytes = larger(g->mem_peak_bytes,
				   larger(u->mem_bytes, group_number(g->dir_fd, "memory.peak")));
	u->mem_peak_bytes = g->mem_peak_bytes;

	const char *stat = group_text(g->dir_fd, "memory.stat", buffer);
	uint64_t file = text_number(stat, "file");
	u->mem_anon_bytes = text_number(stat, "anon");
	u->mem_shmem_bytes = text_number(stat, "shmem");
	/* "file" has the pages of tmpfs in it, which are as hard to give back as anonymous ones. */
	u->mem_file_bytes = file > u->mem_shmem_bytes ? file - u->mem_shmem_bytes : 0;
	u->mem_kernel_bytes = text_number(stat, "kernel");
	if (u->mem_kernel_bytes == 0) /* before 5.18 only its parts */
		u->mem_kernel_bytes = text_number(stat, "slab") +
				      text_number(stat, "kernel_stack") +
				      text_number(stat, "pagetables") + text_number(stat, "percpu");

	const char *events = group_text(g->dir_fd, "memory.events", buffer);
	u->oom_kills = text_number(events, "oom_kill");
	u->mem_limit_hits = text_number(events, "max");
}

static void read_cpu(int dir_fd, char buffer[GROUP_TEXT_MAX], struct usage *u)
{
	const char *stat = group_text(dir_fd, "cpu.stat", buffer);
	u->cpu_usec = text_number(stat, "usage_usec");
	u->cpu_user_usec = text_number(stat, "user_usec");
	u->cpu_system_usec = text_number(stat, "system_usec");
	u->throttled_periods = text_number(stat, "nr_throttled");
	u->throttled_usec = text_number(stat, "throttled_usec");
}

static void read_pids(struct cgroup2 *g, char buffer[GROUP_TEXT_MAX], struct usage *u)
{
	u->pids = group_number(g->dir_fd, "pids.current");
	u->pids_limit_hits = text_number(group_text(g->dir_fd, "pids.events", buffer), "max");
	g->pids_peak = larger(g->pids_peak, larger(u->pids, group_number(g->dir_fd, "pids.peak")));
	u->pids_peak = g->pids_peak;
}

/* The numbers behind every " KEY=" in the text, added up. */
static uint64_t sum_of(const char *text, const char *key)
{
	CLEANUP_FREE char *pattern = xasprintf(" %s=", key);
	uint64_t sum = 0;
	for (const char *at = strstr(text, pattern); at; at = strstr(at, pattern)) {
		at += strlen(pattern);
		sum += strtoull(at, NULL, 10);
	}
	return sum;
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=0", then "full ...": the first line's total. */
static uint64_t pressure_usec(int dir_fd, const char *file, char buffer[GROUP_TEXT_MAX])
{
	(void)group_text(dir_fd, file, buffer);
	buffer[strcspn(buffer, "\n")] = '\0';
	return sum_of(buffer, "total");
}

int cgroup2_read_usage(struct budget *b, struct usage *ret, struct err *err)
{
	struct cgroup2 *g = (struct cgroup2 *)b;
	struct usage u = { 0 };
	char buffer[GROUP_TEXT_MAX];
	if (!group_has(g->dir_fd, "cgroup.procs"))
		return err_set(err, ERR_HOST, ENOENT, "group %s is gone", g->path);

	read_memory(g, buffer, &u);
	read_cpu(g->dir_fd, buffer, &u);
	read_pids(g, buffer, &u);
	const char *io = group_text(g->dir_fd, "io.stat", buffer);
	u.io_read_bytes = sum_of(io, "rbytes");
	u.io_write_bytes = sum_of(io, "wbytes");
	u.psi_mem_usec = pressure_usec(g->dir_fd, "memory.pressure", buffer);
	u.psi_cpu_usec = pressure_usec(g->dir_fd, "cpu.pressure", buffer);
	u.has_cpu_wait = group_has(g->dir_fd, "cpu.pressure");
	u.cpu_wait_usec = u.psi_cpu_usec > u.throttled_usec ? u.psi_cpu_usec - u.throttled_usec : 0;
	u.psi_io_usec = pressure_usec(g->dir_fd, "io.pressure", buffer);
	*ret = u;
	return 0;
}

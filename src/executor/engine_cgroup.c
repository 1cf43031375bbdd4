/* What the kernel says of a container's group, from the outside: by the group that its pid 1 is in. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/str.h"
#include "executor/engine_parts.h"

#define TREE "/sys/fs/cgroup"

/* The path of the group in the tree of this controller ("": the unified one), as /proc/PID/cgroup says it. Owned by the caller; NULL. */
static char *group_path(const char *text, const char *controller)
{
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		const char *names = memchr(line, ':', strcspn(line, "\n"));
		const char *path = names ? strchr(names + 1, ':') : NULL;
		if (!path || path > line + strcspn(line, "\n"))
			continue;
		for (const char *at = names + 1; at <= path; at++) {
			size_t n = strcspn(at, ",:");
			if (n == strlen(controller) && memcmp(at, controller, n) == 0)
				return xstrndup(path + 1, strcspn(path + 1, "\n"));
			at += n;
		}
	}
	return NULL;
}

static int open_group(const char *text, const char *controller)
{
	CLEANUP_FREE char *path = group_path(text, controller);
	if (!path)
		return -ENOENT;
	CLEANUP_FREE char *whole = xasprintf(TREE "/%s%s", controller, path);
	int fd = open(whole, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* The number that follows `key` at the beginning of a line; NULL: the file's. "max" is the most there is; 0 where there is none. */
static uint64_t value(int dir_fd, const char *name, const char *key)
{
	char text[4096];
	if (dir_fd < 0 || fs_read_small(dir_fd, name, text, sizeof text) < 0)
		return 0;
	const char *at = text;
	while (key && at && strncmp(at, key, strlen(key)) != 0) {
		at = strchr(at, '\n');
		at += at ? 1 : 0;
	}
	if (!at)
		return 0;
	at += key ? strlen(key) : 0;
	return str_starts(at, "max") ? UINT64_MAX : strtoull(at, NULL, 10);
}

static void read_v2(int fd, struct group_values *v)
{
	char text[64] = "";
	v->mem_max = value(fd, "memory.max", NULL);
	v->swap_max = value(fd, "memory.swap.max", NULL);
	v->mem_bytes = value(fd, "memory.current", NULL);
	v->mem_peak = value(fd, "memory.peak", NULL);
	v->oom_kills = value(fd, "memory.events", "oom_kill ");
	v->pids = value(fd, "pids.current", NULL);
	v->pids_max = value(fd, "pids.max", NULL);
	v->pids_hits = value(fd, "pids.events", "max ");
	v->cpu_usec = value(fd, "cpu.stat", "usage_usec ");
	if (fs_read_small(fd, "cpu.max", text, sizeof text) > 0 && strchr(text, ' ')) {
		v->quota_usec = strtoull(text, NULL, 10);
		v->period_usec = strtoull(strchr(text, ' ') + 1, NULL, 10);
	}
	v->is_known = v->mem_max != 0;
}

static void read_v1(const char *text, struct group_values *v)
{
	CLEANUP_FD int memory_fd = open_group(text, "memory");
	CLEANUP_FD int pids_fd = open_group(text, "pids");
	CLEANUP_FD int cpu_fd = open_group(text, "cpu");
	CLEANUP_FD int cpuacct_fd = open_group(text, "cpuacct");
	v->mem_max = value(memory_fd, "memory.limit_in_bytes", NULL);
	uint64_t both = value(memory_fd, "memory.memsw.limit_in_bytes", NULL);
	v->swap_max = both >= v->mem_max ? both - v->mem_max : UINT64_MAX;
	v->mem_bytes = value(memory_fd, "memory.usage_in_bytes", NULL);
	v->mem_peak = value(memory_fd, "memory.max_usage_in_bytes", NULL);
	v->oom_kills = value(memory_fd, "memory.oom_control", "oom_kill ");
	v->pids = value(pids_fd, "pids.current", NULL);
	v->pids_max = value(pids_fd, "pids.max", NULL);
	v->pids_hits = value(pids_fd, "pids.events", "max ");
	v->cpu_usec = value(cpuacct_fd, "cpuacct.usage", NULL) / 1000;
	v->quota_usec = value(cpu_fd, "cpu.cfs_quota_us", NULL);
	v->period_usec = value(cpu_fd, "cpu.cfs_period_us", NULL);
	v->is_known = v->mem_max != 0;
}

void group_read(pid_t pid, struct group_values *ret)
{
	char path[64], text[8192];
	*ret = (struct group_values){ 0 };
	(void)snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
	if (pid <= 0 || fs_read_small(AT_FDCWD, path, text, sizeof text) <= 0)
		return;
	CLEANUP_FREE char *memory = group_path(text, "memory");
	if (memory) {
		read_v1(text, ret);
		return;
	}
	CLEANUP_FD int fd = open_group(text, "");
	if (fd >= 0)
		read_v2(fd, ret);
}

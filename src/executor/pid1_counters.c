#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "executor/pid1.h"

/* Of both kinds of hierarchies; a container has one of them. `key`: the number that follows it, NULL: the file is the number. */
static const struct counter {
	const char *path;
	const char *key;
	const char *name;
} counters[] = {
	{ "/sys/fs/cgroup/memory.events", "oom_kill ", "oom-kills" },
	{ "/sys/fs/cgroup/memory/memory.oom_control", "oom_kill ", "oom-kills" },
	{ "/sys/fs/cgroup/memory.peak", NULL, "memory-peak" },
	{ "/sys/fs/cgroup/memory/memory.max_usage_in_bytes", NULL, "memory-peak" },
	{ "/sys/fs/cgroup/cpu.stat", "usage_usec ", "cpu-usec" },
	{ "/sys/fs/cgroup/cpuacct/cpuacct.usage", NULL, "cpu-nsec" },
	{ "/sys/fs/cgroup/pids.events", "max ", "pids-hits" },
	{ "/sys/fs/cgroup/pids/pids.events", "max ", "pids-hits" },
};
_Static_assert(sizeof counters / sizeof *counters == COUNTERS_MAX, "one descriptor each");

void counters_open(struct counters *c)
{
	for (size_t i = 0; i < COUNTERS_MAX; i++)
		c->fds[i] = open(counters[i].path, O_RDONLY | O_CLOEXEC);
}

/* The key begins a line. */
static const char *find(const char *text, const char *key)
{
	for (const char *at = text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, key, strlen(key)) == 0)
			return at + strlen(key);
	}
	return NULL;
}

void counters_note(const struct counters *c, int status_fd)
{
	for (size_t i = 0; i < COUNTERS_MAX; i++) {
		char text[4096];
		ssize_t n = c->fds[i] < 0 ? -1 : pread(c->fds[i], text, sizeof text - 1, 0);
		if (n <= 0)
			continue;
		text[n] = 0;
		const char *at = counters[i].key ? find(text, counters[i].key) : text;
		if (at)
			note(status_fd, counters[i].name, (int64_t)strtoull(at, NULL, 10));
	}
}

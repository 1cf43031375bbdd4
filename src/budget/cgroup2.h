/* The v2 budget's own data, shared by its two files. */
#pragma once

#include "budget/group.h"

struct cgroup2 {
	struct budget base;
	char *name;    /* owned; the group's name in its parent */
	char *path;    /* owned; for records */
	int parent_fd; /* owned */
	int dir_fd;    /* owned */
	int oom_fd;    /* owned; memory.events */
	unsigned controllers;
	struct settings settings;
	uint64_t mem_peak_bytes; /* the largest sample, where the kernel keeps no peak */
	uint64_t pids_peak;
};

int cgroup2_read_usage(struct budget *b, struct usage *ret, struct err *err);

/* The v1 budget's own data, shared by its files. */
#pragma once

#include "budget/group.h"

struct level {
	unsigned controllers;
	int parent_fd; /* owned */
	int dir_fd;    /* owned */
};

struct cgroup1 {
	struct budget base;
	char *id;                           /* owned */
	char *path;                         /* owned */
	struct level at[CONTROLLER_COUNT_]; /* one a tree */
	size_t n;
	struct settings settings;
	int oom_fd; /* owned; eventfd */
	uint64_t pids_peak;
};

/* The group in that controller's tree; -1 if it is missing. */
int cgroup1_dir(const struct cgroup1 *g, enum controller c);
int cgroup1_cap_parent(const struct level *level, const struct limits *cap, struct err *err);
int cgroup1_limit(struct cgroup1 *g, const struct limits *limits, struct err *err);
int cgroup1_read_usage(struct budget *b, struct usage *ret, struct err *err);

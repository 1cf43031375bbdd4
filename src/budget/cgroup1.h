/* The v1 budget's own data, shared by its files. */
#pragma once

#include "budget/group.h"

struct level {
	unsigned controllers;
	int parent_fd; /* owned */
	int dir_fd;    /* owned */
};

/* How long threads of the group waited for a cpu, as far as samples tell. */
#define WAIT_THREADS_MAX 128
struct wait_sample {
	pid_t tid;
	uint64_t delay_ns; /* since it was born */
};
struct waits {
	struct wait_sample last[WAIT_THREADS_MAX];
	size_t n;
	uint64_t sampled_ns; /* when; 0: never */
	uint64_t total_ns;
};
/* Reads schedstat of the threads in the group now. */
void waits_sample(struct waits *w, int dir_fd);

struct cgroup1 {
	struct budget base;
	char *id;                           /* owned */
	char *path;                         /* owned */
	struct level at[CONTROLLER_COUNT_]; /* one a tree */
	size_t n;
	struct settings settings;
	int oom_fd; /* owned; eventfd */
	uint64_t pids_peak;
	struct waits waits;
};

/* The group in that controller's tree; -1 if it is missing. */
int cgroup1_dir(const struct cgroup1 *g, enum controller c);
int cgroup1_cap_parent(const struct level *level, const struct budget_request *request,
		       struct err *err);
int cgroup1_limit(struct cgroup1 *g, const struct limits *limits, struct err *err);
int cgroup1_read_usage(struct budget *b, struct usage *ret, struct err *err);

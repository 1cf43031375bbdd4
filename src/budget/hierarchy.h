/* Where the host's cgroup trees are mounted and which controllers each has. */
#pragma once

#include <stddef.h>

#include "base/err.h"

enum controller {
	CONTROLLER_MEMORY,
	CONTROLLER_CPU,
	CONTROLLER_PIDS,
	CONTROLLER_CPUACCT, /* v1 only: on v2 the cpu controller accounts */
	CONTROLLER_IO,      /* v1: blkio */
	CONTROLLER_COUNT_
};
#define CONTROLLER_BIT(c) (1u << (c))

/* The three limiters: without one of them a run is refused unless that was allowed. */
#define LIMITER_MEMORY CONTROLLER_BIT(CONTROLLER_MEMORY)
#define LIMITER_CPU    CONTROLLER_BIT(CONTROLLER_CPU)
#define LIMITER_PIDS   CONTROLLER_BIT(CONTROLLER_PIDS)
#define LIMITER_ALL    (LIMITER_MEMORY | LIMITER_CPU | LIMITER_PIDS)

struct hierarchy {
	char *mount; /* owned; NULL: not there */
	char *root;  /* owned; the group that the mount point shows, "/" outside containers */
	unsigned controllers;
};

struct hierarchies {
	struct hierarchy v1[CONTROLLER_COUNT_]; /* by the lowest controller; co-mounted ones once */
	size_t n_v1;
	struct hierarchy v2;
};

void hierarchies_release(struct hierarchies *h);
#define CLEANUP_HIERARCHIES __attribute__((cleanup(hierarchies_release)))

/* The text of a mountinfo file; v2's controllers stay 0. */
void hierarchies_parse(const char *mountinfo, struct hierarchies *ret);
/* This process's own, with v2's controllers as its root group offers them. */
int hierarchies_read(struct hierarchies *ret, struct err *err);

/* All controllers in the v1 trees together. */
unsigned hierarchies_v1_controllers(const struct hierarchies *h);
/* "memory cpu pids" as in cgroup.controllers and cgroup.subtree_control. */
unsigned controllers_parse(const char *words);
/* The controller's name on v2. */
const char *controller_name(enum controller c);
/* The caller's own group on v2 as a path below the mount point ("" at its top); owned. NULL if it lies outside. */
char *hierarchy_own_path(const struct hierarchy *v2);

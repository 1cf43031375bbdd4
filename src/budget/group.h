/* What every cgroup backend does with one group: values, counters, members. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "budget/budget.h"
#include "budget/hierarchy.h"

/* Room for the longest of the kernel's files that is read whole (memory.stat, io.stat). */
#define GROUP_TEXT_MAX 16384

/* The values written, for the receipt. */
struct settings {
	struct {
		int fd; /* owned; open for reading it again */
		char file[64];
		char want[64];
	} v[BUDGET_VALUES_MAX];
	size_t n;
};

void settings_release(struct settings *s);
/* Writes the value, reads it back and compares: a difference is an error that names both. -ENOENT: the kernel has no such file. */
int settings_write(struct settings *s, int dir_fd, const char *file, const char *want,
		   struct err *err);
int settings_read(const struct settings *s, struct budget_value ret[BUDGET_VALUES_MAX]);
/* For a value of a parent that others may have set already: written only when it differs. */
int group_write_changed(int dir_fd, const char *file, const char *want, struct err *err);

bool group_has(int dir_fd, const char *file);
/* The number in a file of one number; 0 if it is not there. */
uint64_t group_number(int dir_fd, const char *file);
/* The digits at the start of the text; what is not a number ("max") counts as 0. */
uint64_t text_leading_number(const char *text);
/* The number behind `key` in text of lines "KEY NUMBER"; 0 if there is none. */
uint64_t text_number(const char *text, const char *key);
/* The whole file, "" if it is not there. */
const char *group_text(int dir_fd, const char *file, char buffer[GROUP_TEXT_MAX]);
/* Memory limits are kept by the kernel in whole pages. */
uint64_t round_to_page(uint64_t bytes);

/* Opens dir_fd/path (one or more components), making what is missing when `make` says so. -errno. */
int group_open(int dir_fd, const char *path, bool make);
/* Makes dir_fd/name and opens it; -EEXIST if it is there. */
int group_make(int dir_fd, const char *name);
/* Removes an empty group; waits a moment for tasks that are on their way out. 0 if it is gone. */
int group_remove(int parent_fd, const char *name, struct err *err);

/* SIGKILL to all members of these groups until there are none; -ETIMEDOUT at the monotonic deadline.
 * The caller itself is spared. Forks are stopped first through pids.max where a group has it. */
int group_kill(const int *dir_fds, size_t n, uint64_t deadline_ns, struct err *err);
/* Milliseconds until the deadline for poll(2), rounded up; 0 when it has passed. */
int deadline_ms(uint64_t deadline_ns);

/* The bits of `absent` that this request does not allow to be missing; the others are noted in *missing. */
unsigned request_refuses(const struct budget_request *request, unsigned absent, unsigned *missing);
/* The name of the first limiter in the mask: "memory", "cpu" or "pids". */
const char *limiter_name(unsigned mask);
/* The remedy where the tree is read-only. */
#define GROUPS_READ_ONLY                                                                                                   \
	"the cgroup tree is read-only, as in most containers: start that container with --privileged, or with a writable " \
	"/sys/fs/cgroup of its own (--cgroupns=private), or run cupel on the host"
/* All of them, with commas. */
const char *limiter_names(unsigned mask);

/* The backends. Each creates PARENT and PARENT/ID; the contract is budget_create's. */
int cgroup1_create(const struct hierarchies *host, const struct budget_request *request,
		   struct budget **ret, struct err *err);
int cgroup2_create(const struct hierarchies *host, const struct budget_request *request,
		   struct budget **ret, struct err *err);
int scope_create(const struct hierarchies *host, const struct budget_request *request,
		 struct budget **ret, struct err *err);
int none_create(struct budget **ret);

/* A box group in an open v2 group whose children have `controllers`; takes parent_fd. `path` is for records. */
struct cgroup2_place {
	int parent_fd; /* owned, taken */
	const char *name;
	const char *path;
	unsigned controllers;
	const struct budget_ops *ops;
};
extern const struct budget_ops cgroup2_ops;
extern const struct budget_ops cgroup2_systemd_ops;
int cgroup2_create_at(struct cgroup2_place *place, const struct budget_request *request,
		      struct budget **ret, struct err *err);
/* Switches on the wanted controllers that the group offers for its children; *ret_enabled has those that are on. */
int cgroup2_enable(int dir_fd, unsigned wanted, unsigned *ret_enabled, struct err *err);
/* What PARENT has of the cpu while others want it too, of which each group has 100 (v2, systemd) or 1024 (v1: GROUP_SHARES). It gets what
 * is idle in any case, up to its cap. */
unsigned request_cpu_weight(const struct budget_request *request);
#define GROUP_SHARES     1024u
#define GROUP_SHARES_MIN 2u

/* The aggregate caps in the form of the v2 files memory.max, cpu.max, cpu.weight, pids.max; "" when not said. */
struct cgroup2_caps {
	char memory[32], cpu[48], weight[16], pids[32];
};
void cgroup2_caps(const struct limits *limits, unsigned weight,
		  struct cgroup2_caps *ret); /* 0: no weight */
/* Kills all in dir_fd and below it (without cgroup.kill: in it and in a scope's two children), waits until it is empty. */
int cgroup2_kill(int dir_fd, uint64_t deadline_ns, struct err *err);

/* For sweep and list: systemd's slice of PARENT, as a path below the v2 mount point, and the scope's name in it. Owned. */
bool scope_host_has_systemd(void);
char *scope_slice_path(const char *parent);
char *scope_name(const char *parent, const char *id);

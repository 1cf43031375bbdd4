/* How much a run may use: one group of processes with limits, whatever the host's cgroup version.
 *
 * A budget is created empty with its limits set and read back; its first process is born in it (ops->clone_fd, v2) or joins it before
 * it does anything else (ops->join_fds, v1). The keeper is never inside. The group is
 * PARENT/NAME, and PARENT ("cupel" by default) carries the aggregate cap of all runs.
 *
 * cgroup1.c: controllers memory, cpu, cpuacct, pids (and blkio for accounting where present), each at its
 * own mount point found in /proc/self/mountinfo. cgroup2.c: the unified tree; scope.c asks systemd for a
 * delegated scope over D-Bus (libsystemd, loaded when used) where systemd owns the tree. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "spec/limits.h"

struct budget { /* first member of every backend */
	const struct budget_ops *ops;
	unsigned missing; /* the limiters not enforced: budget_missing() */
};

/* What the kernel has counted. Fields it does not offer stay 0. */
struct usage {
	uint64_t mem_bytes; /* now */
	uint64_t mem_peak_bytes;
	uint64_t mem_anon_bytes; /* now; with tmpfs and shm in shmem */
	uint64_t mem_file_bytes; /* page cache, without the pages of tmpfs and shm */
	uint64_t mem_shmem_bytes;
	uint64_t mem_kernel_bytes;
	uint64_t cpu_usec; /* user + system */
	uint64_t cpu_user_usec;
	uint64_t cpu_system_usec;
	uint64_t throttled_usec;
	uint64_t throttled_periods;
	uint64_t pids;          /* now */
	uint64_t pids_peak;     /* v2 6.1+; elsewhere the largest sample */
	uint64_t io_read_bytes; /* v1: blkio, which may count nothing (seen on 6.18) */
	uint64_t io_write_bytes;
	uint64_t oom_kills; /* processes the kernel killed for the memory limit */
	uint64_t
		mem_limit_hits; /* times an allocation met the limit (memory.events max, v1 failcnt) */
	uint64_t pids_limit_hits;                         /* forks refused */
	uint64_t psi_mem_usec, psi_cpu_usec, psi_io_usec; /* total "some" stall, v2 with PSI */
	/* While at least one of its threads could have run and had no cpu, without the time for which its own limit held it back. v2: of
	 * cpu.pressure. v1: the longest wait of a thread in each interval between two readings, from schedstat; it is the least that is
	 * known, since threads that came and went in between are not seen. */
	uint64_t cpu_wait_usec;
	bool has_cpu_wait; /* it could be found out */
};

/* One value as the kernel gives it back, for the receipt. */
struct budget_value {
	char file[64]; /* "memory.max" */
	char want[64];
	char have[64];
};
#define BUDGET_VALUES_MAX 12
#define BUDGET_JOIN_MAX   6

struct budget_ops {
	const char *name; /* "cgroup1", "cgroup2", "cgroup2-systemd", "none" */
	/* Directory descriptor for CLONE_INTO_CGROUP, borrowed; -EOPNOTSUPP where there is none. */
	int (*clone_fd)(struct budget *);
	/* Descriptors, owned by the caller, to each of which a process with one thread writes "0" to be in the group; how many. A
	 * thread that moves itself need not wait for a grace period of the kernel, which moving another process may: milliseconds. */
	int (*join_fds)(struct budget *, int ret_fds[BUDGET_JOIN_MAX], struct err *);
	/* Directory descriptor of a group whose cgroup.procs lists every process of the box, borrowed; -EOPNOTSUPP where there is none. */
	int (*members_fd)(struct budget *);
	int (*read_usage)(struct budget *, struct usage *ret, struct err *);
	/* Descriptor that turns readable (POLLIN, v1 eventfd) or exceptional (POLLPRI, v2) when the memory limit
	 * killed something; borrowed; -EOPNOTSUPP where there is none. After a wake-up call read_usage and look at oom_kills.
	 * v1 signals when the kernel begins to look for a victim, so oom_kills may rise a moment after the wake-up: look again
	 * at the next sample. It also signals when the group is removed. v2 wakes for each time the limit was met, too. */
	int (*oom_fd)(struct budget *);
	short (*oom_events)(struct budget *); /* the poll events to ask for on oom_fd */
	/* Consumes a wake-up of oom_fd. */
	void (*oom_ack)(struct budget *);
	/* SIGKILL to all in the group, then waits (events, not sleeps; at most `wait_ns`) until it is empty. -ETIMEDOUT. No process can be
	 * born in the group afterwards where the kernel has no cgroup.kill (pids.max is then 0). */
	int (*kill_all)(struct budget *, uint64_t wait_ns, struct err *);
	/* Values set, read back from the kernel; returns how many. The order is fixed. */
	int (*receipt)(struct budget *, struct budget_value ret[BUDGET_VALUES_MAX]);
	/* The group's path for records: "cupel/NAME". */
	const char *(*path)(struct budget *);
	/* Removes the (empty) group; 0 if it is already gone. */
	int (*remove)(struct budget *, struct err *);
	/* Frees the handle only; the group stays. Accepts NULL inside budget_free. */
	void (*free)(struct budget *);
};

/* What the caller wants of the host. */
struct budget_request {
	const char *id; /* the group's name below the parent: the run's id with a tag of its home */
	const char *parent;             /* config cgroup_parent */
	int manager;                    /* enum cgroup_manager */
	const struct limits *limits;    /* memory, cpus, pids are set here */
	const struct limits *aggregate; /* on the parent */
	unsigned cpu_weight; /* of the parent, with the aggregate; 0: CPU_WEIGHT_DEFAULT */
	bool may_miss_memory, may_miss_cpu, may_miss_pids; /* --allow-missing */
};

/* Creates PARENT (with the aggregate cap) and the run's empty group with its limits. A limiter the host does not
 * give is err_layer("memory"|"cpu"|"pids") with the remedy, unless it may be missing: then budget_missing() names it.
 * -EEXIST (caller) if a group of that id exists already. Nothing is left behind on failure, but under systemd the caller may by
 * then be in the run's scope, which goes with its last process. Under systemd the caller is moved into that scope, so it should
 * be the keeper itself, and have no more than one budget at a time. */
int budget_create(const struct budget_request *request, struct budget **ret, struct err *err);
/* Which of "memory", "cpu", "pids" are not enforced, as a comma list; "" for none. */
const char *budget_missing(const struct budget *b);

/* For gc: kills what is in PARENT/ID of a dead run and removes the groups; 0 if there were none, 1 if something was removed. */
int budget_sweep(const char *parent, const char *id, struct err *err);
/* Ids that have a group under PARENT in any hierarchy. */
struct strv;
int budget_list(const char *parent, struct strv *ret, struct err *err);

static inline void budget_free(struct budget *b)
{
	if (b)
		b->ops->free(b);
}
static inline void budget_freep(struct budget **b)
{
	budget_free(*b);
	*b = NULL;
}
#define CLEANUP_BUDGET __attribute__((cleanup(budget_freep)))

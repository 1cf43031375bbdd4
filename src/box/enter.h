/* The way into the box, and what is said on the way between the box's init and the keeper.
 *
 *   keeper                              box init (pid 1 of the box, cloned from the keeper)
 *   clone ------------------------->    joins the budget, root              (still the host's powers over its own namespaces)
 *   makes the working directory
 *     or, in memory: <--------------    BOX_MSG_WORK with a copy of its mount
 *   BOX_CMD_WORK, if planned _CHECKPOINT ->
 *                                       the rest of the root, network, host name,
 *                                       uid, user + cgroup namespace, limits, capabilities, Landlock, seccomp
 *                <------------------    BOX_MSG_READY with what the kernel says about it
 *   receipt compared with the plan
 *   BOX_CMD_GO -------------------->    fork, exec the analysis
 *                <------------------    BOX_MSG_EXITED
 *
 * A keeper that dies before GO leaves a socket at its end: init exits. From READY on, the kernel kills
 * init with the keeper (PDEATHSIG, set before READY is said), and everything in the box with init. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "box/mount.h"
#include "box/plan.h"

enum box_ns {
	BOX_NS_USER,
	BOX_NS_MNT,
	BOX_NS_PID,
	BOX_NS_NET,
	BOX_NS_IPC,
	BOX_NS_UTS,
	BOX_NS_CGROUP,
	BOX_NS_COUNT_
};
extern const char
	*const box_ns_names[BOX_NS_COUNT_]; /* as in /proc/PID/ns; "mnt" is the layer "mount" */

#define BOX_JOIN_MAX 6
/* The host's own services are worth more than any analysis when the host itself runs out of memory. */
#define BOX_OOM_SCORE 500
#define BOX_STEPS_MAX 12
extern const char *const box_step_names[BOX_STEPS_MAX]; /* NULL-terminated if shorter */

/* What init read back from the kernel, after everything was set up. */
struct box_facts {
	uint64_t ns[BOX_NS_COUNT_];
	uint32_t uid[4], gid[4]; /* real, effective, saved, file system */
	uint32_t n_groups;
	uint64_t caps[5]; /* inheritable, permitted, effective, bounding, ambient */
	uint32_t no_new_privs;
	uint32_t seccomp_mode;
	uint32_t seccomp_filters; /* in all */
	uint32_t seccomp_own;     /* ours is one of them: it was installed without an error */
	uint32_t landlock_abi;    /* asked for */
	uint32_t landlock_tried;  /* the trial means something on this host */
	uint32_t landlock_denies; /* proven: a write that only Landlock forbids was refused */
	uint32_t n_mounts;
	uint32_t n_writable;  /* mounts the analysis may write to */
	uint32_t n_id_mapped; /* mounts whose files have other owners than on the host */
	uint32_t
		n_id_mapped_made; /* as many were made so, at least; 0 where another program made the root */
	uint32_t n_searched; /* as in struct root */
	uint32_t n_in_part;
	uint32_t n_fds;
	uint32_t dumpable;
	uint64_t rlimits[8];
	uint32_t n_cpus;
	char cwd[1024];
	uint32_t step_usec
		[BOX_STEPS_MAX]; /* how long each step of the way in took, in box_step_names' order; the last: reading this back */
	uint32_t has_checkpoint; /* the planned one is a mount of its own, and writable */
	char odd_mount[256];     /* a mount that is weaker than planned, or "" */
	char kernel_mount
		[256]; /* a file system of the kernel's own among what is shown of the host, or "" */
	char unreadable[256]; /* what was to be shown to this run alone and can't be read, or "" */
};

enum box_msg_kind {
	BOX_MSG_ERROR,
	BOX_MSG_READY,
	BOX_MSG_STARTED,
	BOX_MSG_EXEC_FAILED,
	BOX_MSG_EXITED,
	BOX_MSG_WORK, /* init has made the working directory in memory; a copy of its mount comes with it */
	BOX_MSG_MAP /* init is in a user namespace of its own, which somebody outside has to map */
};

struct box_msg {
	enum box_msg_kind kind;
	union {
		struct err err;         /* BOX_MSG_ERROR */
		struct box_facts facts; /* BOX_MSG_READY */
		int exec_errno;         /* BOX_MSG_EXEC_FAILED */
		int exited;             /* BOX_MSG_EXITED: the status as from waitpid */
	};
};

enum box_cmd_kind {
	BOX_CMD_WORK,
	BOX_CMD_CHECKPOINT,
	BOX_CMD_GO,
	BOX_CMD_SIGNAL_MAIN,
	BOX_CMD_SIGNAL_ALL,
	BOX_CMD_MAPPED
};

struct box_cmd {
	enum box_cmd_kind kind;
	int signal;
	/* BOX_CMD_WORK, BOX_CMD_CHECKPOINT: what the directory is. A descriptor that comes with it is a copy of its mount, which is attached
	 * nowhere; without one it is a directory that can be reached by its path. */
	dev_t work_dev;
	ino_t work_ino;
};

struct box_entry {
	const struct plan *plan;
	int control_fd;                     /* borrowed; SOCK_SEQPACKET */
	int stdin_fd, stdout_fd, stderr_fd; /* borrowed */
	uid_t uid; /* the host's uid of this run: one of the range as root, the caller's own otherwise */
	gid_t gid;
	bool is_root;     /* the keeper has the host's root */
	bool has_user_ns; /* these are false only where they are allowed to be missing */
	bool has_cgroup_ns;
	bool has_net_ns; /* or the analysis asked for the host's network and may have it */
	bool has_ipc_ns;
	bool has_uts_ns;
	int join_fds[BOX_JOIN_MAX]; /* borrowed; where init writes "0" to be in its budget */
	int n_join;
	int image_fd; /* borrowed; the mount of the runtime's own file system, or -1 */
};

/* Flags for the clone that makes init. */
uint64_t box_clone_flags(const struct box_entry *e);
/* A caller's real-time policy or raised priority is not for an analysis, and a group of the cpu controller refuses the former. */
int box_lower_priority(struct err *err);
/* At a core limit of 1 the kernel runs no core handler, which would be a program of the host's root; at 0 it does (core(5)). A caller
 * whose hard limit is 0 can't be given 1 without CAP_SYS_RESOURCE, which is a fault only where there is a handler. proc_fd: a procfs. */
int box_quell_cores(int proc_fd, struct err *err);
/* In the fresh child: sets everything up, is init, never returns. */
_Noreturn void box_enter(const struct box_entry *e);

/* Where init keeps its socket, behind the three standard descriptors; so does whoever makes the root for another. */
#define BOX_CONTROL_FD 3
/* For root_make: the keeper's word that the working directory is made, or the checkpoint, perhaps with its mount. */
int box_take_work(void *data, enum step_kind which, struct root_work *ret, struct err *err);

/* init.c */
_Noreturn void init_run(const struct box_entry *e, int control_fd);
/* In a child that shares init's memory until it is another program: nothing of it may change but its own frames. */
_Noreturn void init_become(char *const argv[], char *const envp[], volatile int *ret_error);
/* facts.c: reads what the kernel says of the calling process. */
int facts_read(const struct plan *plan, struct box_facts *ret, struct err *err);

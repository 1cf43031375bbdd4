/* From a plan to a box that waits for its go, in three steps, so that the box's root is made while the keeper makes the working directory.
 * The only place that clones a box, but for what an OCI runtime needs (oci.h). */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "box/enter.h"
#include "box/receipt.h"
#include "budget/budget.h"

struct launch_ops;
struct oci_box;
struct oci_runtime;

struct launched {
	const struct launch_ops *ops;
	pid_t pid;              /* of init, as the keeper sees it */
	int pid_fd;             /* owned */
	int control_fd;         /* owned */
	int out_fd;             /* owned; read ends, non-blocking */
	int err_fd;             /* owned */
	struct box_entry entry; /* what was asked for; points to the plan */
	struct box_facts facts;
	struct box_outside outside;
	struct budget *budget; /* borrowed */
	struct oci_box *oci;   /* owned; NULL: the box is cupel's own */
};

#define LAUNCHED_INIT                                                                              \
	{                                                                                          \
		.pid_fd = -1, .control_fd = -1, .out_fd = -1, .err_fd = -1                         \
	}

struct launch_request {
	const struct plan *plan;
	struct budget *budget;
	uid_t uid; /* of the run, the host's number */
	gid_t gid;
	bool is_root;
	int image_fd; /* the runtime's own file system, a mount that is attached nowhere; -1 if it has none */
	const struct oci_runtime *oci; /* who makes the box; NULL: cupel itself */
	const char *home;
	const char *id;
	const char *group; /* the name of the run's group, which is no other's on this host */
};

/* How a box is made. All that is said with its init is the same. */
struct launch_ops {
	int (*begin)(const struct launch_request *q, struct launched *l, struct err *err);
	int (*ready)(struct launched *l, struct err *err);
	void (*abandon)(struct launched *l);
	/* Removes what was made for it on the host; again is no error. */
	int (*end)(struct launched *l, struct err *err);
};

/* Init is there, in the budget, and makes the box's root. On failure nothing of it is left. */
int launch_begin(const struct launch_request *request, struct launched *ret, struct err *err);
/* Waits for a working directory in memory, which init makes: a copy of its mount that is attached nowhere, owned by the caller. */
int launch_take_work(struct launched *l, int *ret_mount_fd, struct err *err);
/* Hands the working directory over: `dir_fd` is it, `mount_fd` a copy of its mount that is attached nowhere, or -1. */
int launch_work(struct launched *l, int dir_fd, int mount_fd, struct err *err);
/* The same with the checkpoint, after it, if the plan has one. */
int launch_checkpoint(struct launched *l, int dir_fd, int mount_fd, struct err *err);
/* The box is set up, its receipt checked; nothing of the analysis has run. */
int launch_ready(struct launched *l, struct err *err);
/* Kills it at whatever step it is. */
void launch_abandon(struct launched *l);
/* Says go. */
int launch_go(const struct launched *l, struct err *err);
/* Asks init to send a signal to the analysis, or to everything in the box. */
void launch_signal(const struct launched *l, enum box_cmd_kind whom, int signal);
/* The box is dead: nothing that was made for it stays. */
int launch_end(struct launched *l, struct err *err);
void launched_release(struct launched *l);

/* The private root, made by descriptors through the new mount API from the steps of a plan. */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "box/plan.h"

struct root {
	int root_fd; /* owned; the new root */
	int proc_fd; /* owned; a procfs of the box's own that is attached nowhere and writable, for set-up only */
	uint32_t n_id_mapped; /* binds whose owners are mapped as planned */
	uint32_t n_searched;  /* binds that were searched for sockets and FIFOs, */
	uint32_t n_in_part;   /* and of these those that were not searched to the end */
};

void root_release(struct root *r);

/* The working directory, which the keeper makes while the root is made, or the checkpoint in it. */
struct root_work {
	int mount_fd; /* owned; a mount that is attached nowhere, or -1: to be reached by its path */
	dev_t dev;    /* what it must be */
	ino_t ino;
};

struct root_request {
	const struct plan *plan;
	/* Waits for that of STEP_WORK or STEP_CHECKPOINT. */
	int (*take_work)(void *data, enum step_kind which, struct root_work *ret, struct err *err);
	/* Gives the keeper a copy of the mount of a working directory in memory, attached nowhere; before take_work. */
	int (*give_work)(void *data, int mount_fd, struct err *err);
	void *data;
	uid_t uid; /* of the analysis, whose a secret file and a working directory in memory are; (uid_t)-1: ours already */
	gid_t gid;
	int image_fd; /* borrowed; STEP_IMAGE: a mount that is attached nowhere yet */
	/* NULL: the result becomes the root. Otherwise it is made on this directory, for another program to start from; that has to mount
	 * the procfs and whatever covers parts of it, which is left out here. */
	const char *at;
};

/* In a fresh mount namespace: carries out the steps. Each failure names its step and path. */
int root_make(const struct root_request *request, struct root *ret, struct err *err);
/* Says which step failed, why, and what would help. */
int mount_failed(const struct step *s, int code, struct err *err);

/* The private root, made by descriptors through the new mount API from the steps of a plan. */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "box/plan.h"

struct root {
	int root_fd; /* owned; the new root */
	int proc_fd; /* owned; a procfs of the box's own that is attached nowhere and writable, for set-up only */
};

void root_release(struct root *r);

/* What the working directory must be: the keeper's own descriptor tells. */
struct root_request {
	const struct plan *plan;
	dev_t work_dev;
	ino_t work_ino;
	int image_fd; /* borrowed; STEP_IMAGE: a mount that is attached nowhere yet */
};

/* In a fresh mount namespace: carries out the steps and makes the result the root. Each failure names its step and path. */
int root_make(const struct root_request *request, struct root *ret, struct err *err);

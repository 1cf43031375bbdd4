/* From a plan to a box that waits for its go. The only place that clones. */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "box/enter.h"
#include "box/receipt.h"
#include "budget/budget.h"

struct launched {
	pid_t pid;              /* of init, as the keeper sees it */
	int pid_fd;             /* owned */
	int control_fd;         /* owned */
	int out_fd;             /* owned; read ends, non-blocking */
	int err_fd;             /* owned */
	struct box_entry entry; /* what was asked for; points to the plan */
	struct box_facts facts;
	struct box_outside outside;
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
	int work_fd; /* the working directory, as the keeper made it */
};

/* The box is set up, its receipt checked; nothing of the analysis has run. On failure nothing of it is left. */
int launch(const struct launch_request *request, struct launched *ret, struct err *err);
/* Says go. */
int launch_go(const struct launched *l, struct err *err);
/* Asks init to send a signal to the analysis, or to everything in the box. */
void launch_signal(const struct launched *l, enum box_cmd_kind whom, int signal);
void launched_release(struct launched *l);

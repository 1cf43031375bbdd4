/* What every way to make a box has in common, for launch.c and oci.c. */
#pragma once

#include "keeper/launch.h"

/* The ends that the box gets. */
struct launch_ends {
	int null_fd, out_fd, err_fd, control_fd; /* owned */
};
#define LAUNCH_ENDS_INIT                                                                           \
	{                                                                                          \
		-1, -1, -1, -1                                                                     \
	}
void launch_ends_release(struct launch_ends *e);
#define CLEANUP_LAUNCH_ENDS CLEANUP(launch_ends_release)

/* A mount on a dead network file system must not hold the keeper for ever. */
#define LAUNCH_TIMEOUT_MS 60000

/* Pipes and socket: our ends are in *l, with what is asked for. */
int launch_open(const struct launch_request *q, struct launched *l, struct launch_ends *ret,
		struct err *err);
/* Which namespaces it is to have. */
void launch_choose_layers(struct box_entry *e);
/* The next word of init, which is of this kind; what it says of an error is ours. */
int launch_hear(struct launched *l, enum box_msg_kind kind, struct box_msg *ret, struct err *err);
int launch_say(const struct launched *l, enum box_cmd_kind kind, int signal_number);
/* The kernel's own list of the groups that init is in: all of the run's are there. */
int launch_check_groups(const struct launched *l, struct err *err);
/* The whole receipt: what init read is in l->facts. */
int launch_check(struct launched *l, struct err *err);

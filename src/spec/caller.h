/* Paths with the rights of whom a run is for (spec/config.h, config_caller): a service that runs as root must not show a user's run what the
 * user may not read. Without such a caller, or with a NULL config, with our own. */
#pragma once

#include "spec/config.h"

/* What the environment says: see config_caller. */
int caller_read(struct config_caller *caller, struct err *err);
/* True if what is asked for is to be done with another's rights. */
bool caller_is_other(const struct config *c);
/* The real path of something that he may read; owned. Negative errno. */
int caller_real(const struct config *c, const char *path, char **ret);
/* Of a real path: nothing in it is followed any more. Negative errno; -ELOOP if it is no longer real. */
int caller_may_read(const struct config *c, const char *path);

/* From here to caller_leave files are opened with his rights and not with ours: user, groups, no capability over files. Only while this process
 * has no other thread. -EPERM if we can't act for him. */
struct caller_before {
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* owned */
	int n_groups;
	bool is_other;
};
int caller_enter(const struct config *c, struct caller_before *before);
void caller_leave(struct caller_before *before);

/* Opening hostile files as root would hand root's rights to whoever chose the names. Under root, opens are made with the
 * analysis's own file-system ids: when the fsuid leaves 0 the kernel drops the file-system capabilities from the effective set,
 * and gives them back when it returns (credentials(7), capabilities(7)). */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/err.h"

struct rights {
	uid_t uid;
	gid_t gid;
	bool switches; /* false: the process already has exactly these rights */
	gid_t *groups; /* owned; the supplementary groups to restore */
	int n_groups;
	bool groups_dropped;
	bool takes_links; /* files with several names too */
};

/* Drops the supplementary groups when ids will be switched; rights_release gives them back. */
int rights_init(struct rights *r, uid_t uid, gid_t gid, struct err *err);
void rights_release(struct rights *r);

/* Verified by reading back; -EPERM, and nothing switched, if they did not take. */
int rights_enter(const struct rights *r);
void rights_leave(const struct rights **r);

#define CLEANUP_RIGHTS       CLEANUP(rights_release)
#define CLEANUP_RIGHTS_LEAVE CLEANUP(rights_leave)

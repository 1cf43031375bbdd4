/* User namespaces and the uid an analysis has; what to say where the host gives no namespace. */
#pragma once

#include <sys/types.h>

#include "base/err.h"

/* The calling process's own fresh user namespace: `inside` is the caller's `outside`, and nothing else is mapped, least of all
 * root. proc_fd: a writable procfs. */
int userns_map_self(int proc_fd, uid_t inside_uid, uid_t outside_uid, gid_t inside_gid,
		    gid_t outside_gid, struct err *err);
/* The kernel refused the namespace of `layer` with `error`; `limit` is its name in /proc/sys/user. */
int namespace_refused(const char *layer, const char *limit, int error, struct err *err);
/* Groups, gid and uid for good, each read back. */
int userns_become(uid_t uid, gid_t gid, struct err *err);
/* A user namespace without a process, for an id-mapped mount: files of `from` are those of `to`, and all others are nobody's. Needs root, and a
 * procfs at /proc. Returns its descriptor, or a negative errno. */
int userns_for_mount(uid_t from_uid, uid_t to_uid, gid_t from_gid, gid_t to_gid);
/* Owner and group that no file has: the map of a mount can't be empty. Not the same number, so that none has both by mistake. */
#define USERNS_NO_UID ((uid_t)4294967294)
#define USERNS_NO_GID ((gid_t)4294967293)
/* No further user namespace below the present one. */
int userns_forbid(int proc_fd, struct err *err);

/* A squashfs file as a tree: mounted as root, unpacked once as anybody else. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "spec/config.h"

/* A mount that is attached nowhere, read-only, nosuid, nodev; its loop device goes with the last reference to it. The caller owns the
 * descriptor. -ENODEV where the kernel has no squashfs. */
int squashfs_mount(const char *path, const char *home, struct err *err);
/* HOME/cache/squashfs/sha256-DIGEST, made now unless it is there. The caller owns *ret_root. */
int squashfs_unpacked(const char *path, const char *home, char **ret_root, struct err *err);

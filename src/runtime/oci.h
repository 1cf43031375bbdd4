/* OCI images: a layout (a directory with oci-layout, index.json and blobs/sha256/, or a .tar archive of one, or what `docker save` wrote)
 * becomes a directory tree, unpacked once for each digest:
 *
 *   HOME/cache/images/sha256-DIGEST/root/       the tree
 *   HOME/cache/images/sha256-DIGEST/image.json  what the image's own configuration says, and what was left out
 *   HOME/cache/images/lock                      held by whoever unpacks
 *
 * DIGEST is that of the manifest for this host's architecture. Every blob is compared with its digest before it is read, and every layer
 * as it was unpacked with the diff id in the image's configuration. The directory gets its name when all of it is on disk. */
#pragma once

#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"
#include "spec/analysis.h"
#include "spec/config.h"

/* `layout` is a path, its links are followed. Unpacks what is not there yet; otherwise reads a few small files. -EINVAL, -EBADMSG,
 * -E2BIG, -EPERM, -ENOENT (caller): the image is at fault, and nothing is left of it. *ret_root is the caller's. */
int oci_unpacked(const struct config *config, const char *layout, char **ret_root,
		 char ret_digest[HASH_HEX], struct err *err);
/* The same without unpacking and without writing anything: 1 if it is unpacked, 0 if it is not. What is in an archive is known only once
 * it was unpacked. *ret_root is the caller's. */
int oci_find(const struct config *config, const char *layout, char **ret_root, struct err *err);
/* What the configuration of an unpacked image sets; names that no variable may have are left out. */
int oci_config_env(const struct config *config, const char *digest, struct pairs *ret,
		   struct err *err);
/* image.json as it is: env, work_dir, user, layers, files, bytes, left_out. *ret is the caller's. */
int oci_config_json(const struct config *config, const char *digest, json_t **ret, struct err *err);

/* Copies the one image that oci_unpacked would choose into a layout of its own at `to`, a directory that must not exist yet. */
int oci_copy(const char *layout, const char *to, char ret_digest[HASH_HEX], struct err *err);

/* For gc: removes what a crash left below `home`, unless somebody is at work there. */
void oci_sweep(const char *home);

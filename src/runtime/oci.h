/* OCI images. */
#pragma once

#include "base/err.h"
#include "base/hash.h"
#include "spec/config.h"

/* The image of a layout, a directory or a .tar archive, verified and unpacked below HOME/cache once for each digest. *ret_root, which
 * the caller owns, is the directory that is the root of a box; the digest is the manifest's. */
int oci_unpacked(const struct config *config, const char *layout, char **ret_root,
		 char ret_digest[HASH_HEX], struct err *err);

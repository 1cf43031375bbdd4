/* OCI images are not read yet. */
#include "runtime/oci.h"

#include <errno.h>

int oci_unpacked(const struct config *config, const char *layout, char **ret_root,
		 char ret_digest[HASH_HEX], struct err *err)
{
	return err_set(err, ERR_HOST, EOPNOTSUPP, "%s: this cupel can't read OCI images", layout);
}

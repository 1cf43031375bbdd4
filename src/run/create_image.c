/* An image: copied into a layout of its own, so that the original may go, and unpacked, so that no run has to wait for that. */
#include <errno.h>

#include "base/cleanup.h"
#include "run/create_parts.h"
#include "runtime/oci.h"

int create_image(struct creation *c, struct err *err)
{
	CLEANUP_JSON json_t *told = NULL;
	CLEANUP_FREE char *root = NULL;
	char digest[HASH_HEX], unpacked[HASH_HEX];
	c->place = xasprintf("%s/layout", c->dir);
	create_tell(c, "verify and copy the image");
	int r = oci_copy(c->q->layout, c->place, digest, err);
	if (r < 0)
		return r;
	create_tell(c, "unpack the image");
	r = oci_unpacked(c->config, c->place, &root, unpacked, err);
	if (r >= 0)
		r = oci_config_json(c->config, unpacked, &told, err);
	if (r < 0)
		return r;
	static const char *const keys[] = { "user", "work_dir", "files", "bytes", "left_out" };
	json_object_set_new(c->notes, "digest", json_text(digest));
	json_object_set_new(c->notes, "unpacked", json_text(root));
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		json_object_set(c->notes, keys[i], json_object_get(told, keys[i]));
	return 0;
}

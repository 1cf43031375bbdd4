/* One image into a layout of its own. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/path.h"
#include "runtime/oci.h"
#include "runtime/oci_parts.h"

/* The copy is hashed, not the source: what is there then is what was meant. */
static int copy_blob(int from_fd, int to_fd, const struct oci_blob *b, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("blobs/sha256/%s", b->digest);
	char found[HASH_HEX];
	CLEANUP_FD int in_fd = oci_open_blob(from_fd, b, err);
	if (in_fd < 0)
		return in_fd;
	CLEANUP_FD int out_fd =
		openat(to_fd, path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (out_fd < 0 && errno == EEXIST)
		return 0; /* the same layer twice */
	if (out_fd < 0)
		return err_errno(err, "write %s", path);
	off_t at = 0;
	while (at < (off_t)b->size) {
		ssize_t n = sendfile(out_fd, in_fd, &at, (size_t)b->size - (size_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? err_errno(err, "copy %s", path)
				     : err_set(err, ERR_CALLER, EBADMSG, "%s became shorter", path);
	}
	int r = hash_file(out_fd, found);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "read %s: %s", path, strerrordesc_np(-r));
	return str_eq(found, b->digest) ? 0
					: err_set(err, ERR_CALLER, EBADMSG,
						  "%s was changed while it was copied", path);
}

static int write_names(int to_fd, const struct oci_image *image, struct err *err)
{
	CLEANUP_FREE char *digest = xasprintf("sha256:%s", image->manifest.digest);
	CLEANUP_JSON json_t *version = json_pack("{s:s}", "imageLayoutVersion", "1.0.0");
	CLEANUP_JSON json_t *index =
		json_pack("{s:i,s:[{s:s,s:s,s:o}]}", "schemaVersion", 2, "manifests", "mediaType",
			  "application/vnd.oci.image.manifest.v1+json", "digest", digest, "size",
			  json_u64(image->manifest.size));
	int r = json_write_file(to_fd, "oci-layout", version, err);
	return r < 0 ? r : json_write_file(to_fd, "index.json", index, err);
}

static int copy_image(int from_fd, int to_fd, const struct oci_image *image, struct err *err)
{
	if (mkdirat(to_fd, "blobs", 0755) < 0 || mkdirat(to_fd, "blobs/sha256", 0755) < 0)
		return err_errno(err, "make the directory of blobs");
	int r = copy_blob(from_fd, to_fd, &image->manifest, err);
	if (r >= 0)
		r = copy_blob(from_fd, to_fd, &image->parts.config, err);
	for (size_t i = 0; r >= 0 && i < image->parts.n_layers; i++)
		r = copy_blob(from_fd, to_fd, &image->parts.layers[i], err);
	return r < 0 ? r : write_names(to_fd, image, err);
}

int oci_copy(const char *layout, const char *to, char ret_digest[HASH_HEX], struct err *err)
{
	CLEANUP(oci_image_release) struct oci_image image = { 0 };
	CLEANUP_FREE char *temp = xasprintf("%s.archive", path_base(to));
	CLEANUP_FREE char *above = path_parent(to);
	CLEANUP_FD int above_fd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (above_fd < 0 || mkdir(to, 0755) < 0)
		return err_errno(err, "make %s", to);
	CLEANUP_FD int to_fd = open(to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (to_fd < 0)
		return err_errno(err, "open %s", to);
	CLEANUP_FD int from_fd = oci_source_open(layout, above_fd, temp, err);
	int r = from_fd < 0 ? from_fd : oci_pick(from_fd, &image, err);
	if (r >= 0)
		r = copy_image(from_fd, to_fd, &image, err);
	if (r >= 0)
		memcpy(ret_digest, image.manifest.digest, HASH_HEX);
	int removed = fs_remove_tree(above_fd, temp, NULL, r < 0 ? NULL : err);
	return r < 0 ? r : removed;
}

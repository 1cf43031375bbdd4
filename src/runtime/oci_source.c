/* A layout as a directory: it is one, or it is an archive of one, or of what `docker save` wrote before it knew of layouts. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/path.h"
#include "runtime/oci_parts.h"

static bool exists(int dir_fd, const char *name)
{
	struct stat st = { 0 };
	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static json_t *descriptor(const char *type, const struct oci_blob *b)
{
	CLEANUP_FREE char *digest = xasprintf("sha256:%s", b->digest);
	return json_pack("{s:s,s:s,s:o}", "mediaType", type, "digest", digest, "size",
			 json_u64(b->size));
}

/* Gives a file of the archive its place among the blobs. */
static int take_blob(int dir_fd, const char *said, struct oci_blob *ret, struct err *err)
{
	struct oci_blob b = { 0 };
	struct stat st = { 0 };
	CLEANUP_FD int fd =
		said ? fs_open_beneath(dir_fd, said, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0) : -ENOENT;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_caller(err, "manifest.json: '%s' is not a file of the archive",
				  said ? said : "");
	b.size = (uint64_t)st.st_size;
	int r = hash_file(fd, b.digest);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "read '%s': %s", said, strerrordesc_np(-r));
	CLEANUP_FREE char *path = xasprintf("blobs/sha256/%s", b.digest);
	if (linkat(dir_fd, said, dir_fd, path, 0) < 0 && errno != EEXIST)
		return err_errno(err, "link '%s'", said);
	*ret = b;
	return 0;
}

static int write_text(int dir_fd, const char *name, json_t *owned, struct oci_blob *ret,
		      struct err *err)
{
	CLEANUP_JSON json_t *value = owned;
	CLEANUP_FREE char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS);
	struct oci_blob b = { .size = text ? strlen(text) : 0 };
	if (!text)
		return err_set(err, ERR_HOST, ENOMEM, "write %s", name ? name : "a blob");
	hash_bytes(text, b.size, b.digest);
	CLEANUP_FREE char *path = xasprintf("blobs/sha256/%s", b.digest);
	int r = fs_write_atomic(dir_fd, name ? name : path, text, b.size, 0600, err);
	if (r >= 0 && ret)
		*ret = b;
	return r;
}

/* The manifest, which the old form lacks. The same archive always gets the same one. */
static json_t *docker_manifest(int dir_fd, const json_t *image, struct err *err)
{
	static const char *const type = "application/vnd.oci.image.layer.v1.tar";
	CLEANUP_JSON json_t *layers = json_array();
	const json_t *list = json_object_get(image, "Layers");
	struct oci_blob b = { 0 };
	if (!json_is_array(list) || json_array_size(list) > OCI_LAYERS_MAX) {
		(void)err_caller(err, "manifest.json: Layers is missing or too long");
		return NULL;
	}
	for (size_t i = 0; i < json_array_size(list); i++) {
		if (take_blob(dir_fd, json_string_value(json_array_get(list, i)), &b, err) < 0)
			return NULL;
		json_array_append_new(layers, descriptor(type, &b));
	}
	if (take_blob(dir_fd, json_string_value(json_object_get(image, "Config")), &b, err) < 0)
		return NULL;
	return json_pack("{s:i,s:s,s:o,s:O}", "schemaVersion", 2, "mediaType",
			 "application/vnd.oci.image.manifest.v1+json", "config",
			 descriptor("application/vnd.oci.image.config.v1+json", &b), "layers",
			 layers);
}

/* Writes the index and the manifest of an archive in docker's older form. */
static int from_docker(int dir_fd, struct err *err)
{
	CLEANUP_JSON json_t *list = NULL;
	struct oci_blob b = { 0 };
	int r = json_read_file(dir_fd, "manifest.json", OCI_TEXT_MAX, &list, err);
	if (r < 0)
		return r;
	if (json_array_size(list) != 1)
		return err_caller(err,
				  "the archive has %zu images; save the one that is meant alone",
				  json_array_size(list));
	if ((mkdirat(dir_fd, "blobs", 0700) < 0 && errno != EEXIST) ||
	    (mkdirat(dir_fd, "blobs/sha256", 0700) < 0 && errno != EEXIST))
		return err_errno(err, "make the directory of blobs");
	json_t *manifest = docker_manifest(dir_fd, json_array_get(list, 0), err);
	if (!manifest)
		return -err->code;
	r = write_text(dir_fd, NULL, manifest, &b, err);
	if (r < 0)
		return r;
	r = write_text(dir_fd, "index.json",
		       json_pack("{s:i,s:[o]}", "schemaVersion", 2, "manifests",
				 descriptor("application/vnd.oci.image.manifest.v1+json", &b)),
		       NULL, err);
	return r < 0 ? r
		     : write_text(dir_fd, "oci-layout",
				  json_pack("{s:s}", "imageLayoutVersion", "1.0.0"), NULL, err);
}

static int unpack_archive(const char *path, int dir_fd, struct err *err)
{
	struct layer_counts counts = { 0 };
	char ignored[HASH_HEX];
	CLEANUP_FD int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct layer archive = {
		.fd = fd, .name = path_base(path), .place = LAYER_PLAIN, .caps = &layer_caps_default
	};
	if (fd < 0)
		return err_set(err, ERR_CALLER, errno, "open %s: %s", path, strerrordesc_np(errno));
	int r = layer_apply(&archive, dir_fd, &counts, ignored, err);
	if (r < 0)
		return r;
	if (exists(dir_fd, "index.json"))
		return 0;
	if (exists(dir_fd, "manifest.json"))
		return from_docker(dir_fd, err);
	return err_caller(
		err, "%s is an archive of no image: it has neither index.json nor manifest.json",
		path);
}

int oci_source_open(const char *path, int images_fd, const char *temp_name, struct err *err)
{
	struct stat st = { 0 };
	if (stat(path, &st) < 0)
		return err_set(err, ERR_CALLER, errno, "the image %s: %s", path,
			       strerrordesc_np(errno));
	if (S_ISDIR(st.st_mode)) {
		int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		return fd < 0 ? err_set(err, ERR_CALLER, errno, "open %s: %s", path,
					strerrordesc_np(errno))
			      : fd;
	}
	if (!S_ISREG(st.st_mode))
		return err_caller(err, "the image %s is neither a directory nor an archive", path);
	if (mkdirat(images_fd, temp_name, 0700) < 0)
		return err_errno(err, "make a directory for the image");
	CLEANUP_FD int fd =
		openat(images_fd, temp_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "open the directory for the image");
	int r = unpack_archive(path, fd, err);
	return r < 0 ? r : take_fd(&fd);
}

/* Unpacks images, each once. Whoever unpacks holds the lock of the cache; what stands there under its final name is whole. */
#include "runtime/oci.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/path.h"
#include "runtime/oci_parts.h"

#define ARCHIVE_TEMP FS_TEMP_PREFIX "archive"
#define TREE_TEMP    FS_TEMP_PREFIX "tree"

/* HOME/cache/images, and what lives there as long as the lock is held. */
struct cache {
	char *path;  /* owned */
	int fd;      /* owned */
	int lock_fd; /* owned; -1: not locked */
};

static void cache_release(struct cache *c)
{
	if (c->lock_fd >= 0) {
		(void)fs_remove_tree(c->fd, ARCHIVE_TEMP, NULL, NULL);
		(void)fs_remove_tree(c->fd, TREE_TEMP, NULL, NULL);
	}
	cleanup_fd(&c->lock_fd);
	cleanup_fd(&c->fd);
	cleanup_free(&c->path);
}

static int cache_open(const char *home, struct cache *ret, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/cache/images", home);
	int r = fs_make_dirs(home, 0711, err);
	if (r >= 0)
		r = fs_make_dirs(path, 0700, err);
	if (r < 0)
		return r;
	ret->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ret->fd < 0)
		return err_errno(err, "open %s", path);
	ret->path = take_ptr(path);
	return 0;
}

/* Waits for others, then clears what one of them left when it was killed. */
static int cache_lock(struct cache *c, struct err *err)
{
	CLEANUP_FD int fd = openat(c->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = fd < 0 ? -1 : flock(fd, LOCK_EX);
	while (fd >= 0 && r < 0 && errno == EINTR)
		r = flock(fd, LOCK_EX);
	if (r < 0)
		return err_errno(err, "lock %s", c->path);
	c->lock_fd = take_fd(&fd);
	r = fs_remove_tree(c->fd, ARCHIVE_TEMP, NULL, err);
	return r < 0 ? r : fs_remove_tree(c->fd, TREE_TEMP, NULL, err);
}

static bool cache_has(const struct cache *c, const char *digest)
{
	CLEANUP_FREE char *name = xasprintf("sha256-%s", digest);
	struct stat st = { 0 };
	return fstatat(c->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* An archive need not be unpacked to be known again: the name under which its digest is noted changes with it. */
static char *archive_note(const char *path)
{
	struct stat st = { 0 };
	char hex[HASH_HEX];
	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return NULL;
	CLEANUP_FREE char *text = xasprintf(
		"%s %llu %llu %lld %lld.%09ld %lld.%09ld", path, (unsigned long long)st.st_dev,
		(unsigned long long)st.st_ino, (long long)st.st_size, (long long)st.st_mtim.tv_sec,
		st.st_mtim.tv_nsec, (long long)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
	hash_bytes(text, strlen(text), hex);
	return xasprintf("archive-%s", hex);
}

static bool note_read(const struct cache *c, const char *note, char ret_digest[HASH_HEX])
{
	char text[HASH_HEX + 1] = "";
	if (!note || fs_read_small(c->fd, note, text, sizeof(text)) != HASH_HEX - 1)
		return false;
	memcpy(ret_digest, text, HASH_HEX);
	return strspn(text, "0123456789abcdef") == HASH_HEX - 1;
}

static int apply_layers(int layout_fd, const struct oci_image *image, int root_fd,
			struct layer_counts *counts, struct err *err)
{
	for (size_t i = 0; i < image->parts.n_layers; i++) {
		const struct oci_blob *b = &image->parts.layers[i];
		char name[32], digest[HASH_HEX];
		(void)snprintf(name, sizeof(name), "layer %.12s", b->digest);
		CLEANUP_FD int fd = oci_open_blob(layout_fd, b, err);
		if (fd < 0)
			return fd;
		struct layer layer = { .fd = fd,
				       .name = name,
				       .caps = &layer_caps_default,
				       .place = i == 0 ? LAYER_FIRST : LAYER_UPPER };
		int r = layer_apply(&layer, root_fd, counts, digest, err);
		if (r < 0)
			return r;
		if (!str_eq(digest, image->settings.diff_ids.v[i]))
			return err_set(
				err, ERR_CALLER, EBADMSG,
				"%s unpacks to something else than the image's configuration says (its diff id)",
				name);
	}
	return 0;
}

static json_t *image_json(const struct oci_image *image, const struct layer_counts *counts)
{
	const struct oci_settings *s = &image->settings;
	json_t *env = json_object(), *layers = json_array();
	for (size_t i = 0; i < s->env.n; i++)
		json_object_set_new(env, s->env.v[i].key, json_text(s->env.v[i].value));
	for (size_t i = 0; i < image->parts.n_layers; i++)
		json_array_append_new(layers, json_text(image->parts.layers[i].digest));
	json_t *left_out = json_pack("{s:o,s:o,s:o}", "devices", json_u64(counts->devices),
				     "odd_names", json_u64(counts->odd_names), "set_id_bits",
				     json_u64(counts->set_id));
	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "digest",
			 json_text(image->manifest.digest), "platform", json_text(s->platform),
			 "env", env, "work_dir", json_text(s->work_dir), "user", json_text(s->user),
			 "layers", layers, "files", json_u64(counts->files), "bytes",
			 json_u64(counts->bytes), "left_out", left_out);
}

/* Everything under a temporary name, synced; then the final one. The lock is held. */
static int unpack(const struct cache *c, int layout_fd, const struct oci_image *image,
		  struct err *err)
{
	CLEANUP_FREE char *name = xasprintf("sha256-%s", image->manifest.digest);
	struct layer_counts counts = { 0 };
	if (mkdirat(c->fd, TREE_TEMP, 0755) < 0)
		return err_errno(err, "make a directory in %s", c->path);
	CLEANUP_FD int fd =
		openat(c->fd, TREE_TEMP, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || mkdirat(fd, "root", 0755) < 0 || fchmodat(fd, "root", 0755, 0) < 0)
		return err_errno(err, "make a directory in %s", c->path);
	CLEANUP_FD int root_fd =
		openat(fd, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (root_fd < 0)
		return err_errno(err, "open the image's root");
	int r = apply_layers(layout_fd, image, root_fd, &counts, err);
	if (r < 0)
		return r;
	CLEANUP_JSON json_t *told = image_json(image, &counts);
	r = json_write_file(fd, "image.json", told, err);
	if (r < 0)
		return r;
	if (syncfs(fd) < 0)
		return err_errno(err, "bring the image to disk");
	if (renameat(c->fd, TREE_TEMP, c->fd, name) < 0)
		return err_errno(err, "give the image its name in %s", c->path);
	return fsync(c->fd) < 0 ? err_errno(err, "sync %s", c->path) : 0;
}

static int unpack_if_new(struct cache *c, int layout_fd, const struct oci_image *image,
			 struct err *err)
{
	if (cache_has(c, image->manifest.digest))
		return 0;
	int r = c->lock_fd < 0 ? cache_lock(c, err) : 0;
	/* Another may have done it while we waited. */
	return r < 0 || cache_has(c, image->manifest.digest) ? r : unpack(c, layout_fd, image, err);
}

static int unpacked(struct cache *c, const char *path, char ret_digest[HASH_HEX], struct err *err)
{
	CLEANUP(oci_image_release) struct oci_image image = { 0 };
	CLEANUP_FREE char *note = archive_note(path);
	if (note_read(c, note, ret_digest) && cache_has(c, ret_digest))
		return 0;
	int r = note ? cache_lock(c, err) : 0;
	CLEANUP_FD int layout_fd = r < 0 ? r : oci_source_open(path, c->fd, ARCHIVE_TEMP, err);
	if (layout_fd < 0)
		return layout_fd;
	r = oci_pick(layout_fd, &image, err);
	if (r >= 0)
		r = unpack_if_new(c, layout_fd, &image, err);
	if (r < 0)
		return r;
	memcpy(ret_digest, image.manifest.digest, HASH_HEX);
	return note ? fs_write_atomic(c->fd, note, ret_digest, HASH_HEX - 1, 0600, err) : 0;
}

int oci_unpacked(const struct config *config, const char *layout, char **ret_root,
		 char ret_digest[HASH_HEX], struct err *err)
{
	CLEANUP(cache_release) struct cache c = { .fd = -1, .lock_fd = -1 };
	CLEANUP_FREE char *path = path_real(layout);
	char digest[HASH_HEX] = "";
	if (!path)
		return err_set(err, ERR_CALLER, errno, "the image %s: %s", layout,
			       strerrordesc_np(errno));
	int r = cache_open(config->home, &c, err);
	if (r >= 0)
		r = unpacked(&c, path, digest, err);
	if (r < 0)
		return r;
	memcpy(ret_digest, digest, HASH_HEX);
	*ret_root = xasprintf("%s/sha256-%s/root", c.path, digest);
	return 0;
}

int oci_find(const struct config *config, const char *layout, char **ret_root, struct err *err)
{
	CLEANUP(cache_release) struct cache c = { .fd = -1, .lock_fd = -1 };
	CLEANUP(oci_image_release) struct oci_image image = { 0 };
	CLEANUP_FREE char *path = path_real(layout);
	char digest[HASH_HEX] = "";
	struct stat st = { 0 };
	if (!path || stat(path, &st) < 0)
		return err_set(err, ERR_CALLER, errno, "the image %s: %s", layout,
			       strerrordesc_np(errno));
	c.path = xasprintf("%s/cache/images", config->home);
	c.fd = open(c.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c.fd < 0)
		return 0;
	if (S_ISDIR(st.st_mode)) {
		CLEANUP_FD int layout_fd = oci_source_open(path, c.fd, ARCHIVE_TEMP, err);
		int r = layout_fd < 0 ? layout_fd : oci_pick(layout_fd, &image, err);
		if (r < 0)
			return r;
		memcpy(digest, image.manifest.digest, HASH_HEX);
	} else {
		CLEANUP_FREE char *note = archive_note(path);
		if (!note_read(&c, note, digest))
			return 0;
	}
	if (!cache_has(&c, digest))
		return 0;
	*ret_root = xasprintf("%s/sha256-%s/root", c.path, digest);
	return 1;
}

int oci_config_json(const struct config *config, const char *digest, json_t **ret, struct err *err)
{
	CLEANUP_FREE char *path =
		xasprintf("%s/cache/images/sha256-%s/image.json", config->home, digest);
	return json_read_file(AT_FDCWD, path, 2 * OCI_TEXT_MAX, ret, err);
}

int oci_config_env(const struct config *config, const char *digest, struct pairs *ret,
		   struct err *err)
{
	CLEANUP_JSON json_t *value = NULL;
	const char *key = NULL;
	json_t *text = NULL;
	int r = oci_config_json(config, digest, &value, err);
	if (r < 0)
		return r;
	json_object_foreach(json_object_get(value, "env"), key, text) if (json_is_string(text))
		pairs_set(ret, key, json_string_value(text));
	return 0;
}

void oci_sweep(const char *home)
{
	CLEANUP(cache_release) struct cache c = { .fd = -1, .lock_fd = -1 };
	struct stat st = { 0 };
	c.path = xasprintf("%s/cache/images", home);
	c.fd = open(c.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c.fd < 0 || (fstatat(c.fd, TREE_TEMP, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
			 fstatat(c.fd, ARCHIVE_TEMP, &st, AT_SYMLINK_NOFOLLOW) < 0))
		return;
	CLEANUP_FD int fd = openat(c.fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		c.lock_fd = take_fd(&fd); /* its release removes them */
}

/* Which image of a layout is meant: the one for this host. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "runtime/oci_parts.h"

#define NESTED_MAX 4
#define REFS_ALL   4096

void oci_image_release(struct oci_image *i)
{
	oci_manifest_release(&i->parts);
	oci_settings_release(&i->settings);
	cleanup_free(&i->manifest_text);
	cleanup_free(&i->settings_text);
}

static char *blob_path(const struct oci_blob *b)
{
	return xasprintf("blobs/sha256/%s", b->digest);
}

int oci_open_blob(int layout_fd, const struct oci_blob *b, struct err *err)
{
	CLEANUP_FREE char *path = blob_path(b);
	char found[HASH_HEX];
	struct stat st = { 0 };
	/* A FIFO in its place must not hold us. */
	CLEANUP_FD int fd = fs_open_beneath(layout_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd == -ENOENT)
		return err_set(err, ERR_CALLER, ENOENT, "the image is not whole: it has no %s",
			       path);
	if (fd < 0)
		return err_set(err, ERR_CALLER, -fd, "open %s: %s", path, strerrordesc_np(-fd));
	if (fstat(fd, &st) < 0)
		return err_errno(err, "look at %s", path);
	if (!S_ISREG(st.st_mode))
		return err_caller(err, "%s is not a regular file", path);
	if ((uint64_t)st.st_size != b->size)
		return err_set(err, ERR_CALLER, EBADMSG,
			       "%s has %llu bytes, not the %llu it should have", path,
			       (unsigned long long)st.st_size, (unsigned long long)b->size);
	int r = hash_file(fd, found);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "read %s: %s", path, strerrordesc_np(-r));
	if (!str_eq(found, b->digest))
		return err_set(
			err, ERR_CALLER, EBADMSG,
			"%s has another content than its name says (sha256 %.12s...): it is damaged or was exchanged",
			path, found);
	return take_fd(&fd);
}

/* A small blob: what was hashed is what is returned. */
static int read_blob(int layout_fd, const struct oci_blob *b, char **ret, struct err *err)
{
	CLEANUP_FREE char *path = blob_path(b);
	CLEANUP_FREE char *text = NULL;
	char found[HASH_HEX];
	if (b->size > OCI_TEXT_MAX)
		return err_set(err, ERR_CALLER, EFBIG, "%s is larger than any such text", path);
	CLEANUP_FD int fd = oci_open_blob(layout_fd, b, err);
	if (fd < 0)
		return fd;
	text = xcalloc(1, (size_t)b->size + 1);
	ssize_t n = pread(fd, text, (size_t)b->size, 0);
	if (n < 0)
		return err_errno(err, "read %s", path);
	hash_bytes(text, (size_t)n, found);
	if (!str_eq(found, b->digest))
		return err_set(err, ERR_CALLER, EBADMSG, "%s was changed while it was read", path);
	*ret = take_ptr(text);
	return 0;
}

/* Every manifest of the layout, those of nested indexes too. */
struct refs {
	int layout_fd;     /* borrowed */
	struct oci_ref *v; /* owned */
	size_t n;
	struct str others; /* platforms of images that are not for this host */
};

static void refs_release(struct refs *all)
{
	for (size_t i = 0; i < all->n; i++)
		free(all->v[i].name);
	free(all->v);
	str_release(&all->others);
}

static int add_refs(struct refs *all, struct oci_index *index, struct err *err)
{
	if (all->n + index->n > REFS_ALL)
		return err_caller(err, "the image's indexes name more than %d manifests", REFS_ALL);
	all->v = xreallocarray(all->v, all->n + index->n + 1, sizeof(*all->v));
	for (size_t i = 0; i < index->n; i++) {
		all->v[all->n++] = index->v[i];
		index->v[i].name = NULL;
	}
	return 0;
}

/* Replaces each reference to an index by what stands there. The list grows while it is read. */
static int expand(struct refs *all, struct err *err)
{
	size_t level_end = all->n;
	unsigned level = 0;
	for (size_t i = 0; i < all->n; i++) {
		CLEANUP(oci_index_release) struct oci_index index = { 0 };
		CLEANUP_FREE char *text = NULL;
		if (i == level_end) {
			level_end = all->n;
			level++;
		}
		if (!all->v[i].is_index || all->v[i].platform == OCI_OTHER)
			continue;
		if (level >= NESTED_MAX)
			return err_caller(err, "the image's indexes are nested too deeply");
		CLEANUP_FREE char *path = blob_path(&all->v[i].blob);
		int r = read_blob(all->layout_fd, &all->v[i].blob, &text, err);
		if (r >= 0)
			r = oci_index_parse(path, text, all->v[i].blob.size, &index, err);
		if (r >= 0)
			r = add_refs(all, &index, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int load_image(int layout_fd, const struct oci_blob *manifest, struct oci_image *ret,
		      struct err *err)
{
	CLEANUP(oci_image_release) struct oci_image i = { .manifest = *manifest };
	CLEANUP_FREE char *path = blob_path(manifest);
	int r = read_blob(layout_fd, manifest, &i.manifest_text, err);
	if (r >= 0)
		r = oci_manifest_parse(path, i.manifest_text, manifest->size, &i.parts, err);
	CLEANUP_FREE char *config_path = blob_path(&i.parts.config);
	if (r >= 0)
		r = read_blob(layout_fd, &i.parts.config, &i.settings_text, err);
	if (r >= 0)
		r = oci_settings_parse(config_path, i.settings_text, i.parts.config.size,
				       &i.settings, err);
	if (r < 0)
		return r;
	if (i.settings.diff_ids.n != i.parts.n_layers)
		return err_caller(err, "%s: has %zu layers, but its configuration has %zu diff ids",
				  path, i.parts.n_layers, i.settings.diff_ids.n);
	*ret = i;
	memset(&i, 0, sizeof(i));
	return 0;
}

static int none_fits(const struct refs *all, struct err *err)
{
	CLEANUP_STR struct str names = { 0 };
	for (size_t i = 0; i < all->n && names.length < 200; i++)
		if (!all->v[i].is_index)
			str_addf(&names, "%s%s", names.length ? ", " : "", all->v[i].name);
	return err_set(err, ERR_CALLER, ENOENT, "the layout has no image for linux/%s; it has: %s",
		       oci_architecture(),
		       all->others.length ? str_text(&all->others)
		       : names.length     ? str_text(&names)
					  : "none");
}

static int several_fit(const struct refs *all, enum oci_platform kind, struct err *err)
{
	CLEANUP_STR struct str names = { 0 };
	for (size_t i = 0; i < all->n && names.length < 200; i++)
		if (!all->v[i].is_index && all->v[i].platform == kind)
			str_addf(&names, "%s%s", names.length ? ", " : "", all->v[i].name);
	return err_caller(
		err,
		"the layout has several images for linux/%s (%s); copy the one that is meant into a layout of its own",
		oci_architecture(), str_text(&names));
}

/* Among those whose index said `kind`; with OCI_UNSAID the configurations tell. 1 if one was found. */
static int choose(struct refs *all, enum oci_platform kind, struct oci_image *ret, struct err *err)
{
	CLEANUP(oci_image_release) struct oci_image chosen = { 0 };
	bool found = false;
	for (size_t i = 0; i < all->n; i++) {
		CLEANUP(oci_image_release) struct oci_image image = { 0 };
		const struct oci_ref *ref = &all->v[i];
		if (ref->is_index || ref->platform != kind ||
		    (found && str_eq(ref->blob.digest, chosen.manifest.digest)))
			continue;
		int r = load_image(all->layout_fd, &ref->blob, &image, err);
		if (r < 0)
			return r;
		if (!image.settings.this_host) {
			str_addf(&all->others, "%s%s", all->others.length ? ", " : "",
				 image.settings.platform);
			continue;
		}
		if (found)
			return several_fit(all, kind, err);
		chosen = image;
		image = (struct oci_image){ 0 };
		found = true;
	}
	*ret = chosen;
	memset(&chosen, 0, sizeof(chosen));
	return found;
}

static int check_version(int layout_fd, struct err *err)
{
	CLEANUP_JSON json_t *value = NULL;
	int r = json_read_file(layout_fd, "oci-layout", 65536, &value, err);
	if (r < 0)
		return err_wrap(err, "not an OCI image layout");
	const char *version = json_string_value(json_object_get(value, "imageLayoutVersion"));
	if (!version || !str_starts(version, "1."))
		return err_caller(err, "oci-layout: imageLayoutVersion is '%s', not 1.0.0",
				  version ? version : "");
	return 0;
}

int oci_pick(int layout_fd, struct oci_image *ret, struct err *err)
{
	CLEANUP(oci_index_release) struct oci_index index = { 0 };
	CLEANUP(refs_release) struct refs all = { .layout_fd = layout_fd };
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	int r = check_version(layout_fd, err);
	if (r >= 0)
		r = fs_read_capped(layout_fd, "index.json", OCI_TEXT_MAX, &text, &length, err);
	if (r >= 0)
		r = oci_index_parse("index.json", text, length, &index, err);
	if (r >= 0)
		r = add_refs(&all, &index, err);
	if (r >= 0)
		r = expand(&all, err);
	if (r < 0)
		return r;
	r = choose(&all, OCI_THIS_HOST, ret, err);
	if (r == 0)
		r = choose(&all, OCI_UNSAID, ret, err);
	return r == 0 ? none_fits(&all, err) : r < 0 ? r : 0;
}

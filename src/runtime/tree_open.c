/* The kinds that bring a root of their own: a directory, a squashfs file, an image. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "runtime/kinds.h"
#include "runtime/oci.h"
#include "runtime/rootfs.h"
#include "runtime/squashfs.h"

static int open_directory(struct runtime *r, struct err *err)
{
	int fd = open(r->root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "its root %s", r->root);
	return rootfs_read(fd, r->root, false, &r->tree, err);
}

static int open_squashfs(const struct config *config, struct runtime *r, struct err *err)
{
	int fd = geteuid() == 0 ? squashfs_mount(r->prefix, config->home, err) : -ENODEV;
	if (fd >= 0)
		return rootfs_read(fd, r->prefix, true, &r->tree, err);
	if (fd != -ENODEV)
		return fd;
	int e = squashfs_unpacked(r->prefix, config->home, &r->root, err);
	return e < 0 ? e : open_directory(r, err);
}

int rootfs_open(const struct config *config, struct runtime *r, struct err *err)
{
	struct stat st = { 0 };
	if (stat(r->prefix, &st) < 0)
		return err_set(err, ERR_HOST, errno,
			       "its root %s: %s. Remedy: make it, or correct the entry", r->prefix,
			       strerrordesc_np(errno));
	if (!S_ISDIR(st.st_mode))
		return open_squashfs(config, r, err);
	r->root = xstrdup(r->prefix);
	return open_directory(r, err);
}

/* What the image says of its variables holds where the entry says nothing. */
static int take_image_env(const struct config *config, struct runtime *r, struct err *err)
{
	struct pairs env = { 0 };
	int e = oci_config_env(config, r->digest, &env, err);
	for (size_t i = 0; e >= 0 && i < env.n; i++) {
		const struct pair *p = &env.v[i];
		if (str_eq(p->key, "PATH") && str_eq(r->path, RUNTIME_PATH)) {
			free(r->path);
			r->path = xstrdup(p->value);
		} else if (!str_eq(p->key, "PATH") && !pairs_get(&r->env, p->key)) {
			pairs_set(&r->env, p->key, p->value);
		}
	}
	pairs_release(&env);
	return e;
}

static int unpack(const struct config *config, struct runtime *r, struct err *err)
{
	char digest[HASH_HEX], *root = NULL;
	int e = oci_unpacked(config, r->prefix, &root, digest, err);
	if (e < 0)
		return e;
	free(r->root);
	r->root = root;
	free(r->digest);
	r->digest = xstrdup(digest);
	return 0;
}

int runtime_unpack(const struct config *config, struct runtime *r, struct err *err)
{
	int e = r->kind == RUNTIME_IMAGE ? unpack(config, r, err) : 0;
	return e < 0 ? err_wrap(err, "runtime '%s' (%s)", r->name, r->origin) : 0;
}

int runtime_find_root(const struct config *config, struct runtime *r, struct err *err)
{
	if (r->kind != RUNTIME_IMAGE || r->root)
		return 1;
	int e = oci_find(config, r->prefix, &r->root, err);
	return e < 0 ? err_wrap(err, "runtime '%s' (%s)", r->name, r->origin) : e;
}

int image_open(const struct config *config, struct runtime *r, struct err *err)
{
	int e = unpack(config, r, err);
	if (e >= 0)
		e = take_image_env(config, r, err);
	return e < 0 ? e : open_directory(r, err);
}

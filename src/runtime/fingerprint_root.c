/* Identity of what has a /usr of its own, and of the host: packages, release, interpreters; a squashfs file; an image. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>

#include "base/fs.h"
#include "runtime/fingerprint_parts.h"

#define SUPERBLOCK_SIZE 96
#define SQUASHFS_MAGIC  "hsqs"
#define IMAGE_PREFIX    "sha256-"

/* The program as the box would find it: a path, or the first in PATH. */
static int program_item(struct probe *p, const struct runtime *r, const char *program,
			struct err *err)
{
	char tuple[TUPLE_TEXT] = "";
	CLEANUP_FREE char *found = NULL;

	if (strchr(program, '/')) {
		found = xstrdup(program);
		int code = probe_program(p, found, tuple, err);
		if (code < 0)
			return code;
	}
	for (const char *at = r->path ? r->path : ""; !found && *at;) {
		size_t length = strcspn(at, ":");
		CLEANUP_FREE char *path = xasprintf("%.*s/%s", (int)length, at, program);
		/* Of the working directory, where an empty or relative element leads, nothing is the runtime's. */
		int code = at[0] == '/' ? probe_program(p, path, tuple, err) : 0;
		if (code < 0)
			return code;
		if (tuple[0])
			found = take_ptr(path);
		at += length + (at[length] == ':');
	}
	if (p->items)
		items_add(p->items, "program", found ? found : program, "", "",
			  tuple[0] ? tuple : "absent");
	return 0;
}

static int program_items(struct probe *p, const struct runtime *r, struct err *err)
{
	CLEANUP_STRV struct strv seen = { 0 };

	for (size_t i = 0; i < r->n_interpreters; i++) {
		const struct strv *argv = &r->interpreters[i].argv;
		if (argv->n == 0 || strv_has(&seen, argv->v[0]))
			continue;
		strv_add(&seen, argv->v[0]);
		int code = program_item(p, r, argv->v[0], err);
		if (code < 0)
			return code;
	}
	return 0;
}

static void add_wanted(struct items *items, const struct dpkg *d)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->v[i].wanted)
			items_add(items, "dpkg", d->v[i].name, d->v[i].version,
				  d->v[i].arch ? d->v[i].arch : "", "");
}

/* What is named and all that it needs; nothing named: all that is installed. */
static int dpkg_items(struct probe *p, const struct strv *names, struct err *err)
{
	CLEANUP(dpkg_release) struct dpkg d = { 0 };
	CLEANUP_STRV struct strv absent = { 0 };
	char tuple[TUPLE_TEXT];

	int r = probe_tuple(p, DPKG_STATUS, tuple, err);
	if (r < 0 || !p->items)
		return r;
	r = dpkg_read(p->root_fd, &d, err);
	if (r < 0)
		return r;
	if (names->n > 0)
		dpkg_want(&d, names, &absent);
	else
		dpkg_want_all(&d);
	add_wanted(p->items, &d);
	for (size_t i = 0; i < absent.n; i++)
		items_add(p->items, "dpkg", absent.v[i], "", "", "absent");
	return 0;
}

static int release_items(struct probe *p, struct err *err)
{
	/* Alpine's list of packages is small and says all. */
	static const char *const files[] = { "usr/lib/os-release", "etc/os-release",
					     "lib/apk/db/installed" };
	int r = 0;

	for (size_t i = 0; r >= 0 && i < sizeof(files) / sizeof(*files); i++)
		r = probe_file(p, files[i], err);
	return r;
}

/* Which of several libraries a name stands for: numpy's results are those of the BLAS that is chosen here. Programs are found
 * through their links; which editor is preferred is nobody's matter. */
static int alternative_items(struct probe *p, struct err *err)
{
	static const char directory[] = "etc/alternatives";
	CLEANUP_STRV struct strv names = { 0 };
	char tuple[TUPLE_TEXT], target[PATH_MAX];
	int r = probe_tuple(p, directory, tuple, err);

	if (r < 0 || !tuple[0] || !p->items)
		return r;
	CLEANUP_FD int fd = fs_open_resolve(p->root_fd, directory, O_RDONLY | O_DIRECTORY, 0,
					    p->resolve | RESOLVE_NO_MAGICLINKS);
	r = fd < 0 ? err_set(err, ERR_HOST, -fd, "open '%s': %s", directory, strerrordesc_np(-fd))
		   : probe_list(p, directory, &names, err);
	for (size_t i = 0; r >= 0 && i < names.n; i++) {
		ssize_t n = str_starts(names.v[i], "lib")
				    ? readlinkat(fd, names.v[i], target, sizeof(target) - 1)
				    : -1;
		if (n < 0)
			continue;
		target[n] = '\0';
		CLEANUP_FREE char *path = xasprintf("%s/%s", directory, names.v[i]);
		items_add(p->items, "alternative", path, "", "", target);
	}
	return r;
}

int identity_system(struct probe *p, const struct runtime *r, struct err *err)
{
	int code = release_items(p, err);

	if (code >= 0)
		code = dpkg_items(p, &r->packages, err);
	if (code >= 0)
		code = program_items(p, r, err);
	if (code >= 0)
		code = alternative_items(p, err);
	/* dpkg answers for /usr/lib; this is where pip puts what it installs for all. */
	return code < 0 ? code : identity_python(p, "usr/local/lib", err);
}

int identity_rootfs(struct probe *p, const struct runtime *r, struct err *err)
{
	static const struct strv all = { 0 };
	char tuple[TUPLE_TEXT];
	int code = probe_tuple(p, ".", tuple, err);

	if (code >= 0 && p->items)
		items_add(p->items, "root", "/", "", "", tuple);
	if (code >= 0)
		code = release_items(p, err);
	if (code >= 0)
		code = dpkg_items(p, &all, err);
	if (code >= 0)
		code = program_items(p, r, err);
	if (code >= 0)
		code = alternative_items(p, err);
	if (code >= 0)
		code = identity_python(p, "usr/lib", err);
	return code < 0 ? code : identity_python(p, "usr/local/lib", err);
}

int identity_squashfs(struct probe *p, const char *path, struct err *err)
{
	char tuple[TUPLE_TEXT], block[SUPERBLOCK_SIZE], hex[HASH_HEX];
	int r = probe_tuple(p, path, tuple, err);

	if (r < 0 || !p->items)
		return r;
	CLEANUP_FD int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "open '%s'", path);
	ssize_t n = pread(fd, block, sizeof(block), 0);
	if (n < 0)
		return err_errno(err, "read '%s'", path);
	if (n < SUPERBLOCK_SIZE || memcmp(block, SQUASHFS_MAGIC, strlen(SQUASHFS_MAGIC)) != 0)
		return err_caller(err, "'%s' is neither a directory nor a squashfs file", path);
	hash_bytes(block, sizeof(block), hex);
	items_add(p->items, "root", path, "squashfs", hex, tuple);
	return 0;
}

/* The directory an image was unpacked to carries its manifest's digest in its name. */
static const char *image_digest(const char *root)
{
	for (const char *at = strstr(root, "/" IMAGE_PREFIX); at;
	     at = strstr(at + 1, "/" IMAGE_PREFIX)) {
		const char *hex = at + 1 + strlen(IMAGE_PREFIX);
		if (strspn(hex, "0123456789abcdef") == HASH_HEX - 1 &&
		    (hex[HASH_HEX - 1] == '/' || hex[HASH_HEX - 1] == '\0'))
			return hex;
	}
	return NULL;
}

int identity_image(struct probe *p, const struct runtime *r, struct err *err)
{
	const char *hex = image_digest(r->root);

	if (!hex)
		return identity_rootfs(p, r, err);
	CLEANUP_FREE char *digest = xasprintf("sha256:%.*s", HASH_HEX - 1, hex);
	hash_add(p->key, digest, strlen(digest) + 1);
	if (p->items)
		items_add(p->items, "image", "manifest", "", "", digest);
	return 0;
}

/* Identity of a conda prefix: what conda-meta says is installed, what activation reads, and what pip added. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "runtime/fingerprint_parts.h"

#define PACKAGE_MAX (64 << 20)

static const char *text_of(const json_t *package, const char *key)
{
	const char *text = json_string_value(json_object_get(package, key));

	return text ? text : "";
}

/* Where a build came from and which one it is: `url` alone may be served anew. */
static void package_digest(const json_t *package, char ret_hex[HASH_HEX])
{
	static const char *const keys[] = { "sha256", "md5", "url" };
	CLEANUP_HASH struct hash *h = hash_new();

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		const char *text = text_of(package, keys[i]);
		hash_add(h, text, strlen(text) + 1);
	}
	hash_end(h, ret_hex);
}

static int read_package(struct probe *p, const char *path, json_t **ret, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;

	CLEANUP_FD int fd = probe_open(p, path);
	int r = fd < 0 ? fd : text_read(fd, PACKAGE_MAX, &text, &length);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "read '%s': %s", path, strerrordesc_np(-r));
	return text_json(path, text, length, ret, err);
}

static int package_item(struct probe *p, const char *file, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("conda-meta/%s", file);
	CLEANUP_JSON json_t *package = NULL;
	char tuple[TUPLE_TEXT], digest[HASH_HEX];

	int r = probe_tuple(p, path, tuple, err);
	if (r < 0 || !p->items)
		return r;
	r = read_package(p, path, &package, err);
	if (r < 0)
		return r;
	const char *name = text_of(package, "name"), *build = text_of(package, "build");
	if (!*name)
		return err_caller(err, "%s: no name of a package", path);
	CLEANUP_FREE char *version =
		xasprintf("%s%s%s", text_of(package, "version"), *build ? " " : "", build);
	package_digest(package, digest);
	items_add(p->items, "conda", name, version, "", digest);
	return 0;
}

/* A directory is no script, whatever its name: activation skips it, too. */
static int file_of(struct probe *p, const char *path, struct err *err)
{
	char tuple[TUPLE_TEXT];
	struct stat st = { 0 };

	if (p->items && fstatat(p->root_fd, path, &st, AT_NO_AUTOMOUNT) == 0 && S_ISDIR(st.st_mode))
		return probe_tuple(p, path, tuple, err);
	return probe_file(p, path, err);
}

static int files_of(struct probe *p, const char *directory, const char *suffix, struct err *err)
{
	CLEANUP_STRV struct strv names = { 0 };
	int r = probe_list(p, directory, &names, err);

	for (size_t i = 0; r >= 0 && i < names.n; i++) {
		CLEANUP_FREE char *path = xasprintf("%s/%s", directory, names.v[i]);
		if (str_ends(path, suffix))
			r = file_of(p, path, err);
	}
	return r;
}

int identity_conda(struct probe *p, struct err *err)
{
	CLEANUP_STRV struct strv names = { 0 };
	int r = probe_list(p, "conda-meta", &names, err);

	if (r >= 0 && names.n == 0)
		return err_set(err, ERR_CALLER, ENOENT, "no conda-meta: this is no conda prefix");
	for (size_t i = 0; r >= 0 && i < names.n; i++)
		if (str_ends(names.v[i], ".json"))
			r = package_item(p, names.v[i], err);
	if (r >= 0)
		r = probe_file(p, "conda-meta/state", err);
	if (r >= 0)
		r = files_of(p, "etc/conda/env_vars.d", ".json", err);
	if (r >= 0)
		r = files_of(p, "etc/conda/activate.d", ".sh", err);
	return r < 0 ? r : identity_python(p, "lib", err);
}

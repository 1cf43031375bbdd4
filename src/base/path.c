/* Path names as text. */
#include "base/path.h"

#include <limits.h>
#include <string.h>

/* Appends the components of `path` to `out`, which is "" or an absolute path without a slash at
 * its end. False if ".." would climb above the root. */
static bool add_components(struct str *out, const char *path)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 2 && memcmp(path, "..", 2) == 0) {
			char *slash = out->length ? strrchr(out->text, '/') : NULL;
			if (!slash)
				return false;
			*slash = '\0';
			out->length = (size_t)(slash - out->text);
		} else if (n > 0 && !(n == 1 && path[0] == '.')) {
			str_add(out, "/");
			str_add_n(out, path, n);
		}
		path += n;
		path += strspn(path, "/");
	}
	return true;
}

char *path_normal(const char *base, const char *path)
{
	CLEANUP_STR struct str out = { 0 };

	if (!path || !*path)
		return NULL;
	if (path[0] != '/') {
		if (!base || base[0] != '/' || !add_components(&out, base))
			return NULL;
	}
	if (!add_components(&out, path))
		return NULL;
	if (out.length == 0)
		str_add(&out, "/");
	return str_take(&out);
}

char *path_join(const char *directory, const char *name)
{
	return xasprintf("%s%s%s", directory, str_ends(directory, "/") ? "" : "/", name);
}

bool path_within(const char *path, const char *ancestor)
{
	size_t n = strlen(ancestor);

	if (str_eq(ancestor, "/"))
		return path[0] == '/';
	return strncmp(path, ancestor, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

const char *path_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

char *path_parent(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return xstrdup(".");
	return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}

bool path_name_ok(const char *name)
{
	size_t n = name ? strnlen(name, NAME_MAX + 1) : 0;

	if (n == 0 || n > NAME_MAX || str_eq(name, ".") || str_eq(name, ".."))
		return false;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)name[i];
		if (c < 0x20 || c == 0x7f || c == '/')
			return false;
	}
	return true;
}

char *path_cwd(void)
{
	return getcwd(NULL, 0);
}

char *path_real(const char *path)
{
	return realpath(path, NULL);
}

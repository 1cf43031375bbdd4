/* dpkg's md5sums and lists as records, with the paths that the tree has. */
#include <string.h>

#include "runtime/fingerprint_parts.h"

static void add_path(struct records *list, const struct dpkg_paths *paths, const char *path,
		     struct record *one)
{
	if (!*path || path_left_out(path) || dpkg_excluded(paths, path))
		return;
	CLEANUP_FREE char *real = dpkg_path(paths, path, one->owner);
	one->path = arena_text(&list->arena, "", real);
	records_add(list, one);
}

/* "MD5  usr/bin/x": regular files that are no configuration. */
static void add_sum(struct records *list, const struct dpkg_paths *paths, const char *owner,
		    const char *line)
{
	struct record one = { .owner = owner, .source = RECORD_DPKG };
	size_t digits = HASH_MD5_HEX - 1;

	if (strspn(line, "0123456789abcdef") != digits || line[digits] != ' ')
		return;
	memcpy(one.hex, line, digits);
	add_path(list, paths, line + digits + strspn(line + digits, " "), &one);
}

/* "/usr/bin/x": whatever the package has; says only whose it is. */
static void add_name(struct records *list, const struct dpkg_paths *paths, const char *owner,
		     const char *line)
{
	struct record one = { .owner = owner, .source = RECORD_DPKG_LIST };

	add_path(list, paths, line + strspn(line, "/"), &one);
}

static int add_file(struct records *list, int root_fd, const struct dpkg_package *p,
		    const struct dpkg_paths *paths, struct err *err)
{
	const char *owner = arena_text(&list->arena, "", p->name);
	CLEANUP_FREE char *sums = NULL, *names = NULL;
	char *rest = NULL;

	int r = dpkg_info(root_fd, p, "md5sums", &sums, err);
	if (r >= 0)
		r = dpkg_info(root_fd, p, "list", &names, err);
	if (r < 0)
		return r;
	for (char *line = sums ? strtok_r(sums, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest))
		add_sum(list, paths, owner, line);
	for (char *line = names ? strtok_r(names, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest))
		add_name(list, paths, owner, line);
	return 0;
}

int records_dpkg(struct records *list, int root_fd, const struct dpkg *d, struct err *err)
{
	CLEANUP(dpkg_paths_release) struct dpkg_paths paths = { 0 };

	dpkg_paths_read(root_fd, &paths);
	for (size_t i = 0; i < d->n; i++) {
		int r = d->v[i].wanted ? add_file(list, root_fd, &d->v[i], &paths, err) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

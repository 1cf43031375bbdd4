/* Where dpkg really put the files of a package: diversions, links at the top of the root, and what it was told to leave out. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/openat2.h>
#include <string.h>

#include "base/fs.h"
#include "runtime/fingerprint_parts.h"

#define CONFIG_MAX     (1 << 20)
#define DIVERSIONS_MAX (8 << 20)

void dpkg_paths_release(struct dpkg_paths *p)
{
	strv_release(&p->rules);
	strv_release(&p->diversions);
	strv_release(&p->merged);
}

static char *read_in(int root_fd, const char *path, size_t max)
{
	char *text = NULL;

	CLEANUP_FD int fd = fs_open_resolve(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0,
					    RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	return fd < 0 || text_read(fd, max, &text, NULL) < 0 ? NULL : text;
}

static void add_rules(struct strv *rules, char *text)
{
	char *rest = NULL;

	for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest)) {
		line += strspn(line, " \t");
		bool out = str_starts(line, "path-exclude"), in = str_starts(line, "path-include");
		if (!out && !in)
			continue;
		line += strlen("path-exclude");
		line += strspn(line, " \t=");
		strv_addf(rules, "%c%s", out ? '-' : '+', line);
	}
}

static void read_rules(struct dpkg_paths *p, int root_fd)
{
	CLEANUP_STRV struct strv names = { 0 };
	CLEANUP_FREE char *main_text = read_in(root_fd, "etc/dpkg/dpkg.cfg", CONFIG_MAX);
	CLEANUP_FD int fd = fs_open_resolve(root_fd, "etc/dpkg/dpkg.cfg.d", O_RDONLY | O_DIRECTORY,
					    0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	CLEANUP_DIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry = NULL;

	if (dir)
		(void)take_fd(&fd);
	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			strv_add(&names, entry->d_name);
	strv_sort(&names);
	for (size_t i = 0; i < names.n; i++) {
		CLEANUP_FREE char *path = xasprintf("etc/dpkg/dpkg.cfg.d/%s", names.v[i]);
		CLEANUP_FREE char *text = read_in(root_fd, path, CONFIG_MAX);
		add_rules(&p->rules, text);
	}
	add_rules(&p->rules, main_text);
}

static void read_diversions(struct dpkg_paths *p, int root_fd)
{
	CLEANUP_FREE char *text = read_in(root_fd, "var/lib/dpkg/diversions", DIVERSIONS_MAX);
	char *rest = NULL;

	for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line;
	     line = strtok_r(NULL, "\n", &rest))
		strv_add(&p->diversions, line);
}

/* Packages say /bin/x where /bin is a link to usr/bin; a walk finds it at usr/bin/x. */
static void read_merged(struct dpkg_paths *p, int root_fd)
{
	static const char *const names[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };
	char target[256];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		ssize_t n = readlinkat(root_fd, names[i], target, sizeof(target) - 1);
		if (n <= 0)
			continue;
		target[n] = '\0';
		strv_addf(&p->merged, "%s=%s", names[i], target + strspn(target, "/"));
	}
}

bool dpkg_excluded(const struct dpkg_paths *p, const char *path)
{
	const struct strv *rules = &p->rules;
	CLEANUP_FREE char *absolute = xasprintf("/%s", path);

	for (size_t i = rules->n; i > 0; i--)
		if (fnmatch(rules->v[i - 1] + 1, absolute, 0) == 0)
			return rules->v[i - 1][0] == '-';
	return false;
}

static const char *diverted(const struct strv *d, const char *path, const char *package)
{
	for (size_t i = 0; i + 2 < d->n; i += 3)
		if (d->v[i][0] == '/' && str_eq(d->v[i] + 1, path) &&
		    !str_eq(d->v[i + 2], package) && d->v[i + 1][0] == '/')
			return d->v[i + 1] + 1;
	return path;
}

char *dpkg_path(const struct dpkg_paths *p, const char *path, const char *package)
{
	path = diverted(&p->diversions, path, package);
	for (size_t i = 0; i < p->merged.n; i++) {
		const char *equals = strchr(p->merged.v[i], '=');
		size_t length = (size_t)(equals - p->merged.v[i]);
		if (strncmp(path, p->merged.v[i], length) == 0 && path[length] == '/')
			return xasprintf("%s%s", equals + 1, path + length);
	}
	return xstrdup(path);
}

void dpkg_paths_read(int root_fd, struct dpkg_paths *ret)
{
	read_rules(ret, root_fd);
	read_diversions(ret, root_fd);
	read_merged(ret, root_fd);
}

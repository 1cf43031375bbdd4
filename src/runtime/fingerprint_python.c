/* What Python's installers left: dist-info directories, path files, and a virtual environment's base interpreter. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>

#include "base/fs.h"
#include "base/path.h"
#include "runtime/fingerprint_parts.h"

#define CONFIG_MAX 65536

bool dist_info_split(const char *entry, char **ret_name, char **ret_version)
{
	const char *end = str_ends(entry, ".dist-info") || str_ends(entry, ".egg-info")
				  ? strrchr(entry, '.')
				  : NULL;
	if (!end || end == entry)
		return false;
	/* Names have no '-' in this form; an egg's version may be followed by "-py3.11". */
	const char *dash = memchr(entry, '-', (size_t)(end - entry));
	*ret_name = xstrndup(entry, (size_t)((dash ? dash : end) - entry));
	*ret_version = dash ? xstrndup(dash + 1, (size_t)(end - dash - 1)) : xstrdup("");
	return true;
}

/* RECORD names every file with its digest; what lacks one is known by its description. */
static int dist_digest(struct probe *p, const char *dist, char ret_hex[HASH_HEX], struct err *err)
{
	static const char *const names[] = { "RECORD", "METADATA", "PKG-INFO", "direct_url.json" };
	CLEANUP_HASH struct hash *h = hash_new();
	char hex[HASH_HEX];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		CLEANUP_FREE char *path = xasprintf("%s/%s", dist, names[i]);
		int r = probe_digest(p, path, hex, err);
		if (r < 0)
			return r;
		hash_add(h, hex, strlen(hex) + 1);
		if (i == 0 && hex[0])
			i = 2; /* METADATA is among what RECORD names */
	}
	hash_end(h, ret_hex);
	return 0;
}

static int dist_item(struct probe *p, const char *site, const char *entry, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/%s", site, entry), *name = NULL, *version = NULL;
	char hex[HASH_HEX], tuple[TUPLE_TEXT];

	if (!dist_info_split(entry, &name, &version))
		return 0;
	int r = dist_digest(p, path, hex, err);
	/* An egg-info may be a plain file. */
	if (r >= 0 && str_ends(entry, ".egg-info"))
		r = probe_tuple(p, path, tuple, err);
	if (r >= 0 && p->items)
		items_add(p->items, "python", name, version, site, hex);
	return r;
}

static int site_items(struct probe *p, const char *site, struct err *err)
{
	CLEANUP_STRV struct strv names = { 0 };
	int r = probe_list(p, site, &names, err);

	for (size_t i = 0; r >= 0 && i < names.n; i++) {
		CLEANUP_FREE char *path = xasprintf("%s/%s", site, names.v[i]);
		/* Path files are run at every start, and can put anything in front. */
		if (str_ends(names.v[i], ".pth") || str_ends(names.v[i], ".egg-link"))
			r = probe_file(p, path, err);
		else
			r = dist_item(p, site, names.v[i], err);
	}
	return r;
}

int python_sites(struct probe *p, const char *lib, struct strv *ret, struct err *err)
{
	static const char *const kinds[] = { "site-packages", "dist-packages" };
	CLEANUP_STRV struct strv names = { 0 };
	char tuple[TUPLE_TEXT];
	int r = probe_list(p, lib, &names, err);

	for (size_t i = 0; r >= 0 && i < names.n; i++) {
		if (!str_starts(names.v[i], "python") && !str_starts(names.v[i], "pypy"))
			continue;
		for (size_t k = 0; r >= 0 && k < sizeof(kinds) / sizeof(*kinds); k++) {
			CLEANUP_FREE char *site = xasprintf("%s/%s/%s", lib, names.v[i], kinds[k]);
			r = probe_tuple(p, site, tuple, err);
			if (r >= 0 && tuple[0])
				strv_add(ret, site);
		}
	}
	return r;
}

int identity_python(struct probe *p, const char *lib, struct err *err)
{
	CLEANUP_STRV struct strv sites = { 0 };
	int r = python_sites(p, lib, &sites, err);

	for (size_t i = 0; r >= 0 && i < sites.n; i++)
		r = site_items(p, sites.v[i], err);
	return r;
}

/* "key = value" of pyvenv.cfg, owned; NULL if it is not said. */
static char *config_value(const char *text, const char *key)
{
	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += strspn(line, "\n \t");
		size_t length = strcspn(line, " \t=\n");
		if (length != strlen(key) || strncasecmp(line, key, length) != 0)
			continue;
		const char *value = line + length + strspn(line + length, " \t");
		if (*value != '=')
			continue;
		value += 1 + strspn(value + 1, " \t");
		length = strcspn(value, "\r\n");
		while (length > 0 && (value[length - 1] == ' ' || value[length - 1] == '\t'))
			length--;
		return xstrndup(value, length);
	}
	return NULL;
}

static int read_config(const struct probe *p, char **ret, struct err *err)
{
	CLEANUP_FD int fd = probe_open(p, "pyvenv.cfg");
	int r = fd < 0 ? fd : text_read(fd, CONFIG_MAX, ret, NULL);

	if (r < 0)
		return err_set(err, ERR_CALLER, -r,
			       "pyvenv.cfg: %s; this is no virtual environment",
			       strerrordesc_np(-r));
	return 0;
}

/* Where the environment also shows what its base has installed. */
static int base_items(struct probe *p, const char *home, struct err *err)
{
	CLEANUP_FREE char *base = path_parent(home);
	CLEANUP(probe_release)
	struct probe b = {
		.root_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH,
		.key = p->key,
		.items = p->items,
	};

	if (b.root_fd < 0)
		return err_errno(err, "open '%s', the base of the virtual environment", base);
	int r = identity_python(&b, "lib", err);
	if (r >= 0)
		r = identity_python(&b, "local/lib", err);
	if (b.newest_ctime_ns > p->newest_ctime_ns)
		p->newest_ctime_ns = b.newest_ctime_ns;
	return r;
}

static int base_interpreter(struct probe *p, const char *prefix, const char *config,
			    struct err *err)
{
	CLEANUP_FREE char *program = path_join(prefix, "bin/python");
	CLEANUP_FREE char *real = path_real(program), *version = config_value(config, "version");
	char tuple[TUPLE_TEXT];

	if (!real)
		return err_set(err, ERR_CALLER, ENOENT,
			       "'%s' leads to no interpreter: Python was upgraded or removed; make "
			       "the virtual environment again",
			       program);
	if (!version)
		version = config_value(config, "version_info");
	int r = probe_program(p, real, tuple, err);
	if (r >= 0 && p->items)
		items_add(p->items, "program", real, version ? version : "", "", tuple);
	return r;
}

int identity_venv(struct probe *p, const char *prefix, struct err *err)
{
	CLEANUP_FREE char *config = NULL;
	int r = read_config(p, &config, err);

	if (r >= 0)
		r = probe_file(p, "pyvenv.cfg", err);
	if (r >= 0)
		r = base_interpreter(p, prefix, config, err);
	if (r >= 0)
		r = identity_python(p, "lib", err);
	if (r < 0)
		return r;
	CLEANUP_FREE char *shows = config_value(config, "include-system-site-packages");
	CLEANUP_FREE char *home = config_value(config, "home");
	bool base = shows && strcasecmp(shows, "true") == 0 && home && home[0] == '/';
	return base ? base_items(p, home, err) : 0;
}

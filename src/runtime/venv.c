/* A Python virtual environment: its own packages, and the interpreter of the prefix that it was made with. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/path.h"
#include "runtime/kinds.h"

#define CFG_MAX 65536

/* `home = DIRECTORY` of pyvenv.cfg: where the interpreter is that made it. */
static char *venv_home(const char *prefix, struct err *err)
{
	CLEANUP_FREE char *path = path_join(prefix, "pyvenv.cfg");
	CLEANUP_FREE char *text = NULL;
	if (fs_read_capped(AT_FDCWD, path, CFG_MAX, &text, NULL, err) < 0)
		return NULL;
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		const char *value = line + strspn(line, " \t");
		if (strncmp(value, "home", 4) != 0)
			continue;
		value += 4 + strspn(value + 4, " \t");
		if (*value != '=')
			continue;
		value += 1 + strspn(value + 1, " \t");
		CLEANUP_FREE char *home = xstrndup(value, strcspn(value, "\r\n"));
		if (home[0] == '/')
			return path_normal("/", home);
	}
	(void)err_set(err, ERR_HOST, EINVAL, "%s does not say 'home = DIRECTORY'", path);
	return NULL;
}

/* The standard library, by which Python itself knows its prefix. */
static bool has_library(const char *base)
{
	static const char *const places[] = { "lib", "lib64" };
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		CLEANUP_FREE char *directory = path_join(base, places[i]);
		CLEANUP_DIR DIR *dir = opendir(directory);
		for (struct dirent *entry; dir && (entry = readdir(dir));) {
			CLEANUP_FREE char *file =
				xasprintf("%s/%s/os.py", directory, entry->d_name);
			if (entry->d_name[0] == 'p' && access(file, F_OK) == 0)
				return true;
		}
	}
	return false;
}

/* What pyvenv.cfg names; it is the runtime's word, not that of the entry. */
static char *named_base(const char *prefix)
{
	CLEANUP_FREE char *home = venv_home(prefix, NULL);
	CLEANUP_FREE char *real = home ? path_real(home) : NULL;
	/* /bin is a link to /usr/bin: its parent would be everything. */
	if (!home || (real && path_within(real, "/usr")))
		return NULL;
	char *base = str_eq(path_base(home), "bin") ? path_parent(home) : xstrdup(home);
	if (str_eq(base, "/")) {
		free(base);
		return NULL;
	}
	return base;
}

char *venv_base(const char *prefix)
{
	CLEANUP_FREE char *base = named_base(prefix);
	return base && has_library(base) ? take_ptr(base) : NULL;
}

static bool is_shown(const struct runtime *r, const char *path)
{
	for (size_t i = 0; i < r->shown.n; i++)
		if (path_within(path, r->shown.v[i].key))
			return true;
	return false;
}

int venv_open(const struct config *config, struct runtime *r, struct err *err)
{
	CLEANUP_FREE char *home = venv_home(r->prefix, err);
	CLEANUP_FREE char *python = path_join(r->prefix, "bin/python");
	if (!home)
		return err_wrap(err, "its prefix %s is not a virtual environment", r->prefix);
	if (access(python, X_OK) < 0)
		return err_set(
			err, ERR_HOST, errno,
			"%s: %s: the interpreter in %s, which made it, is gone or another. Remedy: make the environment anew",
			python, strerrordesc_np(errno), home);
	CLEANUP_FREE char *base = named_base(r->prefix);
	if (base && !is_shown(r, base))
		return err_set(
			err, ERR_HOST, EINVAL,
			"%s/pyvenv.cfg names %s, where no Python is (lib/python*/os.py). Remedy: make the environment anew, "
			"or show that place by the entry's own 'read_only'",
			r->prefix, home);
	return 0;
}

/* A Python virtual environment: its own packages, and the interpreter of the prefix that it was made with. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

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

char *venv_base(const char *prefix)
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
	return 0;
}

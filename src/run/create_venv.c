/* A venv by Python's own module, filled by its own pip. */
#include <dirent.h>
#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "run/create_parts.h"

static int make(struct creation *c, struct err *err)
{
	CLEANUP_TOOL struct tool t = { .phase = "make the environment" };
	/* The host's own by default: what a box shows of the host has it, whatever is first on the caller's PATH. */
	const char *host = access("/usr/bin/python3", X_OK) == 0 ? "/usr/bin/python3" : "python3";
	const char *python = c->q->python ? c->q->python : host;
	char *program = tool_find(python);
	if (!program)
		return err_set(
			err, ERR_CALLER, ENOENT,
			"there is no program '%s'; name another with --python, or install it: apt-get install python3 python3-venv",
			python);
	strv_take(&t.argv, program);
	/* -I: nothing of the caller's directories and variables takes part. */
	strv_add(&t.argv, "-I");
	strv_add(&t.argv, "-m");
	strv_add(&t.argv, "venv");
	if (c->q->system_site_packages)
		strv_add(&t.argv, "--system-site-packages");
	strv_add(&t.argv, c->place);
	int r = tool_run(c, &t, err);
	return r < 0 && r != -ECANCELED
		       ? err_wrap(err,
				  "a venv needs Python's venv and ensurepip (Debian: python3-venv)")
		       : r;
}

/* Every wheel of the directory, in an order of its own. */
static int add_wheels(const char *directory, struct strv *argv, struct err *err)
{
	CLEANUP_STRV struct strv names = { 0 };
	CLEANUP_DIR DIR *dir = opendir(directory);
	if (!dir)
		return err_set(err, ERR_CALLER, errno, "open %s: %s", directory,
			       strerrordesc_np(errno));
	for (const struct dirent *entry; (entry = readdir(dir));)
		if (str_ends(entry->d_name, ".whl") && entry->d_name[0] != '.')
			strv_addf(&names, "%s/%s", directory, entry->d_name);
	if (names.n == 0)
		return err_set(err, ERR_CALLER, ENOENT, "%s has no wheels (*.whl)", directory);
	strv_sort(&names);
	strv_copy(argv, &names);
	return 0;
}

static int install(struct creation *c, struct err *err)
{
	CLEANUP_TOOL struct tool t = { .phase = "install packages" };
	CLEANUP_FREE char *cwd = path_cwd();
	CLEANUP_FREE char *wheels = c->q->wheels ? path_normal(cwd, c->q->wheels) : NULL;
	CLEANUP_FREE char *file = c->q->requirements ? path_normal(cwd, c->q->requirements) : NULL;
	static const char *const head[] = { "-I", "-m", "pip", "--no-input", "install" };
	strv_addf(&t.argv, "%s/bin/python", c->place);
	for (size_t i = 0; i < sizeof(head) / sizeof(head[0]); i++)
		strv_add(&t.argv, head[i]);
	if (wheels) { /* no index: what is not there is an error, not a download */
		strv_add(&t.argv, "--no-index");
		strv_addf(&t.argv, "--find-links=%s", wheels);
	}
	int r = 0;
	if (file) {
		strv_add(&t.argv, "-r");
		strv_add(&t.argv, file);
	} else {
		r = add_wheels(wheels, &t.argv, err);
	}
	return r < 0 ? r : tool_run(c, &t, err);
}

int create_venv(struct creation *c, struct err *err)
{
	CLEANUP_FREE char *config = NULL;
	c->place = xasprintf("%s/env", c->dir);
	int r = make(c, err);
	if (r >= 0 && (c->q->requirements || c->q->wheels))
		r = install(c, err);
	if (r < 0)
		return r;
	config = xasprintf("%s/pyvenv.cfg", c->place);
	return access(config, F_OK) < 0 ? err_errno(err, "%s was not made", config) : 0;
}

/* The runtimes there are, and how each calls a script. */
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/path.h"

struct interpreter_row {
	const char *extension;
	const char *program;
	const char *package;
};

static const struct interpreter_row system_interpreters[] = {
	{ ".py", "/usr/bin/python3", "python3" },    { ".R", "/usr/bin/Rscript", "r-base-core" },
	{ ".r", "/usr/bin/Rscript", "r-base-core" }, { ".sh", "/bin/bash", "bash" },
	{ ".pl", "/usr/bin/perl", "perl" },          { ".jl", "/usr/bin/julia", "julia" },
	{ ".awk", "/usr/bin/awk", "mawk" },
};

/* PRETTY_NAME of os-release, so that a record says which system a `base` run saw. */
static char *system_version(void)
{
	CLEANUP_FREE char *text = NULL;
	if (fs_read_capped(AT_FDCWD, "/usr/lib/os-release", 65536, &text, NULL, NULL) < 0)
		return xstrdup("unknown");
	const char *key = "PRETTY_NAME=\"";
	const char *start = strstr(text, key);
	if (!start)
		return xstrdup("unknown");
	start += strlen(key);
	return xstrndup(start, strcspn(start, "\"\n"));
}

static void runtime_system(struct runtime *ret)
{
	size_t n = sizeof system_interpreters / sizeof *system_interpreters;
	*ret = (struct runtime){
		.name = xstrdup("base"),
		.kind = xstrdup("system"),
		.version = system_version(),
		.path = xstrdup("/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"),
		.interpreters = xcalloc(n, sizeof(struct interpreter)),
		.n_interpreters = n,
	};
	pairs_set(&ret->env, "PYTHONUNBUFFERED", "1"); /* or a log would be seen only at the end */
	for (size_t i = 0; i < n; i++)
		ret->interpreters[i] = (struct interpreter){
			.extension = xstrdup(system_interpreters[i].extension),
			.program = xstrdup(system_interpreters[i].program),
			.package = xstrdup(system_interpreters[i].package),
		};
}

int runtime_find(const char *name, struct runtime *ret, struct err *err)
{
	if (!str_eq(name, "base"))
		return err_set(
			err, ERR_CALLER, ENOENT,
			"there is no runtime '%s'; this host has: base (the host's own /usr)",
			name);
	runtime_system(ret);
	return 0;
}

void runtime_release(struct runtime *r)
{
	for (size_t i = 0; i < r->n_interpreters; i++) {
		free(r->interpreters[i].extension);
		free(r->interpreters[i].program);
		free(r->interpreters[i].package);
	}
	free(r->interpreters);
	free(r->name);
	free(r->kind);
	free(r->version);
	free(r->path);
	pairs_release(&r->env);
	*r = (struct runtime){ 0 };
}

static const struct interpreter *interpreter_for(const struct runtime *r, const char *script)
{
	for (size_t i = 0; i < r->n_interpreters; i++)
		if (str_ends(script, r->interpreters[i].extension))
			return &r->interpreters[i];
	return NULL;
}

static int script_argv(const struct runtime *r, const struct analysis *a, const char *script_path,
		       struct strv *ret, struct err *err)
{
	const char *script = a->code.v[0];
	const struct interpreter *i = interpreter_for(r, script);
	struct stat st;
	if (stat(script, &st) < 0)
		return err_set(err, ERR_CALLER, errno, "the script %s: %s", script,
			       strerrordesc_np(errno));
	if (!S_ISREG(st.st_mode))
		return err_caller(err, "the script %s is not a regular file", script);
	if (i && access(i->program, X_OK) < 0)
		return err_set(err, ERR_CALLER, ENOENT,
			       "runtime '%s' has no %s to run %s; install it: apt-get install %s",
			       r->name, i->program, script, i->package);
	if (!i && !(st.st_mode & 0111))
		return err_caller(
			err,
			"%s: no interpreter is known for this ending and it is not executable; "
			"name one: cupel run -- INTERPRETER ..., or chmod +x it",
			script);
	if (i)
		strv_add(ret, i->program);
	strv_add(ret, script_path);
	strv_copy(ret, &a->args);
	return 0;
}

int runtime_argv(const struct runtime *r, const struct analysis *a, const char *script_path,
		 struct strv *ret, struct err *err)
{
	if (a->command.n) {
		strv_copy(ret, &a->command);
		return 0;
	}
	return script_argv(r, a, script_path, ret, err);
}

/* The host's own /usr, and how each kind of runtime calls a script. */
#include <fcntl.h>
#include <string.h>

#include "base/fs.h"
#include "base/path.h"
#include "runtime/kinds.h"

static const struct {
	const char *extension;
	const char *language;
	const char *on_host; /* where Debian has it */
	const char *program; /* what it is called elsewhere */
	const char *package;
} scripts[] = {
	{ ".py", "python", "/usr/bin/python3", "python3", "python3" },
	{ ".R", "r", "/usr/bin/Rscript", "Rscript", "r-base-core" },
	{ ".r", "r", "/usr/bin/Rscript", "Rscript", "r-base-core" },
	{ ".sh", "bash", "/bin/bash", "bash", "bash" },
	{ ".pl", "perl", "/usr/bin/perl", "perl", "perl" },
	{ ".jl", "julia", "/usr/bin/julia", "julia", "julia" },
	{ ".awk", "awk", "/usr/bin/awk", "awk", "mawk" },
};
#define N_SCRIPTS (sizeof scripts / sizeof *scripts)

/* PRETTY_NAME of os-release, so that a record says which system a run saw. */
char *system_version(void)
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

const char *extension_language(const char *extension)
{
	for (size_t i = 0; i < N_SCRIPTS; i++)
		if (str_eq(scripts[i].extension, extension))
			return scripts[i].language;
	return NULL;
}

size_t language_extensions(const char *language, const char *ret[2])
{
	size_t n = 0;
	for (size_t i = 0; i < N_SCRIPTS && n < 2; i++)
		if (str_eq(scripts[i].language, language))
			ret[n++] = scripts[i].extension;
	return n;
}

void interpreter_add(struct runtime *r, const char *extension, const struct strv *argv,
		     const char *package)
{
	const char *language = extension_language(extension);
	for (size_t i = 0; i < r->n_interpreters; i++)
		if (str_eq(r->interpreters[i].extension, extension))
			return;
	r->interpreters =
		xreallocarray(r->interpreters, r->n_interpreters + 1, sizeof *r->interpreters);
	struct interpreter *i = &r->interpreters[r->n_interpreters++];
	*i = (struct interpreter){ .extension = xstrdup(extension),
				   .language = language ? xstrdup(language) : NULL,
				   .package = package ? xstrdup(package) : NULL };
	strv_copy(&i->argv, argv);
}

void interpreters_complete(struct runtime *r)
{
	bool has_prefix = r->kind == RUNTIME_CONDA || r->kind == RUNTIME_VENV;
	size_t said = r->n_interpreters;
	for (size_t i = 0; i < N_SCRIPTS; i++) {
		CLEANUP_STRV struct strv argv = { 0 };
		bool on_host = r->kind == RUNTIME_SYSTEM;
		/* The host's python3 would be found too, and be the wrong one. */
		if (has_prefix && str_eq(scripts[i].language, "python"))
			strv_take(&argv, path_join(r->prefix, "bin/python"));
		else
			strv_add(&argv, on_host ? scripts[i].on_host : scripts[i].program);
		interpreter_add(r, scripts[i].extension, &argv,
				on_host ? scripts[i].package : NULL);
	}
	for (size_t i = said; i < r->n_interpreters; i++) {
		struct interpreter *added = &r->interpreters[i];
		added->by_default = r->kind != RUNTIME_VENV || !str_eq(added->extension, ".py");
	}
}

void runtime_system(const struct config *config, struct runtime *ret)
{
	struct runtime r = {
		.name = xstrdup("base"),
		.kind = RUNTIME_SYSTEM,
		.version = system_version(),
		.summary = xstrdup("the host's own /usr"),
		.path = xstrdup(RUNTIME_PATH),
		.lock = xasprintf("%s/runtimes/base/base.lock", config->home),
		.origin = xstrdup("built-in"),
	};
	pairs_set(&r.env, "PYTHONUNBUFFERED", "1"); /* or a log would be seen only at the end */
	interpreters_complete(&r);
	*ret = r;
}

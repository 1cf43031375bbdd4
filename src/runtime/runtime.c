/* A runtime as a value, and how it calls a script. */
#include "runtime/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"
#include "runtime/driver.h"
#include "runtime/rootfs.h"

const char *const runtime_kind_names[] = { [RUNTIME_SYSTEM] = "system",
					   [RUNTIME_CONDA] = "conda",
					   [RUNTIME_VENV] = "venv",
					   [RUNTIME_ROOTFS] = "rootfs",
					   [RUNTIME_IMAGE] = "image" };

static void interpreter_release(struct interpreter *i)
{
	free(i->extension);
	free(i->language);
	strv_release(&i->argv);
	free(i->package);
}

static void check_release(struct runtime_check *c)
{
	free(c->name);
	strv_release(&c->command);
	free(c->expect);
}

void runtime_release(struct runtime *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n_interpreters; i++)
		interpreter_release(&r->interpreters[i]);
	for (size_t i = 0; i < r->n_checks; i++)
		check_release(&r->checks[i]);
	free(r->interpreters);
	free(r->checks);
	char *const texts[] = { r->name, r->version, r->summary, r->prefix, r->root,
				r->path, r->lock,    r->origin,  r->digest, r->executor };
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		free(texts[i]);
	struct strv *const lists[] = { &r->read_only, &r->devices, &r->packages,
				       &r->provides,  &r->unset,   &r->activated };
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		strv_release(lists[i]);
	pairs_release(&r->env);
	pairs_release(&r->shown);
	rootfs_free(r->tree);
	*r = (struct runtime){ 0 };
}

static bool has_file(const struct runtime *r, const char *path)
{
	return r->tree ? rootfs_has_program(r->tree, path) : access(path, X_OK) == 0;
}

bool runtime_has(const struct runtime *r, const char *program)
{
	if (program[0] == '/')
		return has_file(r, program);
	if (strchr(program, '/'))
		return true; /* in the working directory, which is not there yet */
	for (const char *at = r->path; *at;) {
		size_t n = strcspn(at, ":");
		CLEANUP_FREE char *path = xasprintf("%.*s/%s", (int)n, at, program);
		/* An empty or relative element is in the working directory, not in the runtime. */
		if (at[0] == '/' && has_file(r, path))
			return true;
		at += n + (at[n] == ':');
	}
	return false;
}

static const struct interpreter *interpreter_for(const struct runtime *r, const char *script)
{
	for (size_t i = 0; i < r->n_interpreters; i++)
		if (str_ends(script, r->interpreters[i].extension))
			return &r->interpreters[i];
	return NULL;
}

static int no_interpreter(const struct runtime *r, const struct interpreter *i, const char *script,
			  struct err *err)
{
	if (i->package)
		return err_set(err, ERR_CALLER, ENOENT,
			       "runtime '%s' has no %s to run %s; install it: apt-get install %s",
			       r->name, i->argv.v[0], script, i->package);
	return err_set(
		err, ERR_CALLER, ENOENT,
		"runtime '%s' has no %s to run %s; install it there, choose another runtime with -r, or name another program "
		"under 'interpreters' (%s)",
		r->name, i->argv.v[0], script, r->origin ? r->origin : "its entry");
}

/* By its own Python, where the entry names nothing else for notebooks. */
static int notebook_argv(const struct runtime *r, const struct analysis *a, const char *script_path,
			 struct strv *ret, struct err *err)
{
	const struct interpreter *python = interpreter_for(r, ".py");
	if (!python || !runtime_has(r, python->argv.v[0]))
		return err_set(
			err, ERR_CALLER, ENOENT,
			"runtime '%s' has no Python to run the notebook %s; choose another runtime with -r",
			r->name, a->code.v[0]);
	strv_copy(ret, &python->argv);
	strv_add(ret, DRIVER_DIR);
	strv_add(ret, script_path);
	strv_copy(ret, &a->args);
	return 0;
}

int runtime_script_odd(const char *script, mode_t mode, struct err *err)
{
	CLEANUP_FREE char *word = str_shell(script);
	if (S_ISDIR(mode))
		return err_set(
			err, ERR_CALLER, EISDIR,
			"%s is a directory, not a script; name a script in it, or show it to a command: cupel run --data %s -- COMMAND",
			script, word);
	return err_caller(err, "the script %s is not a regular file; copy it into one", script);
}

/* Languages whose files are no scripts. */
static const struct compiled {
	const char *extension, *name, *compiler;
} compiled_languages[] = {
	{ ".c", "C", "cc" },
	{ ".cc", "C++", "c++" },
	{ ".cpp", "C++", "c++" },
	{ ".cxx", "C++", "c++" },
	{ ".f", "Fortran", "gfortran" },
	{ ".f90", "Fortran", "gfortran" },
	{ ".f95", "Fortran", "gfortran" },
	{ ".rs", "Rust", "rustc" },
};

static const struct compiled *compiled_language(const char *script)
{
	for (size_t i = 0; i < sizeof compiled_languages / sizeof *compiled_languages; i++)
		if (str_ends(script, compiled_languages[i].extension))
			return &compiled_languages[i];
	return NULL;
}

static int must_compile(const struct compiled *c, const char *script, struct err *err)
{
	CLEANUP_FREE char *word = str_shell(script);
	return err_caller(
		err,
		"%s is %s source code, which must be compiled; compile it and run the program, or do both in the box: "
		"cupel run --data %s:source%s -- sh -c '%s data/source%s -o program && ./program'",
		script, c->name, word, c->extension, c->compiler, c->extension);
}

static int nothing_runs_it(const struct runtime *r, const char *script, struct err *err)
{
	CLEANUP_STR struct str known = { 0 };
	CLEANUP_FREE char *word = str_shell(script);
	CLEANUP_FREE char *base = str_shell(path_base(script));
	for (size_t i = 0; i < r->n_interpreters; i++)
		str_addf(&known, "%s%s", i ? ", " : "", r->interpreters[i].extension);
	return err_caller(
		err,
		"nothing says which program runs %s: the runtime '%s' has none for its ending (it knows %.200s), and the file is not "
		"executable; begin it with a line such as #!/bin/sh and chmod +x %s, or name the program: "
		"cupel run --data %s -- PROGRAM data/%s",
		script, r->name, known.length ? known.text : "no endings", word, word, base);
}

static int script_argv(const struct runtime *r, const struct analysis *a, const char *script_path,
		       struct strv *ret, struct err *err)
{
	const char *script = a->code.v[0];
	const struct interpreter *i = interpreter_for(r, script);
	struct stat st = { 0 };
	if (stat(script, &st) < 0)
		return err_set(err, ERR_CALLER, errno, "the script %s: %s", script,
			       strerrordesc_np(errno));
	if (!S_ISREG(st.st_mode))
		return runtime_script_odd(script, st.st_mode, err);
	if (i && !runtime_has(r, i->argv.v[0]))
		return no_interpreter(r, i, script, err);
	if (!i && driver_runs(r, a))
		return notebook_argv(r, a, script_path, ret, err);
	const struct compiled *language = i ? NULL : compiled_language(script);
	if (language)
		return must_compile(language, script, err);
	if (!i && !(st.st_mode & 0111))
		return nothing_runs_it(r, script, err);
	if (i)
		strv_copy(ret, &i->argv);
	strv_add(ret, script_path);
	strv_copy(ret, &a->args);
	return 0;
}

/* Before it is open nothing is known of a tree. */
static bool is_known(const struct runtime *r)
{
	return r->tree || (r->kind != RUNTIME_ROOTFS && r->kind != RUNTIME_IMAGE);
}

int runtime_shell(const struct runtime *r, const struct analysis *a, struct strv *ret,
		  struct err *err)
{
	/* By its place where it is usual: what an analysis does to PATH is its own affair. */
	static const char *const bash[] = { "/bin/bash", "/usr/bin/bash", "bash" };
	if (a->shell.n) {
		if (is_known(r) && !runtime_has(r, a->shell.v[0]))
			return err_set(
				err, ERR_CALLER, ENOENT,
				"shell: runtime '%s' has no %.200s; install it there, choose another runtime, or name another "
				"shell",
				r->name, a->shell.v[0]);
		strv_copy(ret, &a->shell);
		return 0;
	}
	for (size_t i = 0; i < sizeof bash / sizeof *bash; i++)
		if (runtime_has(r, bash[i])) {
			strv_add(ret, bash[i]);
			strv_add(ret, "-euo");
			strv_add(ret, "pipefail");
			strv_add(ret, "-c");
			return 0;
		}
	strv_add(ret, "/bin/sh");
	strv_add(ret, "-eu");
	strv_add(ret, "-c");
	return 0;
}

int runtime_argv(const struct runtime *r, const struct analysis *a, const char *script_path,
		 struct strv *ret, struct err *err)
{
	if (a->command.n) {
		int e = a->command_is_text ? runtime_shell(r, a, ret, err) : 0;
		strv_copy(ret, &a->command);
		return e;
	}
	return script_argv(r, a, script_path, ret, err);
}

/* Between the files that know a kind; nobody else includes it. */
#pragma once

#include "runtime/runtime.h"

#define RUNTIME_PATH "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

/* system.c */
char *system_version(void);
/* Adds an interpreter unless one is said for that extension; `argv` is copied. */
void interpreter_add(struct runtime *r, const char *extension, const struct strv *argv,
		     const char *package);
/* The language of an extension, or NULL; and the extensions of a language, at most two, each NULL if there is none. */
const char *extension_language(const char *extension);
size_t language_extensions(const char *language, const char *ret[2]);
/* What each kind calls a script's interpreter, for the extensions that its entry does not mention. */
void interpreters_complete(struct runtime *r);

/* settle.c: after parsing, what depends on this host: links resolved, what is shown, PATH. What is missing is left for runtime_open to
 * tell. */
void runtime_settle(struct runtime *r);
/* venv.c: the prefix of the interpreter that a venv was made with, as pyvenv.cfg says; NULL if that can't be told, or is no Python's:
 * nothing else of the host is shown on its word. Owned. */
char *venv_base(const char *prefix);

/* One a kind; see runtime_open. */
int conda_open(const struct config *config, struct runtime *r, struct err *err);
int venv_open(const struct config *config, struct runtime *r, struct err *err);
int rootfs_open(const struct config *config, struct runtime *r, struct err *err);
int image_open(const struct config *config, struct runtime *r, struct err *err);

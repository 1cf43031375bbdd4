/* What an analysis runs in: a named environment, as its catalog entry says it. The catalog (catalog.h) reads them, select.h says which
 * one an analysis gets and why, fingerprint.h what state it is in. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "spec/analysis.h"
#include "spec/config.h"
#include "spec/limits.h"

enum runtime_kind {
	RUNTIME_SYSTEM, /* the host's own /usr */
	RUNTIME_CONDA, /* a prefix made by conda, mamba, micromamba or pixi, over the host's /usr */
	RUNTIME_VENV, /* a Python virtual environment, over the host's /usr and its base interpreter's prefix */
	RUNTIME_ROOTFS, /* a directory tree or a squashfs file that replaces the host's /usr */
	RUNTIME_IMAGE,  /* an OCI image, unpacked once by digest; then like a directory rootfs */
	RUNTIME_KIND_COUNT_
};
extern const char *const runtime_kind_names[];

/* A script's file-name ending and the program that runs it. */
struct interpreter {
	char *extension; /* owned; ".py" */
	char *language;  /* owned or NULL; "python" */
	struct strv
		argv; /* program first: absolute as seen in the box, or found in PATH; then its own arguments */
	char *package;   /* owned or NULL; what to install where the program is absent */
	bool by_default; /* the entry does not name it, so it may as well be absent */
};

enum runtime_check_kind {
	CHECK_IMPORT, /* a Python module (with the runtime's interpreter for .py) or an R package can be loaded */
	CHECK_VERSION, /* the command's output holds a version at least `expect` */
	CHECK_RUN, /* the command ends with 0 and, if `expect` is said, prints output with that SHA-256 or exactly that text */
	CHECK_KIND_COUNT_
};
struct runtime_check {
	char *name; /* owned */
	enum runtime_check_kind kind;
	struct strv command; /* CHECK_IMPORT: language and module */
	char *expect;        /* owned or NULL; "sha256:HEX" or a text */
};

struct runtime {
	char *name;    /* owned; like an id */
	char *version; /* owned; of the entry; for `system` what os-release calls the host */
	char *summary; /* owned or NULL */
	enum runtime_kind kind;
	char *prefix; /* owned; conda, venv: its directory; rootfs: directory or squashfs file; image: layout directory or archive;
		       * NULL for system. Absolute, links resolved */
	char *root; /* owned or NULL; rootfs, image: the directory that becomes the box's root, once it is known */
	char *path;                       /* owned; the value of PATH in the box */
	struct interpreter *interpreters; /* owned */
	size_t n_interpreters;
	struct pairs env;
	struct limits limits;  /* defaults of this runtime */
	struct strv read_only; /* absolute host paths, shown at the same place */
	struct strv devices;   /* absolute device nodes */
	struct strv packages;  /* Debian packages that provide it, for the remedy; system only */
	struct strv
		provides; /* modules and programs it is good for: `suggest` and the import rule look here */
	struct runtime_check *checks; /* owned */
	size_t n_checks;
	struct limits check_limits; /* of one check; built-in 1 GiB, 1 cpu, 60 s */
	char *executor; /* owned or NULL; where its runs are carried out unless they say otherwise */
	char *lock;     /* owned; where its lock file is or would be */
	char *origin;   /* owned; "built-in" or "FILE:LINE" */
	bool from_project; /* said by a project, which may show nothing from outside itself */
	/* Found out when the entry is read. */
	struct pairs
		shown; /* shown read-only beside /usr: place in the box -> place on the host, without links */
	/* Found out by runtime_open. */
	struct rootfs *tree; /* owned or NULL; rootfs, image: what the box's root is made of */
	char *digest;        /* owned or NULL; image: of its manifest */
	/* Found out by running the activation. */
	struct strv unset; /* variables that are taken away */
	struct strv
		activated; /* names of variables that the prefix says, as its files spell them: they go over what the caller passes */
};

void runtime_release(struct runtime *r);
#define CLEANUP_RUNTIME CLEANUP(runtime_release)

/* Brings a runtime within reach of a box: what it is made of is there and readable, its image unpacked or mounted, its tree looked at.
 * Writes nothing but HOME/cache. A failure says what is broken and the remedy. */
int runtime_open(const struct config *config, struct runtime *r, struct err *err);
/* What its fingerprint needs to be there, without a box: an image is unpacked, unless it is already. */
int runtime_unpack(const struct config *config, struct runtime *r, struct err *err);
/* The same for whoever only asks: nothing is written. 0 if it is not unpacked yet, otherwise 1. */
int runtime_find_root(const struct config *config, struct runtime *r, struct err *err);
/* Is there such a program, as the box will see it: absolute, or found in the runtime's PATH? */
bool runtime_has(const struct runtime *r, const char *program);
/* The built-in one: the host's own /usr. */
void runtime_system(const struct config *config, struct runtime *ret);

/* The words before a command that is one text: as the analysis says, or `bash -euo pipefail -c` if the runtime has bash, or `sh -eu -c`. Of
 * a tree it must be open. A shell that is said and not there is an error. */
int runtime_shell(const struct runtime *r, const struct analysis *a, struct strv *ret,
		  struct err *err);
/* The argv that runs the analysis here: its command, or the interpreter for its script as it will be
 * called inside the box (`script_path`). A script without a known ending is run itself and must be
 * executable. An interpreter the runtime lacks is an error that names the remedy. */
/* What is wrong with a script that is no regular file, and what to do: always fails. */
int runtime_script_odd(const char *script, mode_t mode, struct err *err);
int runtime_argv(const struct runtime *r, const struct analysis *a, const char *script_path,
		 struct strv *ret, struct err *err);

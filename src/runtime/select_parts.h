/* The parts of selection (select.h) that touch no file: what a script says and needs, and which entry of a catalog fits that. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "runtime/catalog.h"
#include "runtime/select.h"
#include "spec/limits.h"

#define SCRIPT_READ_MAX   (1024 * 1024)
#define NOTEBOOK_READ_MAX (64 * 1024 * 1024)
#define NEEDS_MAX         1000 /* names of one script */
#define NAME_MAX_         128  /* bytes of a module's or a program's name */

/* The `# /// script` block of PEP 723 (inline script metadata). */
struct script_meta {
	int line;              /* where the block begins; 0: there is none */
	char *requires_python; /* owned or NULL */
	struct strv dependencies;
	char *runtime; /* owned or NULL: [tool.cupel] runtime */
	int runtime_line;
	struct limits limits; /* [tool.cupel.limits], with FILE:LINE */
};
void script_meta_release(struct script_meta *m);
#define CLEANUP_SCRIPT_META CLEANUP(script_meta_release)
/* Two blocks and a mistake in one are errors with FILE:LINE; a block that is not closed is none, as the PEP says. */
int script_meta_read(const char *file, const char *text, size_t length, struct script_meta *ret,
		     struct err *err);

/* What of a Jupyter notebook tells where it can run. */
struct notebook {
	char *kernel;    /* owned or NULL: metadata.kernelspec.name */
	char *language;  /* owned or NULL: metadata.kernelspec.language, else language_info.name */
	struct str code; /* its code cells */
};
void notebook_release(struct notebook *n);
#define CLEANUP_NOTEBOOK CLEANUP(notebook_release)
/* JSON that is wrong is an error with FILE:LINE. */
int notebook_read(const char *file, const char *text, size_t length, struct notebook *ret,
		  struct err *err);

enum language { LANGUAGE_OTHER, LANGUAGE_PYTHON, LANGUAGE_R, LANGUAGE_SHELL };
/* By name, program or ending: "python", "Rscript", ".sh". */
enum language language_find(const char *name);

/* Modules, packages and programs that a text names, each once, in its order; the language's own are among them. */
void needs_python(const char *text, size_t length, struct strv *ret);
void needs_r(const char *text, size_t length, struct strv *ret);
void needs_shell(const char *text, size_t length, struct strv *ret);
/* Adds a name of `length` bytes unless it is there or the list is full. */
void needs_add(struct strv *needs, const char *name, size_t length);

/* The language itself brings it. */
bool language_has(enum language language, const char *name);
/* One form for all names of one thing. Python's (PEP 503): lower case, runs of - _ . are one '-', and a module is called like the
 * distribution that brings it: scikit_learn, Scikit-Learn and sklearn are scikit-learn. */
void name_plain(enum language language, const char *name, char ret[NAME_MAX_ + 1]);
/* The distribution that a PEP 508 dependency names; false for one under a condition, and for what is none. */
bool dependency_name(const char *dependency, char *buffer, size_t room);

/* A script as the rules see it. */
struct script {
	const char *file;  /* borrowed; for messages */
	const char *title; /* borrowed; its last component */
	enum language language;
	const char *extension; /* borrowed from title; "" if it has none */
	struct script_meta meta;
	struct notebook notebook;
	bool is_notebook;
	struct strv needs; /* what neither the language nor the analysis brings; dependencies too */
};
void script_release(struct script *s);
#define CLEANUP_SCRIPT CLEANUP(script_release)
/* `local`: names of modules that come with the analysis. What is not text says nothing. `file` must outlive ret. */
int script_read(const char *file, const char *text, size_t length, const struct strv *local,
		struct script *ret, struct err *err);

struct select_by {
	const struct catalog *catalog;
	const char *default_runtime;
	/* Whether the program is there; NULL: all are. */
	bool (*has_program)(const struct runtime *r, const struct interpreter *i);
};
/* From RULE_SCRIPT down, over the catalog as given. */
int select_from(const struct select_by *by, const struct script *s, struct selection *ret,
		struct err *err);
/* The interpreter of this runtime for the script, or NULL. */
const struct interpreter *select_interpreter(const struct runtime *r, const struct script *s);
/* Appends to why what of the script's dependencies the runtime does not say it provides; nothing if it says nothing at all. */
void select_warn(const struct runtime *r, const struct script_meta *m, struct str *why);
void selection_requires(struct selection *s, const struct script_meta *m);
void selection_consider(struct selection *s, const char *name, const char *why_not);
/* "a, b and 3 more", fit for a terminal. */
void names_list(const struct strv *names, struct str *ret);

/* Selection: what scripts and notebooks need, and which entry of a catalog the rules choose for them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/select_parts.h"

typedef void needs_fn(const char *text, size_t length, struct strv *ret);

/* The needs of a text are exactly these words. */
static void needs_are(needs_fn *find, const char *text, const char *wanted)
{
	CLEANUP_STRV struct strv found = { 0 };
	CLEANUP_STR struct str list = { 0 };
	/* Exactly its size, so that a read past its end is seen. */
	size_t length = strlen(text);
	CLEANUP_FREE char *copy = xmalloc(length);

	memcpy(copy, text, length);
	find(copy, length, &found);
	for (size_t i = 0; i < found.n; i++)
		str_addf(&list, "%s%s", i ? " " : "", found.v[i]);
	if (!str_eq(str_text(&list), wanted))
		fail_msg("wanted '%s', got '%s' of:\n%s", wanted, str_text(&list), text);
}

static void python_imports(void **state)
{
	(void)state;
	needs_are(needs_python, "import numpy", "numpy");
	needs_are(needs_python, "import a.b.c as d, e as f, g", "a e g");
	needs_are(needs_python, "from a.b import c\nfrom d import (e,\n  f)\nfrom g import *\n",
		  "a d g");
	needs_are(needs_python, "if x:\n    import a\n\tfrom b import c\n", "a b");
	needs_are(needs_python, "try: import a\nexcept ImportError: import b\n", "a b");
	needs_are(needs_python, "x = 1; import a; from b import c; import a\n", "a b");
	needs_are(needs_python, "import a, \\\n  b\nfrom \\\n c \\\n import d\n", "a b c");
	needs_are(needs_python, "import a, \\\r\n  b\r\nimport c\r\n", "a b c");
	needs_are(needs_python, "import a . b\nfrom c . d import e\n", "a c");
	needs_are(needs_python, "import a # b, c\n# import d\n", "a");
	/* Relative: it comes with the analysis. */
	needs_are(needs_python,
		  "from . import a\nfrom .b import c\nfrom ... d import e\nimport f\n", "f");
	needs_are(needs_python, "import \xc3\xa9t\xc3\xa9\n", "\xc3\xa9t\xc3\xa9");
	needs_are(needs_python, "def f():\n  \"\"\"doc\"\"\"\n  import a\nclass B: import c\n",
		  "a c");
	needs_are(needs_python, "@dec\ndef f(): from a import b\n", "a");
}

static void python_that_imports_nothing(void **state)
{
	(void)state;
	needs_are(needs_python, "'import a'\n\"from b import c\"\n", "");
	needs_are(needs_python, "'''\nimport a\n'''\n\"\"\"\nimport b\n\"\"\"\n", "");
	needs_are(needs_python, "x = r'\\'; import a'\nf\"\"\"\nimport b \"\" \n\"\"\"\n", "");
	needs_are(needs_python, "x = 'a\\\nimport b'\nimport c\n", "c");
	needs_are(needs_python, "x = 'not closed\nimport a\n", "a");
	needs_are(needs_python, "x = (\nimport_a, 'x'\n)\nimportant = 1\nfrom_x = 2\n", "");
	needs_are(needs_python, "def g():\n  yield from a\n  raise X from b\n", "");
	needs_are(needs_python, "x.import_module('a')\nx = [\nimport\n]\n", "");
	needs_are(needs_python, "import\nfrom\nfrom a\nfrom a imports b\nimport 3\n", "");
	needs_are(needs_python, "import a as\n", "a");
	needs_are(needs_python, "import a,", "a");
	needs_are(needs_python, "from a.", "");
	needs_are(needs_python, "import .", "");
	needs_are(needs_python, "\\", "");
	needs_are(needs_python, "'\\", "");
	needs_are(needs_python, "\"\"\"", "");
	needs_are(needs_python, "", "");
}

static void r_packages(void **state)
{
	(void)state;
	needs_are(needs_r, "library(ggplot2)\nrequire(dplyr)\n", "ggplot2 dplyr");
	needs_are(needs_r, "library( \"a\" )\nlibrary('b', quietly = TRUE)\nrequire(`c`)", "a b c");
	needs_are(needs_r,
		  "suppressMessages(library(Seurat))\nif (!requireNamespace(\"x\")) stop()",
		  "Seurat x");
	needs_are(needs_r, "a::b(c)\nd:::e\nx[1:3]\ny <- data.table::fread('f')", "a d data.table");
	needs_are(needs_r, "# library(a)\ns <- 'library(b)'; t <- \"c::d\"\n", "");
	needs_are(needs_r, "s <- r\"(library(a))\"; t <- R'--[b::c]-\"]--'; library(d)", "d");
	needs_are(needs_r, "for (p in ps) library(p, character.only = TRUE)", "");
	needs_are(needs_r, "library(help = foo)\nlibrary()\nlibrary(f(x))\nmylibrary(a)", "");
	needs_are(needs_r, "library(a # b\n)\nlibrary(\"", "a");
	needs_are(needs_r, "r\"(", "");
	needs_are(needs_r, "#", "");
	needs_are(needs_r, "a:", "");
}

static void shell_commands(void **state)
{
	(void)state;
	needs_are(needs_shell, "samtools view x | bcftools call > out; bwa mem\n",
		  "samtools bcftools bwa");
	needs_are(needs_shell, "A=1 B=2 a x && b || c &\nd\n", "a b c d");
	needs_are(needs_shell, "if a; then b; else c; fi\nwhile d; do e; done\n", "a b c d e");
	needs_are(needs_shell, "for x in a b c; do d $x; done\n", "d");
	needs_are(needs_shell, "x=$(a | b)\ny=`c d`\necho \"$(e \"$(f)\")\" '$(g)'\n",
		  "a b c echo e f");
	needs_are(needs_shell, "(a; b) | c\n{ d; }\nf() { e; }\n", "a b c d e");
	needs_are(needs_shell, "diff <(a x) <(b y) > out\n", "diff a b");
	needs_are(needs_shell, "case $x in\n  foo) a;;\n  *) b;;\nesac\n", "a b");
	needs_are(needs_shell, "# a\nb # c\nd#e\n", "b d#e");
	needs_are(needs_shell,
		  "cat <<EOF > out\nnot a command\nEOF\na\ncat <<-'X Y'\n\tno\n\tX Y\nb\n",
		  "cat a b");
	needs_are(needs_shell, "/usr/bin/samtools x\n\"quoted\" y\na\\\nb c\n",
		  "samtools quoted ab");
	needs_are(needs_shell, "time env X=1 a\nxargs -n 1 b\ntimeout 10 c\nexec d\n",
		  "time env a xargs b timeout c exec d");
	needs_are(needs_shell, "\"$tool\" x\n${tool:-a} y\n$a z\n", "");
	needs_are(needs_shell, "a 2>&1 >/dev/null | b\na<b\n", "a b");
	needs_are(needs_shell, "g++ -o x\n", "g++");
	needs_are(needs_shell, "\"", "");
	needs_are(needs_shell, "$(", "");
	needs_are(needs_shell, "cat <<", "cat");
	needs_are(needs_shell, "${", "");
	needs_are(needs_shell, "\\", "\\");
}

/* Nested without end, or nothing but openings: each is read in time and stack that are bounded. */
static void hostile_texts(void **state)
{
	static const char *const parts[] = { "$(",  "\"$(",       "`",    "(",   "<(",
					     "${",  "library(a,", "r\"(", "a::", "import a, ",
					     "'''", "((",         "<<a ", "\"",  "from " };
	needs_fn *const all[] = { needs_python, needs_r, needs_shell };
	(void)state;

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		CLEANUP_STR struct str text = { 0 };
		while (text.length < 200000)
			str_add(&text, parts[i]);
		for (size_t j = 0; j < 3; j++) {
			CLEANUP_STRV struct strv found = { 0 };
			all[j](text.text, text.length, &found);
			assert_true(found.n <= NEEDS_MAX);
		}
	}
	CLEANUP_STR struct str many = { 0 };
	CLEANUP_STRV struct strv found = { 0 };
	for (int i = 0; i < 5000; i++)
		str_addf(&many, "import m%d\n", i);
	needs_python(many.text, many.length, &found);
	assert_int_equal(found.n, NEEDS_MAX);
}

static void names(void **state)
{
	char plain[NAME_MAX_ + 1];
	(void)state;

	name_plain(LANGUAGE_PYTHON, "Scikit_Learn", plain);
	assert_string_equal(plain, "scikit-learn");
	name_plain(LANGUAGE_PYTHON, "sklearn", plain);
	assert_string_equal(plain, "scikit-learn");
	name_plain(LANGUAGE_PYTHON, "a-_.b", plain);
	assert_string_equal(plain, "a-b");
	name_plain(LANGUAGE_R, "data.table", plain);
	assert_string_equal(plain, "data.table");
	assert_true(language_has(LANGUAGE_PYTHON, "os"));
	assert_true(language_has(LANGUAGE_PYTHON, "zoneinfo"));
	assert_true(language_has(LANGUAGE_PYTHON, "abc"));
	assert_false(language_has(LANGUAGE_PYTHON, "numpy"));
	assert_false(language_has(LANGUAGE_PYTHON, "o"));
	assert_true(language_has(LANGUAGE_R, "stats"));
	assert_false(language_has(LANGUAGE_R, "os"));
	assert_false(language_has(LANGUAGE_R, "MASS"));
	assert_true(dependency_name("numpy>=1 ", plain, sizeof plain));
	assert_string_equal(plain, "numpy");
	assert_true(dependency_name("a.b_c-d[x] @ https://h/", plain, sizeof plain));
	assert_string_equal(plain, "a.b_c-d");
	assert_false(dependency_name("numpy; python_version < '3'", plain, sizeof plain));
	assert_false(dependency_name("", plain, sizeof plain));
}

/* A catalog as this host might have it; nothing in it is released. */
#define WORDS(...)                                                                                 \
	{                                                                                          \
		.v = (char *[]){ __VA_ARGS__, NULL },                                              \
		.n = sizeof((char *[]){ __VA_ARGS__ }) / sizeof(char *)                            \
	}
#define PYTHON                                                                                     \
	{                                                                                          \
		.extension = (char *)".py", .language = (char *)"python",                          \
		.argv = WORDS((char *)"python3")                                                   \
	}
#define RSCRIPT                                                                                    \
	{                                                                                          \
		.extension = (char *)".R", .language = (char *)"r",                                \
		.argv = WORDS((char *)"Rscript")                                                   \
	}
#define BASH                                                                                       \
	{                                                                                          \
		.extension = (char *)".sh", .argv = WORDS((char *)"bash")                          \
	}
#define NBRUN                                                                                      \
	{                                                                                          \
		.extension = (char *)".ipynb", .argv = WORDS((char *)"nbrun")                      \
	}
#define INTERPRETERS(...)                                                                          \
	.interpreters = (struct interpreter[]){ __VA_ARGS__ },                                     \
	.n_interpreters = sizeof((struct interpreter[]){ __VA_ARGS__ }) /                          \
			  sizeof(struct interpreter)

static struct runtime entries[] = {
	{ .name = (char *)"base", INTERPRETERS(PYTHON, BASH, RSCRIPT) },
	{ .name = (char *)"data-ml",
	  INTERPRETERS(PYTHON, BASH),
	  .provides = WORDS((char *)"numpy", (char *)"pandas", (char *)"scikit-learn",
			    (char *)"matplotlib") },
	{ .name = (char *)"genomics",
	  INTERPRETERS(BASH),
	  .provides = WORDS((char *)"bwa", (char *)"samtools", (char *)"bcftools") },
	{ .name = (char *)"notebook",
	  INTERPRETERS(NBRUN, PYTHON),
	  .provides = WORDS((char *)"nbclient", (char *)"ipykernel") },
	{ .name = (char *)"r-stats",
	  INTERPRETERS(RSCRIPT),
	  .provides = WORDS((char *)"MASS", (char *)"lattice") },
	{ .name = (char *)"single-cell",
	  INTERPRETERS(PYTHON, BASH),
	  .provides = WORDS((char *)"anndata", (char *)"scipy", (char *)"numpy", (char *)"pandas",
			    (char *)"sklearn", (char *)"igraph") },
};

static struct catalog make_catalog(void)
{
	return (struct catalog){ .v = entries, .n = sizeof entries / sizeof *entries };
}

/* base says that it runs R, but R is not installed. */
static bool no_r_in_base(const struct runtime *r, const struct interpreter *i)
{
	return !(str_eq(r->name, "base") && str_eq(i->argv.v[0], "Rscript"));
}

static int try_select(const char *file, const char *text, const struct catalog *c,
		      struct selection *ret, struct err *err)
{
	CLEANUP_SCRIPT struct script s = { 0 };
	struct strv local = WORDS((char *)"main", (char *)"helper");
	struct select_by by = { c, "base", no_r_in_base };
	int r = script_read(file, text, strlen(text), &local, &s, err);

	return r < 0 ? r : select_from(&by, &s, ret, err);
}

static struct selection chosen(const char *file, const char *text, const char *name,
			       enum select_rule rule)
{
	struct catalog c = make_catalog();
	struct selection sel = { 0 };
	struct err err = { 0 };

	if (try_select(file, text, &c, &sel, &err) < 0)
		fail_msg("refused: %s", err.text);
	if (!str_eq(sel.name, name) || sel.rule != rule)
		fail_msg("%s by %s (%s), wanted %s by %s", sel.name, select_rule_names[sel.rule],
			 sel.why, name, select_rule_names[rule]);
	return sel;
}

static void is_chosen(const char *file, const char *text, const char *name, enum select_rule rule)
{
	CLEANUP_SELECTION struct selection sel = chosen(file, text, name, rule);
	struct catalog c = make_catalog();

	/* Every other entry is accounted for, and says why not. */
	assert_int_equal(sel.n_considered, c.n - 1);
	for (size_t i = 0; i < sel.n_considered; i++) {
		assert_string_not_equal(sel.considered[i].name, name);
		assert_true(strlen(sel.considered[i].why_not) > 0);
	}
}

static const char *why_not(const struct selection *s, const char *name)
{
	for (size_t i = 0; i < s->n_considered; i++)
		if (str_eq(s->considered[i].name, name))
			return s->considered[i].why_not;
	fail_msg("%s was not considered", name);
	return NULL;
}

static void imports_choose(void **state)
{
	(void)state;
	is_chosen("/d/a.py", "import numpy\n", "data-ml", RULE_IMPORTS);
	is_chosen("/d/a.py", "import numpy, anndata\n", "single-cell", RULE_IMPORTS);
	is_chosen("/d/a.py", "import numpy, matplotlib, anndata\n", "data-ml", RULE_IMPORTS);
	is_chosen("/d/a.py", "from sklearn.svm import SVC\nimport pandas\n", "data-ml",
		  RULE_IMPORTS);
	is_chosen("/d/a.R", "library(MASS)\n", "r-stats", RULE_IMPORTS);
	is_chosen("/d/a.sh", "samtools view\n", "genomics", RULE_IMPORTS);
	is_chosen("/d/run", "#!/usr/bin/env -S python3 -s\nimport scipy\n", "single-cell",
		  RULE_IMPORTS);
	is_chosen("/d/run", "#!/bin/bash\nbwa mem\n", "genomics", RULE_IMPORTS);
	/* A dependency in the metadata is a need, also where the module is called otherwise. */
	is_chosen("/d/a.py",
		  "# /// script\n# dependencies = ['scikit-learn>1', 'python-igraph']\n# ///\n",
		  "single-cell", RULE_IMPORTS);
	/* What Python, the analysis or nobody brings decides nothing. */
	is_chosen("/d/a.py", "import os, sys, helper\nfrom __future__ import x\n", "base",
		  RULE_DEFAULT);
	is_chosen("/d/a.py", "import unheard_of\n", "base", RULE_DEFAULT);
	is_chosen("/d/a.sh", "echo x; python3 y; unheard_of\n", "base", RULE_DEFAULT);
	/* Case counts in R and in the shell. */
	is_chosen("/d/a.R", "library(mass)\n", "r-stats", RULE_EXTENSION);
	is_chosen("/d/a.sh", "Samtools\n", "base", RULE_DEFAULT);
	/* bwa is provided, but not where a .py can run. */
	is_chosen("/d/a.py", "import bwa\n", "base", RULE_DEFAULT);
}

static void why_is_said(void **state)
{
	CLEANUP_SELECTION struct selection a =
		chosen("/d/a.py", "import numpy, matplotlib, nowhere\n", "data-ml", RULE_IMPORTS);
	(void)state;
	assert_non_null(strstr(a.why, "part of what a.py needs: numpy, matplotlib"));
	assert_non_null(strstr(a.why, "lacks nowhere, which no runtime provides"));
	assert_non_null(strstr(why_not(&a, "single-cell"), "lacks matplotlib, nowhere"));
	assert_non_null(strstr(why_not(&a, "genomics"), "no interpreter for .py"));
	assert_non_null(strstr(why_not(&a, "base"), "lacks numpy"));

	CLEANUP_SELECTION struct selection b =
		chosen("/d/a.py", "import numpy\n", "data-ml", RULE_IMPORTS);
	assert_non_null(strstr(b.why, "all that a.py needs: numpy"));
	assert_non_null(strstr(why_not(&b, "single-cell"), "5 things that are not needed, not 3"));

	CLEANUP_SELECTION struct selection c =
		chosen("/d/a.R", "x <- 1\n", "r-stats", RULE_EXTENSION);
	assert_non_null(strstr(c.why, "the default, lacks its interpreter"));
	assert_non_null(strstr(why_not(&c, "base"), "Rscript is not there"));

	CLEANUP_SELECTION struct selection d =
		chosen("/d/a.py", "import nowhere\n", "base", RULE_DEFAULT);
	assert_non_null(strstr(d.why, "no runtime provides nowhere"));
}

/* Equal in what they provide and do not: the name decides, whatever the order of the catalog. */
static void ties_are_broken_by_name(void **state)
{
	struct runtime two[] = {
		{ .name = (char *)"zeta",
		  INTERPRETERS(PYTHON),
		  .provides = WORDS((char *)"numpy") },
		{ .name = (char *)"alpha",
		  INTERPRETERS(PYTHON),
		  .provides = WORDS((char *)"Numpy") },
	};
	struct catalog c = { .v = two, .n = 2 };
	CLEANUP_SELECTION struct selection sel = { 0 };
	(void)state;

	assert_int_equal(try_select("/d/a.py", "import numpy", &c, &sel, NULL), 0);
	assert_string_equal(sel.name, "alpha");
	assert_non_null(strstr(why_not(&sel, "zeta"), "later by name"));
}

static void endings_choose(void **state)
{
	(void)state;
	is_chosen("/d/a.py", "print(1)\n", "base", RULE_DEFAULT);
	is_chosen("/d/a.R", "print(1)\n", "r-stats", RULE_EXTENSION);
	is_chosen("/d/a.zz", "print(1)\n", "base", RULE_DEFAULT);
	is_chosen("/d/a", "#!/usr/bin/perl\n", "base", RULE_DEFAULT);
	is_chosen("/d/a", "", "base", RULE_DEFAULT);
	is_chosen("/d/.py", "import numpy\n", "base", RULE_DEFAULT);
	is_chosen("/d/a.ipynb", "{}", "notebook", RULE_EXTENSION);
}

static void script_metadata_wins(void **state)
{
	struct catalog c = make_catalog();
	struct selection none = { 0 };
	struct err err = { 0 };
	(void)state;

	is_chosen("/d/a.py",
		  "# /// script\n# [tool.cupel]\n# runtime = 'genomics'\n# ///\nimport numpy\n",
		  "genomics", RULE_SCRIPT);
	CLEANUP_SELECTION struct selection sel = chosen(
		"/d/a.py",
		"# /// script\n# requires-python = '>=3.9'\n# dependencies = ['numpy', 'torch', 'x; sys_platform == \"y\"']\n"
		"# tool.cupel = {runtime = 'data-ml', limits = {memory = '1G'}}\n# ///\n",
		"data-ml", RULE_SCRIPT);
	assert_non_null(strstr(sel.why, "a.py:4 names it"));
	assert_non_null(strstr(sel.why, "warning: data-ml does not say that it provides torch,"));
	assert_int_equal(sel.requires.n, 4);
	assert_string_equal(sel.requires.v[0], "requires-python >=3.9");
	assert_string_equal(sel.requires.v[3], "x; sys_platform == \"y\"");
	assert_int_equal(sel.limits.at[LIMIT_MEMORY].value, 1ULL << 30);
	assert_int_equal(try_select("/d/a.py",
				    "\n# /// script\n# tool.cupel.runtime = 'x'\n# ///\n", &c,
				    &none, &err),
			 -ENOENT);
	assert_true(str_starts(err.text, "/d/a.py:3: there is no runtime 'x'; there are: base, "));
	assert_null(none.name);
}

static void a_fault_is_never_left_out(void **state)
{
	struct catalog c = make_catalog();
	struct catalog_fault fault = { .file = (char *)"/r/x.yaml", .name = (char *)"x" };
	CLEANUP_SELECTION struct selection sel = { 0 };
	struct selection none = { 0 };
	struct err err = { 0 };
	(void)state;

	(void)err_caller(&fault.err, "/r/x.yaml:1:1: broken");
	c.faults = &fault;
	c.n_faults = 1;
	assert_int_equal(try_select("/d/a.py", "", &c, &sel, &err), 0);
	assert_non_null(strstr(why_not(&sel, "x"), "/r/x.yaml:1:1: broken"));
	assert_true(try_select("/d/a.py", "# /// script\n# tool.cupel.runtime = 'x'\n# ///\n", &c,
			       &none, &err) < 0);
	assert_true(str_starts(err.text, "/d/a.py:2: "));
	assert_non_null(strstr(err.text, "/r/x.yaml:1:1: broken"));
}

#define NOTEBOOK(kernelspec, cells)                                                                \
	"{\"cells\": [" cells "], \"metadata\": {\"kernelspec\": " kernelspec                      \
	"}, \"nbformat\": 4, \"nbformat_minor\": 5}"
#define CELL(source) "{\"cell_type\": \"code\", \"source\": " source "}"

static void notebooks_choose(void **state)
{
	(void)state;
	is_chosen("/d/a.ipynb", NOTEBOOK("{\"name\": \"python3\", \"language\": \"python\"}", ""),
		  "notebook", RULE_KERNELSPEC);
	is_chosen("/d/a.ipynb", NOTEBOOK("{\"name\": \"python3\"}", ""), "notebook",
		  RULE_KERNELSPEC);
	/* A kernel that is called like a runtime is that runtime's. */
	is_chosen("/d/a.ipynb",
		  NOTEBOOK("{\"name\": \"single-cell\", \"language\": \"python\"}", ""),
		  "single-cell", RULE_KERNELSPEC);
	/* Nobody has a kernel for it: the ending is left. */
	CLEANUP_SELECTION struct selection other = chosen(
		"/d/a.ipynb", NOTEBOOK("{\"name\": \"julia-1.9\", \"language\": \"julia\"}", ""),
		"notebook", RULE_EXTENSION);
	assert_non_null(strstr(other.why, "no runtime is known to have the kernel julia-1.9"));
	is_chosen("/d/a.ipynb", NOTEBOOK("{\"name\": 3, \"language\": []}", ""), "notebook",
		  RULE_EXTENSION);
	is_chosen("/d/a.ipynb", NOTEBOOK("null", ""), "notebook", RULE_EXTENSION);
	CLEANUP_SELECTION struct selection sel =
		chosen("/d/a.ipynb",
		       NOTEBOOK("{\"name\": \"python3\"}", CELL("\"import torch\\nimport os\"")),
		       "notebook", RULE_KERNELSPEC);
	assert_non_null(strstr(sel.why, "the kernel python3"));
	assert_non_null(strstr(sel.why, "lacks torch, which no runtime provides"));
	assert_non_null(strstr(why_not(&sel, "base"), "no such kernel"));
}

/* Two runtimes with the kernel: what the cells import decides. */
static void cells_decide_between_kernels(void **state)
{
	struct runtime two[] = {
		{ .name = (char *)"a",
		  INTERPRETERS(NBRUN, PYTHON),
		  .provides = WORDS((char *)"ipykernel") },
		{ .name = (char *)"b",
		  INTERPRETERS(NBRUN, PYTHON),
		  .provides = WORDS((char *)"ipykernel", (char *)"numpy") },
	};
	struct catalog c = { .v = two, .n = 2 };
	CLEANUP_SELECTION struct selection plain = { 0 }, with = { 0 };
	(void)state;

	assert_int_equal(
		try_select("/d/a.ipynb", NOTEBOOK("{\"name\": \"python3\"}", ""), &c, &plain, NULL),
		0);
	assert_string_equal(plain.name, "a");
	assert_int_equal(try_select("/d/a.ipynb",
				    NOTEBOOK("{\"name\": \"python3\"}", CELL("\"import numpy\"")),
				    &c, &with, NULL),
			 0);
	assert_string_equal(with.name, "b");
}

static void notebook_cells(void **state)
{
	static const char text[] =
		" {\"nbformat\":4,\n\"metadata\":{\"x\":[1,-2.5e3,{\"a\":[]}],\"language_info\":{\"name\":\"python\"}},"
		"\"cells\":["
		"{\"source\":[\"import a\\n\",\"%load_ext x\\n\",\"  !pip install y\\n\",\"import b\"],\"cell_type\":\"code\","
		"\"outputs\":[{\"data\":{\"image/png\":\"AAAA\"}}]},"
		"{\"cell_type\":\"markdown\",\"source\":\"import c\"},"
		"{\"cell_type\":\"code\",\"source\":\"%%bash\\nimport d\"},"
		"{\"cell_type\":\"code\",\"source\":\"%%time\\nimport e\"},"
		"{\"cell_type\":\"code\",\"source\":null},7,"
		"{\"cell_type\":\"code\",\"source\":\"import \\u0066\\ud83d\\ude00\"}]}\n";
	CLEANUP_NOTEBOOK struct notebook n = { 0 };
	struct err err = { 0 };
	(void)state;

	if (notebook_read("/d/a.ipynb", text, strlen(text), &n, &err) < 0)
		fail_msg("refused: %s", err.text);
	assert_null(n.kernel);
	assert_string_equal(n.language, "python");
	needs_are(needs_python, str_text(&n.code), "a b e f\xf0\x9f\x98\x80");
}

static void what_is_no_notebook(void **state)
{
	static const char *const texts[] = {
		"",
		" ",
		"[]",
		"{",
		"{\"a\"}",
		"{\"a\":}",
		"{\"a\":1",
		"{\"a\":1,}",
		"{}x",
		"{\"a\":01}",
		"{\"a\":1.}",
		"{\"a\":+1}",
		"{\"a\":tru}",
		"{\"a\":\"",
		"{\"a\":\"\\x\"}",
		"{\"a\":\"\\u12\"}",
		"{\"a\":\"\n\"}",
		"{\"a\":[1,]}",
		"{\"a\":[1}",
		"{'a':1}",
		"{\"a\":NaN}",
		"\xef\xbb\xbf{}",
		"{\"cells\":[{\"source\":[\"a\",]}]}",
		"{\"metadata\":{\"kernelspec\":{\"name\":\"a}}}",
	};
	(void)state;

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct notebook n = { 0 };
		struct err err = { 0 };
		if (notebook_read("/d/a.ipynb", texts[i], strlen(texts[i]), &n, &err) >= 0)
			fail_msg("accepted: %s", texts[i]);
		assert_true(str_starts(err.text, "/d/a.ipynb:"));
		assert_int_equal(err.kind, ERR_CALLER);
	}
	CLEANUP_STR struct str deep = { 0 };
	struct notebook n = { 0 };
	struct err err = { 0 };
	str_add(&deep, "{\n\"x\":");
	for (int i = 0; i < 1000000; i++)
		str_add(&deep, "[");
	assert_true(notebook_read("/d/a.ipynb", deep.text, deep.length, &n, &err) < 0);
	assert_true(str_starts(err.text, "/d/a.ipynb:2: "));
	assert_non_null(strstr(err.text, "too deeply"));
}

/* A binary, bytes that are no UTF-8, terminal controls: nothing of it reaches a record. */
static void hostile_scripts(void **state)
{
	CLEANUP_SELECTION struct selection sel = { 0 }, raw = { 0 };
	struct catalog c = make_catalog();
	(void)state;

	assert_int_equal(try_select("/d/a\x1b[31m\xff.py",
				    "import no\xff\xfewhere\nimport nothing\n", &c, &sel, NULL),
			 0);
	assert_string_equal(sel.name, "base");
	assert_true(str_is_utf8(sel.why, strlen(sel.why)));
	assert_null(strchr(sel.why, '\x1b'));
	CLEANUP_SCRIPT struct script s = { 0 };
	assert_int_equal(
		script_read("/d/a.py", "import numpy\0", 13, &(struct strv){ 0 }, &s, NULL), 0);
	assert_int_equal(s.needs.n, 0);
	assert_int_equal(try_select("/d/a\x1b.py", "import numpy\n", &c, &raw, NULL), 0);
	assert_null(strchr(raw.why, '\x1b'));
	CLEANUP_SCRIPT struct script bom = { 0 };
	assert_int_equal(script_read("/d/a.py", "\xef\xbb\xbfimport numpy\n", 16,
				     &(struct strv){ 0 }, &bom, NULL),
			 0);
	assert_int_equal(bom.needs.n, 1);
}

static void record_is_complete(void **state)
{
	CLEANUP_SELECTION struct selection sel = chosen(
		"/d/a.py",
		"# /// script\n# dependencies = ['numpy']\n# tool.cupel.limits.memory = '1G'\n# ///\n",
		"data-ml", RULE_IMPORTS);
	CLEANUP_JSON json_t *o = selection_json(&sel);
	(void)state;

	assert_string_equal(json_string_value(json_object_get(o, "name")), "data-ml");
	assert_string_equal(json_string_value(json_object_get(o, "rule")), "imports");
	assert_string_equal(json_string_value(json_object_get(o, "why")), sel.why);
	assert_int_equal(json_array_size(json_object_get(o, "considered")), 5);
	const json_t *first = json_array_get(json_object_get(o, "considered"), 0);
	assert_string_equal(json_string_value(json_object_get(first, "name")), "base");
	assert_string_equal(json_string_value(json_object_get(first, "why_not")), "lacks numpy");
	assert_int_equal(json_array_size(json_object_get(o, "requires")), 1);
	assert_non_null(json_object_get(json_object_get(o, "limits"), "memory"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(python_imports),
		cmocka_unit_test(python_that_imports_nothing),
		cmocka_unit_test(r_packages),
		cmocka_unit_test(shell_commands),
		cmocka_unit_test(hostile_texts),
		cmocka_unit_test(names),
		cmocka_unit_test(imports_choose),
		cmocka_unit_test(why_is_said),
		cmocka_unit_test(ties_are_broken_by_name),
		cmocka_unit_test(endings_choose),
		cmocka_unit_test(script_metadata_wins),
		cmocka_unit_test(a_fault_is_never_left_out),
		cmocka_unit_test(notebooks_choose),
		cmocka_unit_test(cells_decide_between_kernels),
		cmocka_unit_test(notebook_cells),
		cmocka_unit_test(what_is_no_notebook),
		cmocka_unit_test(hostile_scripts),
		cmocka_unit_test(record_is_complete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

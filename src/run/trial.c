/* What to run for a runtime's health. */
#include "run/trial.h"

#include <string.h>

/* A start that needs the interpreter's own library, not only its file. */
struct start_row {
	const char *extension, *language;
	const char *option, *program;
};
static const struct start_row starts[] = {
	{ ".py", "python", "-c", "import sys; print('Python', sys.version.split()[0])" },
	{ ".R", "r", "-e", "cat(R.version.string, '\\n')" },
	{ ".sh", "bash", "-c", "echo \"shell ${BASH_VERSION-}\"" },
	{ ".pl", "perl", "-e", "printf \"perl %vd\\n\", $^V" },
	{ ".jl", "julia", "-e", "println(\"julia \", VERSION)" },
};

static const char import_python[] =
	"import importlib, sys\n"
	"print(sys.argv[1], getattr(importlib.import_module(sys.argv[1]), '__version__', ''))";
static const char import_r[] =
	"n <- commandArgs(TRUE)[1]; suppressPackageStartupMessages(library(n, character.only = TRUE)); "
	"cat(n, as.character(packageVersion(n)), '\\n')";

void trials_release(struct trials *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free(t->v[i].name);
		free(t->v[i].fault);
		strv_release(&t->v[i].argv);
	}
	free(t->v);
	*t = (struct trials){ 0 };
}

static struct trial *add(struct trials *t)
{
	t->v = xreallocarray(t->v, t->n + 1, sizeof *t->v);
	t->v[t->n] = (struct trial){ 0 };
	return &t->v[t->n++];
}

/* Languages and endings are compared without regard to case: .R and .r, R and r. */
static bool speaks(const struct interpreter *i, const char *extension, const char *language)
{
	return (i->language && strcasecmp(i->language, language) == 0) ||
	       (i->extension && strcasecmp(i->extension, extension) == 0);
}

static bool same_argv(const struct strv *a, const struct strv *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!str_eq(a->v[i], b->v[i]))
			return false;
	return true;
}

static bool seen_before(const struct runtime *r, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (same_argv(&r->interpreters[i].argv, &r->interpreters[index].argv))
			return true;
	return false;
}

/* With its own arguments where it is known what may follow them; otherwise the program alone, asked for its version. */
static void start_argv(const struct interpreter *i, struct strv *ret)
{
	for (size_t k = 0; k < sizeof starts / sizeof *starts; k++)
		if (speaks(i, starts[k].extension, starts[k].language)) {
			strv_copy(ret, &i->argv);
			strv_add(ret, starts[k].option);
			strv_add(ret, starts[k].program);
			return;
		}
	strv_add(ret, i->argv.v[0]);
	strv_add(ret, "--version");
}

static void add_interpreter(const struct interpreter *i, struct trials *ret)
{
	struct trial *t = add(ret);
	t->name = xasprintf("interpreter %s", i->argv.n ? i->argv.v[0] : "?");
	t->interpreter = i;
	t->may_be_absent = i->by_default;
	if (i->argv.n)
		start_argv(i, &t->argv);
	else
		t->fault =
			xasprintf("no program is named for %s", i->extension ? i->extension : "it");
}

static const struct interpreter *find_language(const struct runtime *r, bool python)
{
	for (size_t i = 0; i < r->n_interpreters; i++)
		if (r->interpreters[i].argv.n &&
		    speaks(&r->interpreters[i], python ? ".py" : ".R", python ? "python" : "r"))
			return &r->interpreters[i];
	return NULL;
}

static void import_argv(const struct runtime *r, const struct runtime_check *c, struct trial *t)
{
	const char *language = c->command.n ? c->command.v[0] : "";
	bool python = strcasecmp(language, "python") == 0;
	const struct interpreter *i = find_language(r, python);
	if (c->command.n < 2 || (!python && strcasecmp(language, "r") != 0))
		t->fault = xasprintf("'%s' is no language whose imports can be checked: python, r",
				     language);
	else if (!i)
		t->fault = xasprintf("the runtime has no interpreter for %s; name one: "
				     "interpreters: {%s: %s}",
				     language, python ? ".py" : ".R",
				     python ? "python3" : "Rscript");
	if (t->fault)
		return;
	strv_copy(&t->argv, &i->argv);
	strv_add(&t->argv, python ? "-c" : "-e");
	strv_add(&t->argv, python ? import_python : import_r);
	strv_add(&t->argv, c->command.v[1]);
}

void trials_make(const struct runtime *r, struct trials *ret)
{
	struct trials all = { 0 };
	/* What nobody asked for is tried only where there is nothing else to try. */
	bool says_nothing = r->n_checks == 0;
	for (size_t i = 0; i < r->n_interpreters; i++)
		says_nothing = says_nothing && r->interpreters[i].by_default;
	for (size_t i = 0; i < r->n_interpreters; i++)
		if (!seen_before(r, i) && (says_nothing || !r->interpreters[i].by_default))
			add_interpreter(&r->interpreters[i], &all);
	for (size_t i = 0; i < r->n_checks; i++) {
		const struct runtime_check *c = &r->checks[i];
		struct trial *t = add(&all);
		t->name = xstrdup(c->name ? c->name : "check");
		t->check = c;
		if (c->kind == CHECK_IMPORT)
			import_argv(r, c, t);
		else if (c->command.n)
			strv_copy(&t->argv, &c->command);
		else
			t->fault = xstrdup("it names no command");
	}
	*ret = all;
}

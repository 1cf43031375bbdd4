/* A script as the rules see it: its language, what it says of itself, what it needs. */
#include <string.h>

#include "base/path.h"
#include "runtime/select_parts.h"

#define SHEBANG_MAX 256

void script_release(struct script *s)
{
	script_meta_release(&s->meta);
	notebook_release(&s->notebook);
	strv_release(&s->needs);
}

/* #!/usr/bin/python3 -s, #!/usr/bin/env -S Rscript --vanilla: the first word that is a program's. */
static enum language language_of_shebang(const char *text, size_t length)
{
	if (length < 3 || text[0] != '#' || text[1] != '!')
		return LANGUAGE_OTHER;
	const char *newline = memchr(text, '\n', length);
	size_t n = newline ? (size_t)(newline - text) : length;
	CLEANUP_FREE char *line = xstrndup(text + 2, n - 2 < SHEBANG_MAX ? n - 2 : SHEBANG_MAX);
	for (char *word = line; *(word += strspn(word, " \t\r"));) {
		size_t end = strcspn(word, " \t\r");
		CLEANUP_FREE char *program = xstrndup(word, end);
		if (!str_eq(path_base(program), "env") && program[0] != '-' &&
		    !strchr(program, '='))
			return language_find(path_base(program));
		word += end;
	}
	return LANGUAGE_OTHER;
}

/* The kernel's name where its language is not said: python3, ir, bash. */
static enum language language_of_kernel(const struct notebook *n)
{
	if (n->language)
		return language_find(n->language);
	return str_eq(n->kernel, "ir") ? LANGUAGE_R : language_find(n->kernel);
}

static void find_needs(enum language language, const char *text, size_t length, struct strv *ret)
{
	if (language == LANGUAGE_PYTHON)
		needs_python(text, length, ret);
	else if (language == LANGUAGE_R)
		needs_r(text, length, ret);
	else if (language == LANGUAGE_SHELL)
		needs_shell(text, length, ret);
}

/* Two names of one distribution are one need: `import sklearn` and "scikit-learn". */
static bool is_needed(const struct script *s, const char *name)
{
	char plain[NAME_MAX_ + 1], other[NAME_MAX_ + 1];
	name_plain(s->language, name, plain);
	for (size_t i = 0; i < s->needs.n; i++) {
		name_plain(s->language, s->needs.v[i], other);
		if (str_eq(plain, other))
			return true;
	}
	return false;
}

static void add_dependencies(struct script *s)
{
	char name[NAME_MAX_ + 1];
	for (size_t i = 0; i < s->meta.dependencies.n; i++)
		if (dependency_name(s->meta.dependencies.v[i], name, sizeof name) &&
		    !is_needed(s, name))
			needs_add(&s->needs, name, strlen(name));
}

static void keep_needs(struct script *s, const struct strv *found, const struct strv *local)
{
	for (size_t i = 0; i < found->n; i++)
		if (!language_has(s->language, found->v[i]) && !strv_has(local, found->v[i]))
			needs_add(&s->needs, found->v[i], strlen(found->v[i]));
}

static int read_text(struct script *s, const char *text, size_t length, const struct strv *local,
		     struct err *err)
{
	CLEANUP_STRV struct strv found = { 0 };
	if (memchr(text, '\0', length < 4096 ? length : 4096))
		return 0; /* a program, not a text */
	if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		text += 3;
		length -= 3;
	}
	if (s->language == LANGUAGE_OTHER && !*s->extension)
		s->language = language_of_shebang(text, length);
	int r = script_meta_read(s->file, text, length, &s->meta, err);
	if (r < 0)
		return r;
	find_needs(s->language, text, length, &found);
	keep_needs(s, &found, local);
	if (s->language == LANGUAGE_PYTHON)
		add_dependencies(s);
	return 0;
}

static int read_notebook(struct script *s, const char *text, size_t length,
			 const struct strv *local, struct err *err)
{
	CLEANUP_STRV struct strv found = { 0 };
	int r = notebook_read(s->file, text, length, &s->notebook, err);
	if (r < 0)
		return r;
	s->language = language_of_kernel(&s->notebook);
	find_needs(s->language, str_text(&s->notebook.code), s->notebook.code.length, &found);
	keep_needs(s, &found, local);
	return 0;
}

int script_read(const char *file, const char *text, size_t length, const struct strv *local,
		struct script *ret, struct err *err)
{
	CLEANUP_SCRIPT struct script s = { .file = file, .title = path_base(file) };
	const char *dot = strrchr(s.title, '.');
	s.extension = dot && dot > s.title ? dot : "";
	s.language = language_find(s.extension);
	s.is_notebook = str_eq(s.extension, ".ipynb");
	int r = s.is_notebook ? read_notebook(&s, text, length, local, err)
			      : read_text(&s, text, length, local, err);
	if (r < 0)
		return r;
	*ret = s;
	s = (struct script){ 0 };
	return 0;
}

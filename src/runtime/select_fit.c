/* How well each entry of a catalog fits a script. */
#include "runtime/select_fit.h"

#include <strings.h>

void fits_release(struct fits *f)
{
	for (size_t i = 0; i < f->n; i++)
		strv_release(&f->v[i].lacking);
	free(f->v);
	strv_release(&f->needed);
	strv_release(&f->homeless);
	*f = (struct fits){ 0 };
}

const struct interpreter *select_interpreter(const struct runtime *r, const struct script *s)
{
	for (size_t i = 0; i < r->n_interpreters; i++) {
		const struct interpreter *p = &r->interpreters[i];
		if (p->extension && p->extension[0] == '.' && str_ends(s->title, p->extension))
			return p;
	}
	for (size_t i = 0; !s->is_notebook && i < r->n_interpreters; i++) {
		const struct interpreter *p = &r->interpreters[i];
		const char *language = p->language ? p->language : p->extension;
		if (s->language != LANGUAGE_OTHER && language_find(language) == s->language)
			return p;
	}
	return NULL;
}

/* Of what the entry says itself: the usual programs are named for every runtime. */
static bool speaks(const struct runtime *r, enum language language)
{
	bool does = false;
	for (size_t i = 0; !does && i < r->n_interpreters; i++)
		does = !r->interpreters[i].by_default &&
		       (language_find(r->interpreters[i].language) == language ||
			language_find(r->interpreters[i].extension) == language);
	return does && language != LANGUAGE_OTHER;
}

static bool provides_word(const struct runtime *r, const char *word)
{
	bool does = false;
	for (size_t i = 0; word && !does && i < r->provides.n; i++)
		does = strcasecmp(r->provides.v[i], word) == 0;
	return does;
}

/* Jupyter finds a kernel by name, but the names of the usual ones are those of programs too, so that only the package tells. */
static int kernel_fit(const struct runtime *r, const struct script *s, bool opens)
{
	static const char *const packages[] = { NULL, "ipykernel", "IRkernel", "bash_kernel" };
	const struct notebook *n = &s->notebook;
	if (!n->kernel && !n->language)
		return 0;
	if (str_eq(r->name, n->kernel))
		return 4;
	const char *package = packages[s->language];
	if (s->language == LANGUAGE_OTHER && n->language && strcasecmp(n->language, "julia") == 0)
		package = "IJulia";
	bool named = n->kernel && language_find(n->kernel) == LANGUAGE_OTHER &&
		     provides_word(r, n->kernel);
	if (named || provides_word(r, package))
		return opens ? 3 : 2;
	return opens && speaks(r, s->language) ? 1 : 0;
}

static void plain_names(enum language language, const struct strv *names, struct strv *ret)
{
	char plain[NAME_MAX_ + 1];
	for (size_t i = 0; i < names->n; i++) {
		name_plain(language, names->v[i], plain);
		strv_add(ret, plain);
	}
}

/* A program that is needed or provided once is one thing, so the counts are of names. */
static void count(struct fit *fit, const struct script *s, const struct strv *needed,
		  const struct strv *plain_needed)
{
	CLEANUP_STRV struct strv provides = { 0 };
	plain_names(s->language, &fit->runtime->provides, &provides);
	for (size_t i = 0; i < needed->n; i++) {
		if (strv_has(&provides, plain_needed->v[i]))
			fit->provided++;
		else
			strv_add(&fit->lacking, needed->v[i]);
	}
	for (size_t i = 0; i < provides.n; i++)
		fit->extras += !strv_has(plain_needed, provides.v[i]);
}

static bool someone_provides(const struct select_by *by, const struct script *s, const char *name)
{
	char plain[NAME_MAX_ + 1], other[NAME_MAX_ + 1];
	name_plain(s->language, name, plain);
	for (size_t i = 0; i < by->catalog->n; i++) {
		const struct strv *provides = &by->catalog->v[i].provides;
		for (size_t j = 0; j < provides->n; j++) {
			name_plain(s->language, provides->v[j], other);
			if (str_eq(plain, other))
				return true;
		}
	}
	return false;
}

void fits_make(const struct select_by *by, const struct script *s, struct fits *ret)
{
	CLEANUP_STRV struct strv plain = { 0 };
	const struct catalog *c = by->catalog;
	for (size_t i = 0; i < s->needs.n; i++) {
		bool known = someone_provides(by, s, s->needs.v[i]);
		if (known || s->language != LANGUAGE_SHELL)
			strv_add(&ret->needed, s->needs.v[i]);
		if (!known && s->language != LANGUAGE_SHELL)
			strv_add(&ret->homeless, s->needs.v[i]);
	}
	plain_names(s->language, &ret->needed, &plain);
	ret->v = xcalloc(c->n, sizeof *ret->v);
	ret->n = c->n;
	for (size_t i = 0; i < c->n; i++) {
		struct fit *fit = &ret->v[i];
		const struct interpreter *p = select_interpreter(&c->v[i], s);
		fit->runtime = &c->v[i];
		fit->runs = p && (!by->has_program || by->has_program(fit->runtime, p));
		fit->absent = p && !fit->runs ? p : NULL;
		/* Without an ending it is run itself, in any of them. */
		if (!p && !*s->extension)
			fit->runs = true;
		if (s->is_notebook)
			fit->kernel = kernel_fit(fit->runtime, s, fit->runs);
		count(fit, s, &ret->needed, &plain);
	}
}

/* The rules from script metadata down, over a catalog and a script: pure. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/select_fit.h"
#include "spec/show.h"
#include "spec/spec_json.h"

const char *const select_rule_names[] = { "option",  "analysis",  "script", "kernelspec",
					  "imports", "extension", "default" };

void selection_release(struct selection *s)
{
	free(s->name);
	free(s->why);
	for (size_t i = 0; i < s->n_considered; i++) {
		free(s->considered[i].name);
		free(s->considered[i].why_not);
	}
	free(s->considered);
	strv_release(&s->requires);
	*s = (struct selection){ 0 };
}

json_t *selection_json(const struct selection *s)
{
	json_t *considered = json_array();
	for (size_t i = 0; i < s->n_considered; i++)
		json_array_append_new(
			considered, json_pack("{s:o,s:o}", "name", json_text(s->considered[i].name),
					      "why_not", json_text(s->considered[i].why_not)));
	return json_pack("{s:o,s:s,s:o,s:o,s:o,s:o}", "name", json_text(s->name), "rule",
			 select_rule_names[s->rule], "why", json_text(s->why), "considered",
			 considered, "requires", strv_json(&s->requires), "limits",
			 limits_json(&s->limits));
}

void selection_consider(struct selection *s, const char *name, const char *why_not)
{
	s->considered = xreallocarray(s->considered, s->n_considered + 1, sizeof *s->considered);
	s->considered[s->n_considered++] =
		(struct considered){ .name = xstrdup(name), .why_not = str_visible(why_not) };
}

void selection_requires(struct selection *s, const struct script_meta *m)
{
	if (m->requires_python)
		strv_addf(&s->requires, "requires-python %s", m->requires_python);
	strv_copy(&s->requires, &m->dependencies);
	s->limits = m->limits;
}

void select_warn(const struct runtime *r, const struct script_meta *m, struct str *why)
{
	CLEANUP_STRV struct strv lacking = { 0 };
	char name[NAME_MAX_ + 1], plain[NAME_MAX_ + 1], other[NAME_MAX_ + 1];
	for (size_t i = 0; r->provides.n && i < m->dependencies.n; i++) {
		bool has = !dependency_name(m->dependencies.v[i], name, sizeof name);
		if (!has)
			name_plain(LANGUAGE_PYTHON, name, plain);
		for (size_t j = 0; !has && j < r->provides.n; j++) {
			name_plain(LANGUAGE_PYTHON, r->provides.v[j], other);
			has = str_eq(plain, other);
		}
		if (!has)
			strv_add(&lacking, name);
	}
	if (!lacking.n)
		return;
	str_addf(why, "; warning: %s does not say that it provides ", r->name);
	names_list(&lacking, why);
	str_add(why, ", which the script's metadata asks for");
}

/* `a` before `b` in the order of the rule: what it provides, what it does not burden, its name. */
static bool is_better(const struct fit *a, const struct fit *b)
{
	if (a->kernel != b->kernel)
		return a->kernel > b->kernel;
	if (a->provided != b->provided)
		return a->provided > b->provided;
	if (a->extras != b->extras)
		return a->extras < b->extras;
	return strcmp(a->runtime->name, b->runtime->name) < 0;
}

typedef bool fit_claim(const struct fit *f);

static bool has_kernel(const struct fit *f)
{
	return f->kernel > 0;
}

static bool has_needs(const struct fit *f)
{
	return f->runs && f->provided > 0;
}

static bool just_runs(const struct fit *f)
{
	return f->runs;
}

static const struct fit *best(const struct fits *fits, fit_claim *claim)
{
	const struct fit *found = NULL;
	for (size_t i = 0; i < fits->n; i++)
		if (claim(&fits->v[i]) && (!found || is_better(&fits->v[i], found)))
			found = &fits->v[i];
	return found;
}

static const struct fit *fit_of(const struct fits *fits, const char *name)
{
	for (size_t i = 0; i < fits->n; i++)
		if (str_eq(fits->v[i].runtime->name, name))
			return &fits->v[i];
	return NULL;
}

static void say_not(const struct fit *f, const struct fit *chosen, const struct script *s,
		    enum select_rule rule, struct str *ret)
{
	if (rule == RULE_KERNELSPEC && f->kernel < chosen->kernel) {
		str_add(ret, f->kernel ? "has the kernel less surely" : "has no such kernel");
	} else if (f->absent && rule != RULE_KERNELSPEC) {
		str_addf(ret, "its %s is not there",
			 f->absent->argv.n ? f->absent->argv.v[0] : "interpreter");
	} else if (!f->runs && rule != RULE_KERNELSPEC) {
		str_addf(ret, "has no interpreter for %s", s->extension);
	} else if (f->lacking.n && (!chosen || f->provided < chosen->provided)) {
		str_add(ret, "lacks ");
		names_list(&f->lacking, ret);
	} else if (rule == RULE_DEFAULT) {
		str_add(ret, "nothing asks for it, and it is not the default");
	} else if (chosen && f->extras > chosen->extras) {
		str_addf(ret, "fits as well, but provides %zu things that are not needed, not %zu",
			 f->extras, chosen->extras);
	} else {
		str_add(ret, "fits as well, but is later by name");
	}
}

static void consider_all(const struct select_by *by, const struct script *s,
			 const struct fits *fits, struct selection *sel)
{
	const struct fit *chosen = fit_of(fits, sel->name);
	for (size_t i = 0; i < fits->n; i++) {
		CLEANUP_STR struct str why = { 0 };
		if (&fits->v[i] == chosen)
			continue;
		if (sel->rule == RULE_SCRIPT)
			str_addf(&why, "the script names %s", sel->name);
		else
			say_not(&fits->v[i], chosen, s, sel->rule, &why);
		selection_consider(sel, fits->v[i].runtime->name, str_text(&why));
	}
	for (size_t i = 0; i < by->catalog->n_faults; i++) {
		const struct catalog_fault *fault = &by->catalog->faults[i];
		CLEANUP_FREE char *why = xasprintf("can't be read: %s", fault->err.text);
		selection_consider(sel, fault->name, why);
	}
}

static int choose_by_script(const struct select_by *by, const struct script *s,
			    const struct fits *fits, struct selection *sel, struct str *why,
			    struct err *err)
{
	const struct script_meta *m = &s->meta;
	const struct fit *f = fit_of(fits, m->runtime);
	char shown[SHOW_ROOM];
	for (size_t i = 0; !f && i < by->catalog->n_faults; i++)
		if (str_eq(by->catalog->faults[i].name, m->runtime))
			return err_caller(err, "%s:%d: the runtime '%s' can't be read: %s", s->file,
					  m->runtime_line, show_text(m->runtime, shown),
					  by->catalog->faults[i].err.text);
	if (!f) {
		CLEANUP_STRV struct strv names = { 0 };
		CLEANUP_STR struct str list = { 0 };
		for (size_t i = 0; i < fits->n; i++)
			strv_add(&names, fits->v[i].runtime->name);
		names_list(&names, &list);
		return err_set(err, ERR_CALLER, ENOENT,
			       "%s:%d: there is no runtime '%s'; there are: %s", s->file,
			       m->runtime_line, show_text(m->runtime, shown), str_text(&list));
	}
	sel->rule = RULE_SCRIPT;
	sel->name = xstrdup(m->runtime);
	str_addf(why, "%s:%d names it", s->title, m->runtime_line);
	select_warn(f->runtime, m, why);
	return 0;
}

static void say_lacking(const struct fits *fits, const struct fit *f, struct str *why)
{
	if (!f->lacking.n)
		return;
	str_add(why, "; lacks ");
	names_list(&f->lacking, why);
	if (fits->homeless.n == f->lacking.n)
		str_add(why, ", which no runtime provides");
}

static void choose_by_kernel(const struct script *s, const struct fits *fits, const struct fit *f,
			     struct selection *sel, struct str *why)
{
	const struct notebook *n = &s->notebook;
	sel->rule = RULE_KERNELSPEC;
	sel->name = xstrdup(f->runtime->name);
	str_addf(why, "%s asks for the kernel %s%s%s%s", s->title, n->kernel ? n->kernel : "",
		 n->language ? " (" : "", n->language ? n->language : "", n->language ? ")" : "");
	say_lacking(fits, f, why);
}

static void choose_by_needs(const struct script *s, const struct fits *fits, const struct fit *f,
			    struct selection *sel, struct str *why)
{
	CLEANUP_STRV struct strv provided = { 0 };
	sel->rule = RULE_IMPORTS;
	sel->name = xstrdup(f->runtime->name);
	for (size_t i = 0; i < fits->needed.n; i++)
		if (!strv_has(&f->lacking, fits->needed.v[i]))
			strv_add(&provided, fits->needed.v[i]);
	str_addf(why, "provides %s %s %s: ", f->lacking.n ? "part of what" : "all that", s->title,
		 s->language == LANGUAGE_SHELL ? "calls" : "needs");
	names_list(&provided, why);
	say_lacking(fits, f, why);
}

static void choose_last(const struct select_by *by, const struct script *s, const struct fits *fits,
			struct selection *sel, struct str *why)
{
	const struct fit *standard = fit_of(fits, by->default_runtime);
	bool fixed = !*s->extension || (standard && standard->runs);
	const struct fit *other = fixed ? NULL : best(fits, just_runs);
	sel->rule = other ? RULE_EXTENSION : RULE_DEFAULT;
	sel->name = xstrdup(other ? other->runtime->name : by->default_runtime);
	if (other && standard && standard->absent)
		str_addf(why, "runs %s; %s, the default, lacks its interpreter", s->extension,
			 by->default_runtime);
	else if (other)
		str_addf(why, "runs %s, which %s, the default, does not", s->extension,
			 by->default_runtime);
	else
		str_add(why, "the default; no other rule applies");
	if (s->notebook.kernel)
		str_addf(why, "; no runtime is known to have the kernel %s", s->notebook.kernel);
	if (fits->homeless.n) {
		str_add(why, "; no runtime provides ");
		names_list(&fits->homeless, why);
	}
}

int select_from(const struct select_by *by, const struct script *s, struct selection *ret,
		struct err *err)
{
	CLEANUP_SELECTION struct selection sel = { 0 };
	CLEANUP_FITS struct fits fits = { 0 };
	CLEANUP_STR struct str why = { 0 };
	fits_make(by, s, &fits);
	selection_requires(&sel, &s->meta);
	const struct fit *kernel = best(&fits, has_kernel);
	const struct fit *needs = best(&fits, has_needs);
	int r = 0;
	if (s->meta.runtime)
		r = choose_by_script(by, s, &fits, &sel, &why, err);
	else if (kernel)
		choose_by_kernel(s, &fits, kernel, &sel, &why);
	else if (needs)
		choose_by_needs(s, &fits, needs, &sel, &why);
	else
		choose_last(by, s, &fits, &sel, &why);
	if (r < 0)
		return r;
	consider_all(by, s, &fits, &sel);
	sel.why = str_visible(str_text(&why));
	*ret = sel;
	sel = (struct selection){ 0 };
	return 0;
}

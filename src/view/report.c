/* The page of a run. */
#include "view/report.h"

#include <string.h>

#include "view/report_parts.h"

#define JSON_LD_MAX ((size_t)4 << 20) /* a larger one stands beside the page, in its file */

/* In a script element only "<" can end it, or begin what a browser would read otherwise. */
static void add_json_ld(const json_t *crate, struct str *s)
{
	CLEANUP_FREE char *text = json_dumps(crate, JSON_COMPACT);
	if (!text || strlen(text) > JSON_LD_MAX)
		return;
	str_add(s, "<script type=\"application/ld+json\">");
	for (const char *c = text; *c; c++)
		if (*c == '<' || *c == '>' || *c == '&')
			str_addf(s, "\\u%04x", (unsigned)*c);
		else
			str_add_n(s, c, 1);
	str_add(s, "</script>\n");
}

/* What a browser may do with this page: show it, with pictures that are in it. */
void report_begin(struct str *s, const char *title, const json_t *crate)
{
	str_add(s,
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src ");
	html_add_csp_hash(s, report_style);
	str_add(s, "; img-src data:; base-uri 'none'; form-action 'none'\">\n"
		   "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		   "<meta name=\"referrer\" content=\"no-referrer\">\n"
		   "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
	html_add(s, title);
	str_addf(s, "</title>\n<style>%s</style>\n", report_style);
	if (crate)
		add_json_ld(crate, s);
	str_add(s, "</head>\n<body>\n");
}

static void add_verdict(const struct dossier *d, struct str *s)
{
	const char *cause = dossier_text(d->verdict, "cause");
	const char *name = dossier_text(d->analysis, "name");
	const char *missing = dossier_text(d->verdict, "missing_layers");
	str_addf(s, "<section class=\"verdict%s\">\n<span class=\"badge\">",
		 str_eq(cause, "ok") ? " ok" : "");
	html_add(s, cause);
	str_add(s, "</span><span class=\"id\">");
	html_add(s, d->id);
	str_add(s, "</span>\n<h1>");
	if (name[0])
		html_add(s, name);
	else
		html_addf(s, "Run %s", d->id);
	str_add(s, "</h1>\n<p class=\"notes\">");
	html_add(s, dossier_text(d->verdict, "completion_notes"));
	str_add(s, "</p>\n");
	if (missing[0]) {
		str_add(s, "<p class=\"warn\">It ran without these layers, as was allowed: ");
		html_add(s, missing);
		str_add(s, "</p>\n");
	}
	str_add(s, "</section>\n");
}

void report_html(const struct dossier *d, const json_t *crate, struct str *ret)
{
	const json_t *accepted = json_object_get(json_array_get(d->events, 0), "data");
	CLEANUP_FREE char *title =
		xasprintf("run %s: %s", d->id, dossier_text(d->verdict, "cause"));
	report_begin(ret, title, crate);
	str_add(ret, "<main>\n");
	add_verdict(d, ret);
	report_budget(d, ret);
	report_plots(d, ret);
	report_outputs(d, ret);
	report_timeline(d, ret);
	report_facts(d, ret);
	report_logs(d, ret);
	report_box(d, ret);
	str_add(ret, "<footer>Made by cupel from the record of the run");
	if (dossier_text(accepted, "cupel")[0]) {
		str_add(ret, ", which cupel ");
		html_add(ret, dossier_text(accepted, "cupel"));
		str_add(ret, " wrote");
	}
	str_add(ret, ". All times are UTC.</footer>\n</main>\n</body>\n</html>\n");
}

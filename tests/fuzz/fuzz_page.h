/* What holds of every page that cupel makes, whatever it tells of. */
#pragma once

#include "fuzz.h"

/* Each "<" begins one of the tags that a page has. */
static inline void fuzz_check_page(const struct str *page)
{
	static const char *const tags[] = {
		"!DOCTYPE", "html",    "head",   "meta",       "title",   "style",  "body",
		"main",     "section", "span",   "h1",         "h2",      "h3",     "p",
		"table",    "tr",      "th",     "td",         "svg",     "rect",   "line",
		"text",     "path",    "figure", "figcaption", "article", "bdi",    "code",
		"pre",      "img",     "div",    "details",    "summary", "footer", "a",
		"g",        "desc",    "ul",     "li",         "dl",      "dt",     "dd"
	};
	CHECK(str_is_utf8(page->text, page->length));
	for (const char *at = page->text; (at = strchr(at, '<')); at++) {
		const char *name = at + 1 + (at[1] == '/');
		size_t length = strcspn(name, " />"), found = 0;
		for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
			found += strlen(tags[i]) == length && strncmp(tags[i], name, length) == 0;
		CHECK(found == 1);
	}
	/* A quote is ours too. */
	for (const char *at = page->text; (at = strstr(at, "src=\"")); at++)
		CHECK(str_starts(at, "src=\"data:image/"));
	for (const char *at = page->text; (at = strstr(at, "href=\"")); at++)
		CHECK(str_starts(at, "href=\"#step-"));
}

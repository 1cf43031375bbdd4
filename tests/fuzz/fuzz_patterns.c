/* Output patterns: "PATTERN NEWLINE PATH". The automaton must agree with a table that is filled
 * cell by cell, and what lies below a match matches too. */
#include "fuzz.h"

#include <fnmatch.h>

#include "collect/outputs.h"
#include "collect/pattern.h"
#include "spec/analysis.h"

#define PARTS_MAX 80

struct parts {
	char *v[PARTS_MAX];
	size_t n;
	bool too_many;
};

static void parts_split(char *text, struct parts *ret)
{
	while (text && ret->n < PARTS_MAX)
		ret->v[ret->n++] = strsep(&text, "/");
	ret->too_many = text != NULL;
}

/* Drops what means nothing: empty parts, ".", and "**" after "**". False: matches nothing. */
static bool pattern_reduce(struct parts *p)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->n; i++) {
		if (str_eq(p->v[i], "..") && kept <= PATTERN_PARTS_MAX)
			return false;
		bool again = kept > 0 && str_eq(p->v[i], "**") && str_eq(p->v[kept - 1], "**");
		if (p->v[i][0] && !str_eq(p->v[i], ".") && !again)
			p->v[kept++] = p->v[i];
	}
	p->n = kept;
	return kept <= PATTERN_PARTS_MAX;
}

/* reached[i][k]: the first i parts of the pattern consume exactly the first k names. */
static bool matches_by_table(const struct parts *pattern, const struct parts *names)
{
	static bool reached[PARTS_MAX + 1][PARTS_MAX + 1];

	memset(reached, 0, sizeof(reached));
	reached[0][0] = true;
	for (size_t i = 1; i <= pattern->n; i++) {
		const char *part = pattern->v[i - 1];
		bool any = str_eq(part, "**"), last = i == pattern->n;
		for (size_t k = 0; k <= names->n; k++) {
			if (any)
				reached[i][k] =
					(!last && reached[i - 1][k]) ||
					(k > 0 && (reached[i][k - 1] || reached[i - 1][k - 1]));
			else
				reached[i][k] = k > 0 && reached[i - 1][k - 1] &&
						fnmatch(part, names->v[k - 1], 0) == 0;
		}
	}
	for (size_t k = 0; k <= names->n; k++)
		if (reached[pattern->n][k])
			return true;
	return false;
}

static bool matches(const char *pattern, const char *path, bool otherwise)
{
	CLEANUP_FREE char *pattern_copy = xstrdup(pattern), *path_copy = xstrdup(path);
	struct parts parts = { 0 }, names = { 0 };

	if (pattern[0] == '\0' || pattern[0] == '/')
		return false;
	parts_split(pattern_copy, &parts);
	parts_split(path_copy, &names);
	if (parts.too_many || names.too_many)
		return otherwise;
	return pattern_reduce(&parts) && matches_by_table(&parts, &names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_FREE char *pattern = fuzz_text(data, size);
	char *newline = strchr(pattern, '\n');
	const char *path = newline ? newline + 1 : "";
	struct err err = { 0 };

	if (newline)
		*newline = '\0';
	bool good = fuzz_accepted(output_pattern_check(pattern, &err), &err);
	CHECK(!good || (pattern[0] && pattern[0] != '/'));
	bool matched = outputs_match(pattern, path);
	CHECK(matched == matches(pattern, path, matched));
	CLEANUP_FREE char *below = xasprintf("%s/x", path);
	CHECK(!matched || outputs_match(pattern, below));
	/* a name without special characters means itself */
	if (good && !strpbrk(pattern, "*?[\\") && !strstr(pattern, "//") &&
	    strlen(pattern) < 2 * PATTERN_PARTS_MAX)
		CHECK(outputs_match(pattern, pattern));
	(void)media_type_guess(path);
	return 0;
}

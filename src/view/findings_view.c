#include "view/findings_view.h"

#include <stdio.h>

#include "base/str.h"
#include "view/state_colour.h"

static char *shown(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return str_visible(text ? text : "");
}

static void print_part(const json_t *part)
{
	CLEANUP_FREE char *name = shown(part, "part");
	CLEANUP_FREE char *status = shown(part, "status");
	CLEANUP_FREE char *summary = shown(part, "summary");
	size_t i;
	const json_t *note;
	printf("%-9s ", name);
	terminal_print(stdout, state_colour(status), "%-9s", status);
	printf(" %s\n", summary);
	json_array_foreach(json_object_get(part, "notes"), i, note)
	{
		const char *text = json_string_value(note);
		CLEANUP_FREE char *clean = str_visible(text ? text : "");
		printf("%-9s %-9s %s\n", "", "note", clean);
	}
}

void findings_print(const json_t *parts, const json_t *findings)
{
	size_t i;
	const json_t *one;
	json_array_foreach(parts, i, one)
	{
		print_part(one);
	}
	json_array_foreach(findings, i, one)
	{
		CLEANUP_FREE char *part = shown(one, "part");
		CLEANUP_FREE char *where = shown(one, "where");
		CLEANUP_FREE char *what = shown(one, "what");
		CLEANUP_FREE char *remedy = shown(one, "remedy");
		printf("%s: %s: %s. Remedy: %s\n", part, where, what, remedy);
	}
}

#include "view/doctor_view.h"

#include <stdio.h>

#include "base/terminal.h"

static void print_finding(const struct finding *f)
{
	static const enum terminal_colour colours[FINDING_STATUS_COUNT_] = {
		COLOUR_GOOD, COLOUR_NOTE, COLOUR_ODD, COLOUR_WARN, COLOUR_BAD
	};
	terminal_print(stdout, colours[f->status], "%-8s", finding_status_names[f->status]);
	printf(" %-18s %s\n", f->name, f->evidence ? f->evidence : "");
	if (f->remedy)
		printf("%27s %s%s\n", "", f->remedy_as_root ? "as root: " : "remedy: ", f->remedy);
}

void doctor_print(const struct diagnosis *d)
{
	static const char *const groups[] = { "box", "limits", "host", "home", "extras" };
	for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
		bool is_first = true;
		for (size_t i = 0; i < d->n; i++) {
			if (!str_eq(d->v[i].group, groups[g]))
				continue;
			if (is_first)
				printf("%s%s\n", g ? "\n" : "", groups[g]);
			is_first = false;
			print_finding(&d->v[i]);
		}
	}
	printf("\n%s\n", d->summary);
}

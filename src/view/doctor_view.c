#include "view/doctor_view.h"

#include <stdio.h>
#include <unistd.h>

static const char *const colours[FINDING_STATUS_COUNT_] = { "32", "36", "35", "33", "31" };

static void print_finding(const struct finding *f, bool coloured)
{
	if (coloured)
		printf("\033[%sm%-8s\033[m", colours[f->status], finding_status_names[f->status]);
	else
		printf("%-8s", finding_status_names[f->status]);
	printf(" %-18s %s\n", f->name, f->evidence ? f->evidence : "");
	if (f->remedy)
		printf("%27s %s%s\n", "", f->remedy_as_root ? "as root: " : "remedy: ", f->remedy);
}

void doctor_print(const struct diagnosis *d)
{
	static const char *const groups[] = { "box", "limits", "host", "home", "extras" };
	bool coloured = isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
	for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
		bool is_first = true;
		for (size_t i = 0; i < d->n; i++) {
			if (!str_eq(d->v[i].group, groups[g]))
				continue;
			if (is_first)
				printf("%s%s\n", g ? "\n" : "", groups[g]);
			is_first = false;
			print_finding(&d->v[i], coloured);
		}
	}
	printf("\n%s\n", d->summary);
}

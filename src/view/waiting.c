/* The runs that wait in a service's queue. */
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/str.h"
#include "view/live.h"
#include "view/status.h"
#include "view/table.h"

static json_int_t position_of(const json_t *run)
{
	const json_t *position = json_object_get(json_object_get(run, "pending"), "position");
	return json_is_integer(position) ? json_integer_value(position) : INT64_MAX;
}

static int compare(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	json_int_t of_x = position_of(x), of_y = position_of(y);
	if (of_x != of_y)
		return of_x < of_y ? -1 : 1;
	return strcmp(json_string_value(json_object_get(x, "id")),
		      json_string_value(json_object_get(y, "id")));
}

static void add_row(struct table *t, const json_t *run)
{
	char since[32] = "", number[32] = "", priority[32] = "";
	const char *submitted = json_string_value(json_object_get(run, "submitted"));
	const char *runtime = json_string_value(json_object_get(run, "runtime"));
	uint64_t then = 0, now = clock_real_ns();
	if (submitted && clock_read(submitted, &then) >= 0)
		(void)status_elapsed(now > then ? now - then : 0, since, sizeof since);
	if (position_of(run) != INT64_MAX)
		(void)snprintf(number, sizeof number, "%lld", (long long)position_of(run));
	(void)snprintf(priority, sizeof priority, "%lld",
		       (long long)json_integer_value(json_object_get(run, "priority")));
	table_add(t, json_string_value(json_object_get(run, "id")));
	table_add(t, number);
	table_add(t, since);
	table_add(t, priority);
	table_add(t, json_string_value(json_object_get(run, "submitter")));
	table_add(t, runtime ? runtime : "(at start)");
	table_add(t, json_string_value(json_object_get(run, "quest")));
	table_add(t, json_string_value(json_object_get(run, "name")));
	table_add(t, json_string_value(json_object_get(json_object_get(run, "pending"), "text")));
}

int waiting_print(const json_t *runs, size_t lines, struct err *err)
{
	static const struct table_column columns[] = {
		{ "WAITING", TABLE_TEXT },    { "AHEAD", TABLE_NUMBER },  { "FOR", TABLE_NUMBER },
		{ "PRIORITY", TABLE_NUMBER }, { "SUBMITTER", TABLE_CUT }, { "RUNTIME", TABLE_CUT },
		{ "QUEST", TABLE_CUT },       { "NAME", TABLE_CUT },      { "WHY", TABLE_CUT },
	};
	CLEANUP_TABLE struct table t = { columns, sizeof columns / sizeof *columns };
	CLEANUP_FREE const json_t **list = xcalloc(json_array_size(runs) + 1, sizeof *list);
	size_t i, n = 0;
	json_t *run;
	json_array_foreach(runs, i, run)
	{
		if (live_is_waiting(run))
			list[n++] = run;
	}
	if (!n)
		return 0;
	qsort(list, n, sizeof *list, compare);
	for (i = 0; i < n && !(lines && i + 1 >= lines); i++)
		add_row(&t, list[i]);
	return table_print(&t, err);
}

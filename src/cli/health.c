/* cupel health: how everything stands, at a glance. */
#include <stdio.h>

#include "base/json.h"
#include "base/str.h"
#include "cli/simple.h"
#include "health/glance.h"
#include "view/table.h"

/* As people say it: one number, one unit. */
static char *age_text(const json_t *row)
{
	const json_t *age = json_object_get(row, "age_s");
	long long s = (long long)json_integer_value(age);
	if (!json_is_integer(age))
		return xstrdup("never");
	if (s < 120)
		return xasprintf("%lld s", s);
	if (s < 7200)
		return xasprintf("%lld min", s / 60);
	if (s < 2 * 86400LL)
		return xasprintf("%lld h", s / 3600);
	return xasprintf("%lld d", s / 86400);
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}

/* Each that is not well gets a line of its own with the command, which no edge of a terminal may cut. */
static int print_rows(const json_t *rows, struct err *err)
{
	static const struct table_column columns[] = { { "WHAT", TABLE_TEXT },
						       { "STATUS", TABLE_TEXT, true },
						       { "AGE", TABLE_TEXT },
						       { "SUMMARY", TABLE_WRAP } };
	CLEANUP_TABLE struct table t = { columns, sizeof columns / sizeof *columns };
	size_t i;
	const json_t *row;
	json_array_foreach(rows, i, row)
	{
		const char *subject = text_of(row, "subject");
		CLEANUP_FREE char *what =
			xasprintf("%s%s%s", text_of(row, "kind"), subject[0] ? " " : "", subject);
		CLEANUP_FREE char *age = age_text(row);
		table_add(&t, what);
		table_add(&t, text_of(row, "status"));
		table_add(&t, age);
		table_add(&t, text_of(row, "summary"));
	}
	int r = table_print(&t, err);
	if (r < 0)
		return r;
	json_array_foreach(rows, i, row)
	{
		CLEANUP_FREE char *command = str_visible(text_of(row, "command"));
		CLEANUP_FREE char *subject = str_visible(text_of(row, "subject"));
		if (!str_eq(text_of(row, "level"), "ok"))
			printf("%s%s%s: %s\n", text_of(row, "kind"), subject[0] ? " " : "", subject,
			       command);
	}
	return 0;
}

static int main_health(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_JSON json_t *rows = NULL;
	struct simple_args args = { 0 };
	enum glance_level worst = GLANCE_OK;
	struct err err = { 0 };
	int r = simple_begin(self, argc, argv, &args, &c, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	if (glance(&c, &rows, &worst, &err) < 0) {
		(void)cli_fail(&err);
		return 2;
	}
	CLEANUP_JSON json_t *o =
		json_pack("{s:s,s:O}", "level", glance_level_names[worst], "rows", rows);
	if (args.json) {
		json_print(o);
	} else if (print_rows(rows, &err) < 0) {
		(void)cli_fail(&err);
		return 2;
	}
	return worst == GLANCE_PROBLEM ? 1 : worst == GLANCE_UNKNOWN ? 2 : 0;
}

const struct command command_health = {
	.name = "health",
	.usage = "[--json]",
	.operands = COMPLETE_NOTHING,
	.summary = "how everything stands, from what was found last",
	.details =
		"The exit status is 0 if all is well, 1 if something is wrong, 2 if something was never looked at, not lately, or\n"
		"could not be, or usage.",
	.options = &simple_options,
	.main = main_health,
};

/* cupel executor: where runs may be carried out, and what each can enforce. */
#include "cli/executor.h"

#include <stdio.h>

#include "base/json.h"
#include "cli/simple.h"
#include "conform/conform.h"
#include "view/table.h"

/* One of them, as a list shows it. */
struct known {
	const char *name;
	enum executor_kind kind;
	const char *origin;
};

static struct known known_at(const struct config *c, size_t i)
{
	if (i == 0)
		return (struct known){ "local", EXECUTOR_LOCAL, "built-in" };
	const struct executor_settings *s = &c->executors[i - 1];
	return (struct known){ s->name, s->kind, s->origin };
}

static int main_list(const struct command *self, int argc, char **argv)
{
	static const struct table_column columns[] = { { "NAME", TABLE_TEXT },
						       { "KIND", TABLE_TEXT },
						       { "DEFAULT", TABLE_TEXT },
						       { "REACHED", TABLE_TEXT },
						       { "ENGINE", TABLE_WRAP } };
	CLEANUP_CONFIG struct config c = { 0 };
	CLEANUP_TABLE struct table t = { columns, sizeof columns / sizeof *columns };
	CLEANUP_JSON json_t *list = json_array();
	struct simple_args args = { 0 };
	struct err err = { 0 };
	int r = simple_begin(self, argc, argv, &args, &c, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	for (size_t i = 0; i <= c.n_executors; i++) {
		struct known k = known_at(&c, i);
		struct capability can = { 0 };
		bool is_default = str_eq(k.name, c.default_executor);
		bool reached = capability_ask(&c, k.name, &can, &err) >= 0;
		const char *text = reached ? can.engine : err.text;
		json_array_append_new(list,
				      json_pack("{s:s,s:s,s:b,s:b,s:o,s:o,s:o}", "name", k.name,
						"kind", executor_kind_names[k.kind], "default",
						is_default, "reached", reached, "engine",
						reached ? json_text(text) : json_null(), "error",
						reached ? json_null() : json_text(text), "origin",
						json_text(k.origin)));
		table_add(&t, k.name);
		table_add(&t, executor_kind_names[k.kind]);
		table_add(&t, is_default ? "yes" : "");
		table_add(&t, reached ? "yes" : "no");
		table_add(&t, text);
	}
	if (args.json)
		json_print(list);
	else if (table_print(&t, &err) < 0)
		return cli_fail(&err);
	return 0;
}

const struct command command_executor_list = {
	.name = "executor list",
	.usage = "[--json]",
	.operands = COMPLETE_NOTHING,
	.summary = "show where runs may be carried out, and whether each can be reached",
	.options = &simple_options,
	.main = main_list,
};

static int main_executor(const struct command *self, int argc, char **argv)
{
	if (argc > 2 && str_eq(argv[1], CONFORM_RUN)) { /* not for people: a run of ours */
		struct err err = { 0 };
		int status = 125;
		int r = conform_inside(argc - 2, argv + 2, &status, &err);
		return r < 0 ? cli_fail(&err) : status;
	}
	return cli_main_subs(self, argc, argv);
}

static const struct command *const subs[] = { &command_executor_list, &command_executor_check,
					      &command_executor_conformance };

const struct command command_executor = {
	.name = "executor",
	.usage = "COMMAND ...",
	.summary = "where runs may be carried out, and what each can enforce",
	.options = &cli_no_options,
	.subs = subs,
	.n_subs = sizeof subs / sizeof *subs,
	.main = main_executor,
};

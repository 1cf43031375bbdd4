/* The commands that need a few lines each: config, version. */
#include "cli/simple.h"

#include <stdio.h>

#include "base/json.h"
#include "view/table.h"

static int set_json(void *target, const struct option_row *row, const char *value, struct err *err)
{
	((struct simple_args *)target)->json = true;
	return 0;
}

static const struct option_row rows[] = { { 0, "json", NULL, "print JSON", set_json, 0 } };
const struct options simple_options = { rows, 1 };

/* Options, no operands, and the configuration. */
int simple_begin(const struct command *self, int argc, char **argv, struct simple_args *args,
		 struct config *config, struct err *err)
{
	struct operands rest;
	int r = cli_parse(self, argc, argv, args, &rest, err);
	if (r >= 0 && rest.first < argc)
		r = err_caller(err, "'cupel %s' takes no '%.60s'", self->name, argv[rest.first]);
	return r < 0 ? r : config_read(&(struct config_where){ 0 }, config, err);
}

static void print_json(json_t *value)
{
	CLEANUP_JSON json_t *owned = value;
	json_print(owned);
}

static int main_config(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	struct simple_args args = { 0 };
	struct err err = { 0 };
	int r = simple_begin(self, argc, argv, &args, &c, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	static const struct table_column columns[] = { { NULL, TABLE_TEXT },
						       { NULL, TABLE_WRAP },
						       { NULL, TABLE_WRAP } };
	CLEANUP_TABLE struct table t = { columns, sizeof columns / sizeof *columns };
	CLEANUP_JSON json_t *values = json_array();
	for (size_t i = 0; i < c.n_values; i++) {
		const struct config_value *v = &c.values[i];
		json_array_append_new(values, json_pack("{s:s,s:o,s:o}", "key", v->key, "value",
							json_text(v->text), "origin",
							json_text(v->origin)));
		table_add(&t, v->key);
		table_add(&t, v->text);
		table_add(&t, v->origin);
	}
	if (args.json)
		json_print(values);
	else if (table_print(&t, &err) < 0)
		return cli_fail(&err);
	return 0;
}

const struct command command_config = {
	.name = "config",
	.usage = "[--json]",
	.operands = COMPLETE_NOTHING,
	.summary = "show each effective setting and where it came from",
	.options = &simple_options,
	.main = main_config,
};

static int main_version(const struct command *self, int argc, char **argv)
{
	struct simple_args args = { 0 };
	struct operands rest;
	struct err err = { 0 };
	int r = cli_parse(self, argc, argv, &args, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	if (args.json)
		print_json(json_pack("{s:s}", "version", CUPEL_VERSION));
	else
		printf("cupel %s\n", CUPEL_VERSION);
	return 0;
}

const struct command command_version = {
	.name = "version",
	.usage = "[--json]",
	.operands = COMPLETE_NOTHING,
	.summary = "print the version",
	.options = &simple_options,
	.main = main_version,
};

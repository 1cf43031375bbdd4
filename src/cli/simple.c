/* The commands that need a few lines each: config, version. */
#include "cli/simple.h"

#include <stdio.h>

#include "base/json.h"

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

static void print_value(const struct config_value *v)
{
	CLEANUP_FREE char *text = str_visible(v->text);
	CLEANUP_FREE char *origin = str_visible(v->origin);
	printf("%-32s %-28s %s\n", v->key, text, origin);
}

static int main_config(const struct command *self, int argc, char **argv)
{
	CLEANUP_CONFIG struct config c = { 0 };
	struct simple_args args = { 0 };
	struct err err = { 0 };
	int r = simple_begin(self, argc, argv, &args, &c, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	json_t *values = json_array();
	for (size_t i = 0; i < c.n_values; i++) {
		const struct config_value *v = &c.values[i];
		if (args.json)
			json_array_append_new(values, json_pack("{s:s,s:o,s:o}", "key", v->key,
								"value", json_text(v->text),
								"origin", json_text(v->origin)));
		else
			print_value(v);
	}
	if (args.json)
		print_json(values);
	else
		json_decref(values);
	return 0;
}

const struct command command_config = {
	.name = "config",
	.usage = "[--json]",
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
	.summary = "print the version",
	.options = &simple_options,
	.main = main_version,
};

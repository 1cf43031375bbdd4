/* cupel runtime: the environments that analyses run in. */
#include "cli/runtime.h"

#include <errno.h>
#include <stdio.h>

#include "base/str.h"

static const struct command *const subs[] = { &command_runtime_list,    &command_runtime_show,
					      &command_runtime_check,   &command_runtime_lock,
					      &command_runtime_suggest, &command_runtime_create,
					      &command_runtime_remove };
#define N_SUBS (sizeof subs / sizeof *subs)

static int parse(const struct runtime_begin *how, int argc, char **argv, struct runtime_words *ret,
		 struct err *err)
{
	struct runtime_words words = { 0 };
	struct operands rest = { 0 };
	int r = cli_parse(how->self, argc, argv, how->target, &rest, err);
	if (r < 0)
		return r;
	size_t n = (size_t)(argc - rest.first);
	if (n < how->min || n > how->max)
		return err_caller(err, "usage: cupel %s %s", how->self->name, how->self->usage);
	while (words.n < n) {
		words.v[words.n] = argv[rest.first + (int)words.n];
		words.n++;
	}
	*ret = words;
	return 0;
}

int runtime_begin(const struct runtime_begin *how, int argc, char **argv, struct runtime_words *ret,
		  struct config *ret_config, struct err *err)
{
	int r = parse(how, argc, argv, ret, err);
	return r < 0 ? r : config_read(&(struct config_where){ 0 }, ret_config, err);
}

bool runtime_is_shadowed(const struct catalog *c, const char *name)
{
	for (size_t i = 0; i < c->n_faults; i++)
		if (str_eq(c->faults[i].name, name))
			return true;
	return false;
}

void runtime_print_json(json_t *value)
{
	CLEANUP_JSON json_t *owned = value;
	json_print(owned);
}

const struct command command_runtime = {
	.name = "runtime",
	.usage = "COMMAND ...",
	.summary = "the environments that analyses run in, and whether they work",
	.options = &cli_no_options,
	.subs = subs,
	.n_subs = N_SUBS,
	.main = cli_main_subs,
};

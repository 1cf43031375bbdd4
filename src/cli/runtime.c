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

static const struct options no_options = { NULL, 0 };

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

static int unknown(const char *word)
{
	const char *words[N_SUBS];
	struct err err = { 0 };
	for (size_t i = 0; i < N_SUBS; i++)
		words[i] = cli_word(subs[i]);
	const char *nearest = str_nearest(word, words, N_SUBS);
	(void)err_caller(
		&err, "there is no command 'runtime %.60s'%s%s%s `cupel runtime --help` lists them",
		word, nearest ? "; did you mean '" : ";", nearest ? nearest : "",
		nearest ? "'?" : "");
	return cli_fail(&err);
}

static int none(void)
{
	CLEANUP_STR struct str text = { 0 };
	struct err err = { 0 };
	for (size_t i = 0; i < N_SUBS; i++)
		str_addf(&text, "%s%s", i ? ", " : "", cli_word(subs[i]));
	(void)err_caller(&err,
			 "cupel runtime needs a command: %s; `cupel runtime --help` tells more",
			 str_text(&text));
	return cli_fail(&err);
}

static int main_runtime(const struct command *self, int argc, char **argv)
{
	struct operands rest = { 0 };
	struct err err = { 0 };
	int r = cli_parse(self, argc, argv, NULL, &rest, &err);
	if (r < 0)
		return cli_stop(self, r, &err);
	if (rest.first >= argc)
		return none();
	for (size_t i = 0; i < N_SUBS; i++)
		if (str_eq(argv[rest.first], cli_word(subs[i])))
			return subs[i]->main(subs[i], argc - rest.first, argv + rest.first);
	return unknown(argv[rest.first]);
}

const struct command command_runtime = {
	.name = "runtime",
	.usage = "COMMAND ...",
	.summary = "the environments that analyses run in, and whether they work",
	.options = &no_options,
	.subs = subs,
	.n_subs = N_SUBS,
	.main = main_runtime,
};

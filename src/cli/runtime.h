/* cupel runtime COMMAND: a row in runtime.c each; their names are "runtime WORD". */
#pragma once

#include "base/json.h"
#include "cli/cli.h"
#include "runtime/catalog.h"
#include "view/progress.h"

extern const struct command command_runtime_list, command_runtime_show, command_runtime_check,
	command_runtime_lock, command_runtime_suggest, command_runtime_create,
	command_runtime_remove;

#define RUNTIME_OPERANDS_MAX 2

/* What each of them begins with: options and operands, in whichever order. */
struct runtime_words {
	const char *v[RUNTIME_OPERANDS_MAX];
	size_t n;
};
/* Options to `target`, at least `min` and at most `max` operands, and the configuration. < 0: the caller returns cli_stop(). */
struct runtime_begin {
	const struct command *self;
	void *target;
	size_t min, max;
};
int runtime_begin(const struct runtime_begin *how, int argc, char **argv, struct runtime_words *ret,
		  struct config *ret_config, struct err *err);

/* An entry of that name can't be read: `run` refuses the name, whatever an earlier one says. */
bool runtime_is_shadowed(const struct catalog *c, const char *name);

/* One line of JSON; takes `value`. */
void runtime_print_json(json_t *value);

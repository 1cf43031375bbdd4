/* The one option that every command has. */
#pragma once

#include "cli/cli.h"

struct simple_args {
	bool json;
};
extern const struct options simple_options;
/* That option, no operands, the configuration. < 0: the caller returns cli_stop(). */
int simple_begin(const struct command *self, int argc, char **argv, struct simple_args *args,
		 struct config *config, struct err *err);

/* The one option that every command has. */
#pragma once

#include "cli/cli.h"

struct simple_args {
	bool json;
};
extern const struct options simple_options;

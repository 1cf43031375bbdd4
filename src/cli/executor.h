/* cupel executor COMMAND: a row in executor.c each; their names are "executor WORD". */
#pragma once

#include "cli/cli.h"

extern const struct command command_executor_list, command_executor_check,
	command_executor_conformance;

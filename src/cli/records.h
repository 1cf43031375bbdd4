/* What the commands that look at records share. */
#pragma once

#include "base/json.h"
#include "cli/cli.h"

struct records_begin {
	const struct command *self;
	int argc;
	char **argv;
	int n_operands;
	void *args;
};

/* Options, exactly so many operands, the configuration; then dead runs are swept, so that they are shown as what they are. What
 * can't be swept is no reason not to look. */
int records_begin(const struct records_begin *b, struct config *config, struct operands *rest,
		  struct err *err);

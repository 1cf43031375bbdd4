/* Options as rows: parsing, help and completion all come from the same table. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct option_row {
	char letter;         /* 0: none */
	const char *name;    /* "memory" for --memory */
	const char *metavar; /* NULL: takes no value */
	const char *help;
	/* Sets the value in the command's own struct; `value` is NULL for a row without metavar. */
	int (*set)(void *target, const struct option_row *row, const char *value, struct err *err);
	int number; /* for setters that serve several rows */
};

struct options {
	const struct option_row *rows;
	size_t n_rows;
	/* NULL, or what to use instead of an option that other programs have; see foreign.h. */
	const char *(*foreign)(const char *argument);
};

/* What is left after the options: argv[first..], and whether "--" stood before it. */
struct operands {
	int first;
	bool after_dashes;
};

/* Options end at the first operand or at "--". -EINVAL (caller) with "did you mean"; -ECANCELED if --help was asked for. */
int options_parse(const struct options *o, int argc, char **argv, void *target,
		  struct operands *ret, struct err *err);
/* The same where no word is meant for anybody else: options may stand among the operands, which are moved to the end of argv. */
int options_parse_mixed(const struct options *o, int argc, char **argv, void *target,
			struct operands *ret, struct err *err);
struct pairs;
/* --env NAME=VALUE, or NAME for the value that the caller's own environment has. */
int options_env(const char *text, struct pairs *env, struct err *err);
/* The rows as help text. */
void options_print(const struct options *o);

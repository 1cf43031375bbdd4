/* TOML 1.0 as a stream of values: what is in a script's metadata block is read without a tree, and what nobody asks for is still read
 * by the language's own rules, so that a bracket in a string never ends a list. */
#pragma once

#include <stddef.h>

#include "base/err.h"

#define TOML_DEPTH_MAX 32 /* of keys and of values in values */

enum toml_kind {
	TOML_STRING,
	TOML_OTHER, /* number, boolean, date, time */
	TOML_ARRAY, /* begins; its elements follow */
	TOML_TABLE, /* begins: a header or an inline table; its keys follow */
};

struct toml_value {
	const char *const *path; /* keys from the root; NULL stands for an element of an array */
	size_t depth;
	enum toml_kind kind;
	const char *text; /* TOML_STRING: without NUL; else NULL */
	int line;         /* of the text, from 1 */
};

struct toml_reader {
	const char *file;
	int first_line; /* what is added to a line of the text to get the file's */
	void *data;
	/* Each value in the order of the text; < 0 ends the reading. */
	int (*take)(void *data, const struct toml_value *value, struct err *err);
};

/* The first mistake is in err as FILE:LINE. A key that is said twice is left to whoever takes the values. */
int toml_read(const struct toml_reader *reader, const char *text, size_t length, struct err *err);

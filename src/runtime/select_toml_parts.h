/* What the two files of the TOML reader share. */
#pragma once

#include <stdbool.h>

#include "base/str.h"
#include "runtime/select_toml.h"

struct toml {
	const struct toml_reader *reader;
	const char *p, *end;
	int line;
	char *path[TOML_DEPTH_MAX]; /* owned; of the table that is open, then of the value */
	size_t depth;
};

/* FILE:LINE: what; -EINVAL. */
int toml_error(const struct toml *t, struct err *err, const char *what);
void toml_blank(struct toml *t);

static inline bool toml_is_control(char c)
{
	return ((unsigned char)c < 0x20 && c != '\t') || c == 0x7f;
}

enum toml_lines { TOML_ONE_LINE, TOML_ANY_LINES };
/* A string of any of the four kinds at t->p, which is a quote; keys are of one line. Text without NUL. */
int toml_string(struct toml *t, enum toml_lines lines, struct str *ret, struct err *err);
/* A number, boolean, date or time at t->p: checked and passed over. */
int toml_other(struct toml *t, struct err *err);

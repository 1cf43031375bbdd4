/* Rows for people: columns as wide as what stands in them; the last one is cut at the terminal's edge. */
#pragma once

#include "base/str.h"

struct table {
	size_t n_columns;
	struct strv cells; /* row by row, the head first; cleaned for terminals */
};

void table_release(struct table *t);
#define CLEANUP_TABLE CLEANUP(table_release)

void table_add(struct table *t, const char *text); /* NULL or "" is shown as "-" */
/* `room`: the terminal's columns, 0: nothing is cut. */
void table_print(const struct table *t, size_t room);
/* Columns of the terminal that standard output is; 0 if it is none. */
size_t table_room(void);

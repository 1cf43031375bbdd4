/* Rows for people, by libsmartcols, which is loaded when the first table is printed: columns as wide as what stands in them. A terminal's
 * width is kept by giving way in the columns that say so; elsewhere nothing is cut. There is no other way to print a table. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

#define TABLE_COLUMNS_MAX 16

enum table_kind {
	TABLE_TEXT,
	TABLE_NUMBER, /* to the right */
	TABLE_CUT,    /* gives way: what does not fit is not shown */
	TABLE_WRAP    /* gives way: goes on in the next line */
};

struct table_column {
	const char *head; /* NULL: the table has none */
	enum table_kind kind;
	bool is_state; /* words for how something stands, which have colours */
};

/* Beyond the columns {0}. */
struct table {
	const struct table_column *columns; /* borrowed */
	size_t n_columns;                   /* at most TABLE_COLUMNS_MAX */
	struct strv cells;                  /* row by row; cleaned for terminals */
	bool is_begun;                      /* a part of it is printed already, with the head */
	size_t widths[TABLE_COLUMNS_MAX];   /* of what is printed already */
};

void table_release(struct table *t);
#define CLEANUP_TABLE CLEANUP(table_release)

void table_add(struct table *t, const char *text); /* NULL or "" is shown as "-" */
/* Prints the rows and drops them, so that a long table is printed part by part. -EOPNOTSUPP if there is no libsmartcols. */
int table_print(struct table *t, struct err *err);

/* libsmartcols, loaded when the first table is printed: `cupel run` starts without it. The only header that includes its own. */
#pragma once

#include <libsmartcols/libsmartcols.h>

#include "base/err.h"

/* The functions used, by their own names without "scols_". */
#define SMARTCOLS_FUNCTIONS(ROW)                                                                   \
	ROW(new_table)                                                                             \
	ROW(unref_table)                                                                           \
	ROW(table_new_column)                                                                      \
	ROW(table_new_line)                                                                        \
	ROW(table_enable_noheadings)                                                               \
	ROW(table_set_column_separator)                                                            \
	ROW(table_set_termforce)                                                                   \
	ROW(table_set_termwidth)                                                                   \
	ROW(line_get_cell)                                                                         \
	ROW(cell_set_color)                                                                        \
	ROW(table_enable_colors)                                                                   \
	ROW(table_set_stream)                                                                      \
	ROW(line_set_data)                                                                         \
	ROW(print_table)

struct smartcols {
#define SMARTCOLS_MEMBER(name) __typeof__(scols_##name) *name;
	SMARTCOLS_FUNCTIONS(SMARTCOLS_MEMBER)
#undef SMARTCOLS_MEMBER
};

/* Never unloaded: a long table is printed in many parts. -EOPNOTSUPP if it is not there. */
int smartcols_load(struct smartcols *ret, struct err *err);

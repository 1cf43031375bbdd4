/* Columns of a table, and what is odd about them: private to check_csv.c and check_columns.c. */
#pragma once

#include "collect/check_parts.h"

#define COLUMNS_MAX 16384 /* so many are judged; the others are only counted */

struct field {
	const unsigned char *bytes; /* borrowed; without its quotes */
	size_t length;
};

struct column {
	struct field name;  /* of the first row, if that is a head */
	struct field value; /* the first that is there */
	bool text;          /* one of the values is no number */
	bool missing;       /* one is empty, NaN or the like */
	bool differs;       /* not all values are the same */
};

struct columns {
	struct column *at; /* in the arena; COLUMNS_MAX */
	size_t n;          /* that have been seen */
	uint64_t rows;     /* of data */
};

enum field_kind { FIELD_MISSING, FIELD_NUMBER, FIELD_TEXT };
enum field_kind field_kind(const struct field *f);
/* One field of a row of data. */
void columns_add(struct columns *columns, size_t number, const struct field *f);
/* Columns without any value, and columns of numbers that are all the same. */
void columns_judge(struct checking *c, const struct columns *columns);

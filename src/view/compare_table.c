/* Two tables cell by cell, as streams: a row is never held whole, so a table may have any size. */
#include <errno.h>
#include <string.h>

#include "view/compare.h"

#define CELL_MAX    (1 << 20)
#define COLUMNS_MAX 10000 /* whose names are remembered */

struct cells {
	FILE *file; /* borrowed */
	char separator;
	struct str text; /* of the cell at hand */
	enum { CELL_NONE, CELL_MORE, CELL_LAST, CELL_TOO_LONG } state;
};

static int next_char(struct cells *c)
{
	return getc_unlocked(c->file);
}

/* Inside quotes; the closing one is taken. */
static void read_quoted(struct cells *c)
{
	for (int ch; (ch = next_char(c)) != EOF && c->text.length <= CELL_MAX;) {
		if (ch == '"') {
			int after = next_char(c);
			if (after != '"') {
				(void)ungetc(after, c->file);
				return;
			}
		}
		char byte = (char)ch;
		str_add_n(&c->text, &byte, 1);
	}
}

static void read_cell(struct cells *c)
{
	int ch = next_char(c);
	bool begins = true;
	c->text.length = 0;
	str_add(&c->text, "");
	c->state = ch == EOF ? CELL_NONE : CELL_LAST;
	for (; ch != EOF && ch != '\n'; ch = next_char(c)) {
		if (ch == c->separator) {
			c->state = CELL_MORE;
			return;
		}
		if (ch == '"' && begins && c->separator == ',') {
			read_quoted(c);
		} else {
			char byte = (char)ch;
			str_add_n(&c->text, &byte, 1);
		}
		begins = false;
		if (c->text.length > CELL_MAX) {
			c->state = CELL_TOO_LONG;
			return;
		}
	}
	if (c->text.length && c->text.text[c->text.length - 1] == '\r')
		c->text.text[--c->text.length] = 0;
}

/* A cell that ended its row at the separator is followed by one more, be it empty, so the end of a file is a row's only at its start. */
static void read_next(struct cells *c, bool in_row)
{
	read_cell(c);
	if (c->state == CELL_NONE && in_row)
		c->state = CELL_LAST;
}

static bool same_text(const struct cells *a, const struct cells *b)
{
	return a->text.length == b->text.length &&
	       memcmp(str_text(&a->text), str_text(&b->text), a->text.length) == 0;
}

/* Behind a zero byte there would be something that no number has. */
static bool is_near(const struct compare_files *f, const struct cells *a, const struct cells *b)
{
	return f->tolerance->is_said && strlen(a->text.text) == a->text.length &&
	       strlen(b->text.text) == b->text.length &&
	       tolerance_near(f->tolerance, a->text.text, b->text.text);
}

static void tell_place(struct compare_files *f, const struct strv *names, uint64_t row,
		       size_t column)
{
	str_addf(&f->detail, "row %llu, column %zu", (unsigned long long)row, column);
	if (row > 1 && column <= names->n) {
		str_add(&f->detail, " (");
		compare_quote(&f->detail, names->v[column - 1]);
		str_add(&f->detail, ")");
	}
}

static enum compared tell_shape(struct compare_files *f, const struct cells *a,
				const struct cells *b, uint64_t row, size_t column)
{
	if (a->state == CELL_NONE || b->state == CELL_NONE)
		str_addf(&f->detail, "%s has only %llu rows", a->state == CELL_NONE ? "A" : "B",
			 (unsigned long long)row - 1);
	else
		str_addf(&f->detail, "row %llu has only %zu columns in %s", (unsigned long long)row,
			 column, a->state == CELL_LAST ? "A" : "B");
	return COMPARED_DIFFERS;
}

static enum compared compare_cells(struct compare_files *f, struct cells *a, struct cells *b,
				   struct strv *names)
{
	uint64_t row = 1;
	size_t column = 1;
	for (;;) {
		read_next(a, column > 1);
		read_next(b, column > 1);
		if (a->state == CELL_TOO_LONG || b->state == CELL_TOO_LONG)
			return COMPARED_UNKNOWN;
		if (a->state == CELL_NONE && b->state == CELL_NONE)
			return f->tolerance->is_said ? COMPARED_NEAR : COMPARED_DIFFERS;
		if (a->state == CELL_NONE || b->state == CELL_NONE)
			return tell_shape(f, a, b, row, column);
		if (!same_text(a, b) && !is_near(f, a, b)) {
			tell_place(f, names, row, column);
			str_add(&f->detail, ": ");
			compare_quote(&f->detail, a->text.text);
			str_add(&f->detail, " and ");
			compare_quote(&f->detail, b->text.text);
			return COMPARED_DIFFERS;
		}
		if (a->state != b->state)
			return tell_shape(f, a, b, row, column);
		if (row == 1 && names->n < COLUMNS_MAX)
			strv_add(names, a->text.text);
		row += a->state == CELL_LAST;
		column = a->state == CELL_LAST ? 1 : column + 1;
	}
}

enum compared compare_tables(struct compare_files *f, char separator)
{
	struct cells a = { .file = f->a, .separator = separator };
	struct cells b = { .file = f->b, .separator = separator };
	CLEANUP_STRV struct strv names = { 0 };
	enum compared result = compare_cells(f, &a, &b, &names);
	str_release(&a.text);
	str_release(&b.text);
	if (result == COMPARED_DIFFERS && !f->detail.length)
		str_add(&f->detail, "the same cells, written differently");
	return result;
}

#include "view/table.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/terminal.h"
#include "view/smartcols.h"
#include "view/state_colour.h"

void table_release(struct table *t)
{
	strv_release(&t->cells);
}

void table_add(struct table *t, const char *text)
{
	strv_take(&t->cells, str_visible(text && *text ? text : "-"));
}

/* Characters, not bytes; what is cleaned is UTF-8. */
static size_t width_of(const char *text)
{
	size_t width = 0;
	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}

/* Columns of the terminal that standard output is; 0 if it is none. */
static size_t terminal_width(void)
{
	struct winsize size = { 0 };
	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static int add_columns(const struct smartcols *s, struct libscols_table *to, struct table *t)
{
	static const int flags[] = { [TABLE_NUMBER] = SCOLS_FL_RIGHT,
				     [TABLE_CUT] = SCOLS_FL_TRUNC,
				     [TABLE_WRAP] = SCOLS_FL_WRAP };
	for (size_t i = 0; i < t->n_columns; i++) {
		const struct table_column *c = &t->columns[i];
		if (!s->table_new_column(to, c->head ? c->head : "", (double)t->widths[i],
					 flags[c->kind]))
			return -ENOMEM;
	}
	return 0;
}

static int add_line(const struct smartcols *s, struct libscols_table *to, struct table *t,
		    char *const *cells)
{
	struct libscols_line *line = s->table_new_line(to, NULL);
	int r = line ? 0 : -ENOMEM;
	for (size_t i = 0; r >= 0 && i < t->n_columns; i++) {
		const char *text = cells ? cells[i] : t->columns[i].head;
		size_t width = width_of(text);
		t->widths[i] = width > t->widths[i] ? width : t->widths[i];
		enum terminal_colour colour = !cells                   ? COLOUR_HEAD
					      : t->columns[i].is_state ? state_colour(text)
								       : COLOUR_NONE;
		r = s->line_set_data(line, i, text);
		if (r >= 0 && colour != COLOUR_NONE)
			r = s->cell_set_color(s->line_get_cell(line, i), terminal_colours[colour]);
	}
	return r;
}

/* The head is a line like any other: the library prints none where there are no lines. */
static int fill(const struct smartcols *s, struct libscols_table *to, struct table *t)
{
	size_t room = terminal_width();
	int r = s->table_enable_noheadings(to, 1);
	if (r >= 0)
		r = s->table_set_column_separator(to, "  ");
	if (r >= 0)
		r = s->table_set_termforce(to,
					   room ? SCOLS_TERMFORCE_ALWAYS : SCOLS_TERMFORCE_NEVER);
	if (r >= 0 && room)
		r = s->table_set_termwidth(to, room);
	if (r >= 0)
		r = add_columns(s, to, t);
	if (r >= 0 && !t->is_begun && t->columns[0].head)
		r = add_line(s, to, t, NULL);
	for (size_t i = 0; r >= 0 && i + t->n_columns <= t->cells.n; i += t->n_columns)
		r = add_line(s, to, t, t->cells.v + i);
	return r;
}

/* With colours it goes past the filter of the terminal: cells are clean, see table_add. */
static int print_coloured(const struct smartcols *s, struct libscols_table *to)
{
	char *text = NULL;
	size_t length = 0;
	FILE *memory = open_memstream(&text, &length);
	int r = memory ? s->table_set_stream(to, memory) : -ENOMEM;
	if (r >= 0)
		r = s->table_enable_colors(to, 1);
	if (r >= 0)
		r = s->print_table(to);
	if (memory)
		(void)fclose(memory);
	if (r >= 0)
		terminal_send(stdout, text, length);
	free(text);
	return r;
}

static int print(const struct smartcols *s, struct table *t)
{
	struct libscols_table *to = s->new_table();
	int r = to ? fill(s, to, t) : -ENOMEM;
	if (r >= 0)
		r = terminal_has_colour(STDOUT_FILENO) ? print_coloured(s, to) : s->print_table(to);
	s->unref_table(to);
	return r;
}

int table_print(struct table *t, struct err *err)
{
	CLEANUP_FREE struct smartcols *s = xcalloc(1, sizeof *s);
	int r = smartcols_load(s, err);
	if (r < 0)
		return r;
	/* What is cleaned is UTF-8, whatever the caller's locale: else its letters were printed as codes. */
	locale_t text = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	locale_t before = text ? uselocale(text) : (locale_t)0;
	r = print(s, t);
	if (text) {
		(void)uselocale(before);
		freelocale(text);
	}
	strv_release(&t->cells);
	t->is_begun = true;
	return r < 0 ? err_set(err, ERR_HOST, -r, "print a table: %s", strerrordesc_np(-r)) : 0;
}

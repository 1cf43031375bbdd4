#include "view/table.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

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

static size_t bytes_of(const char *text, size_t width)
{
	size_t at = 0;
	while (text[at] && (width > 0 || ((unsigned char)text[at] & 0xc0) == 0x80)) {
		width -= ((unsigned char)text[at] & 0xc0) != 0x80;
		at++;
	}
	return at;
}

static size_t column_width(const struct table *t, size_t column)
{
	size_t widest = 0;
	for (size_t i = column; i < t->cells.n; i += t->n_columns) {
		size_t width = width_of(t->cells.v[i]);
		widest = width > widest ? width : widest;
	}
	return widest;
}

size_t table_room(void)
{
	struct winsize size = { 0 };
	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void table_print(const struct table *t, size_t room)
{
	CLEANUP_FREE size_t *widths = xcalloc(t->n_columns, sizeof *widths);
	for (size_t i = 0; i < t->n_columns; i++)
		widths[i] = column_width(t, i);
	for (size_t row = 0; row + t->n_columns <= t->cells.n; row += t->n_columns) {
		size_t used = 0;
		for (size_t i = 0; i + 1 < t->n_columns; i++) {
			const char *text = t->cells.v[row + i];
			size_t width = widths[i];
			printf("%s%*s", text, (int)(width - width_of(text) + 2), "");
			used += width + 2;
		}
		const char *last = t->cells.v[row + t->n_columns - 1];
		bool cut = room && used + width_of(last) > room && room > used + 3;
		printf("%.*s%s\n", (int)(cut ? bytes_of(last, room - used - 3) : strlen(last)),
		       last, cut ? "..." : "");
	}
}

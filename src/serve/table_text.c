/* A small reader of CSV for previews. */
#include "serve/table_text.h"

#include <string.h>

#include "base/str.h"

struct reading {
	const char *at, *end;
	char separator;
};

/* One cell; *ret_last is true if a line or the text ends behind it. Returns false if the text ends within quotes. */
static bool read_cell(struct reading *r, struct str *cell, bool *ret_last)
{
	bool in_quotes = r->at < r->end && *r->at == '"';
	r->at += in_quotes;
	for (; r->at < r->end; r->at++) {
		char c = *r->at;
		if (in_quotes && c == '"' && r->at + 1 < r->end && r->at[1] == '"')
			r->at++;
		else if (in_quotes && c == '"') {
			in_quotes = false;
			continue;
		} else if (!in_quotes && (c == r->separator || c == '\n')) {
			*ret_last = c == '\n';
			r->at++;
			return true;
		} else if (!in_quotes && c == '\r' && r->at + 1 < r->end && r->at[1] == '\n')
			continue;
		if (cell->length < TABLE_TEXT_CELL)
			str_add_n(cell, &c, 1);
	}
	*ret_last = true;
	return !in_quotes;
}

/* NULL if it is cut. */
static json_t *read_row(struct reading *r, bool *ret_is_wide)
{
	json_t *row = json_array();
	bool is_last = false, is_complete = true;
	while (!is_last && is_complete) {
		CLEANUP_STR struct str cell = { 0 };
		is_complete = read_cell(r, &cell, &is_last);
		if (json_array_size(row) < TABLE_TEXT_COLUMNS)
			json_array_append_new(row, json_text(str_text(&cell)));
		else
			*ret_is_wide = true;
	}
	if (is_complete)
		return row;
	json_decref(row);
	return NULL;
}

json_t *table_text(const char *text, size_t length, char separator, size_t rows, bool is_whole)
{
	const char *newline = is_whole ? NULL : memrchr(text, '\n', length);
	struct reading r = { text, newline ? newline + 1 : text + length, separator };
	bool is_cut = !is_whole;
	json_t *columns = r.at < r.end ? read_row(&r, &is_cut) : NULL, *list = json_array();
	while (r.at < r.end && json_array_size(list) < rows) {
		json_t *row = read_row(&r, &is_cut);
		if (!row) {
			is_cut = true;
			break;
		}
		json_array_append_new(list, row);
	}
	return json_pack("{s:s,s:o,s:o,s:b}", "kind", "table", "columns",
			 columns ? columns : json_array(), "rows", list, "truncated",
			 is_cut || r.at < r.end);
}

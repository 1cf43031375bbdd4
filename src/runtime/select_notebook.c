/* Jupyter notebooks: which kernel they ask for, and the code of their cells. */
#include <string.h>

#include "runtime/select_json.h"
#include "runtime/select_parts.h"

#define NAME_BYTES_MAX 256

void notebook_release(struct notebook *n)
{
	free(n->kernel);
	free(n->language);
	str_release(&n->code);
	*n = (struct notebook){ 0 };
}

struct reading {
	struct notebook *notebook;
	char *language_info; /* owned */
	struct str cell;     /* of the cell that is being read */
	bool is_code;
};

/* A value that is no string is nobody's name. */
static int read_name(struct skim *s, char **ret, struct err *err)
{
	CLEANUP_STR struct str text = { 0 };
	if (skim_peek(s) != '"')
		return skim_skip(s, err);
	int r = skim_string(s, NAME_BYTES_MAX, &text, err);
	if (r < 0)
		return r;
	free(*ret);
	*ret = NULL;
	if (text.length > 0 && str_is_utf8(text.text, text.length))
		*ret = str_take(&text);
	return 0;
}

static int take_kernelspec(struct skim *s, const char *key, void *data, struct err *err)
{
	struct reading *to = data;
	if (str_eq(key, "name"))
		return read_name(s, &to->notebook->kernel, err);
	if (str_eq(key, "language"))
		return read_name(s, &to->notebook->language, err);
	return skim_skip(s, err);
}

static int take_language_info(struct skim *s, const char *key, void *data, struct err *err)
{
	if (str_eq(key, "name"))
		return read_name(s, &((struct reading *)data)->language_info, err);
	return skim_skip(s, err);
}

static int take_metadata(struct skim *s, const char *key, void *data, struct err *err)
{
	bool object = skim_peek(s) == '{';
	if (object && str_eq(key, "kernelspec"))
		return skim_each(s, take_kernelspec, data, err);
	if (object && str_eq(key, "language_info"))
		return skim_each(s, take_language_info, data, err);
	return skim_skip(s, err);
}

static int take_source_line(struct skim *s, const char *key, void *data, struct err *err)
{
	struct reading *to = data;
	if (skim_peek(s) != '"')
		return skim_skip(s, err);
	return skim_string(s, SCRIPT_READ_MAX, &to->cell, err);
}

static int take_cell(struct skim *s, const char *key, void *data, struct err *err)
{
	struct reading *to = data;
	char c = skim_peek(s);
	if (str_eq(key, "cell_type") && c == '"') {
		CLEANUP_STR struct str type = { 0 };
		int r = skim_string(s, NAME_BYTES_MAX, &type, err);
		to->is_code = str_eq(str_text(&type), "code");
		return r;
	}
	if (str_eq(key, "source") && c == '[')
		return skim_each(s, take_source_line, to, err);
	if (str_eq(key, "source"))
		return take_source_line(s, key, to, err);
	return skim_skip(s, err);
}

/* IPython's own lines are no Python: %magic, !command, ?help. A cell of another language, %%bash, says nothing here. */
static void add_cell(struct str *code, const struct str *cell)
{
	static const char *const python_magics[] = { "%%time", "%%timeit", "%%capture", "%%prun" };
	const char *p = str_text(cell);
	bool ours = !str_starts(p, "%%");
	for (size_t i = 0; !ours && i < sizeof python_magics / sizeof *python_magics; i++)
		ours = str_starts(p, python_magics[i]);
	if (!ours || code->length + cell->length >= SCRIPT_READ_MAX)
		return;
	while (*p) {
		size_t n = strcspn(p, "\n");
		size_t blank = strspn(p, " \t");
		if (!strchr("%!?", p[blank]))
			str_add_n(code, p, n);
		str_add(code, "\n");
		p += n + (p[n] == '\n');
	}
}

static int take_cells(struct skim *s, const char *key, void *data, struct err *err)
{
	struct reading *to = data;
	if (skim_peek(s) != '{')
		return skim_skip(s, err);
	str_release(&to->cell);
	to->is_code = false;
	int r = skim_each(s, take_cell, to, err);
	if (r >= 0 && to->is_code)
		add_cell(&to->notebook->code, &to->cell);
	return r;
}

static int take_top(struct skim *s, const char *key, void *data, struct err *err)
{
	char c = skim_peek(s);
	if (str_eq(key, "metadata") && c == '{')
		return skim_each(s, take_metadata, data, err);
	if (str_eq(key, "cells") && c == '[')
		return skim_each(s, take_cells, data, err);
	return skim_skip(s, err);
}

int notebook_read(const char *file, const char *text, size_t length, struct notebook *ret,
		  struct err *err)
{
	CLEANUP_NOTEBOOK struct notebook n = { 0 };
	struct reading to = { .notebook = &n };
	struct skim s = { .file = file, .start = text, .p = text, .end = text + length };
	int r = skim_peek(&s) == '{' ? skim_each(&s, take_top, &to, err)
				     : skim_error(&s, err, "it is no JSON object");
	if (r >= 0)
		r = skim_finish(&s, err);
	if (!n.language)
		n.language = take_ptr(to.language_info);
	free(to.language_info);
	str_release(&to.cell);
	if (r < 0)
		return r;
	*ret = n;
	n = (struct notebook){ 0 };
	return 0;
}

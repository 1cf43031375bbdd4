/* TOML: keys, tables, arrays. Strings and the other scalars are in select_toml_scalar.c. */
#include "runtime/select_toml.h"

#include <string.h>

#include "runtime/select_toml_parts.h"

int toml_error(const struct toml *t, struct err *err, const char *what)
{
	return err_caller(err, "%s:%d: in the script's metadata: %s", t->reader->file,
			  t->reader->first_line + t->line, what);
}

static int push(struct toml *t, char *owned, struct err *err)
{
	CLEANUP_FREE char *key = owned;
	if (t->depth == TOML_DEPTH_MAX)
		return toml_error(t, err, "keys or values are nested too deeply");
	t->path[t->depth++] = take_ptr(key);
	return 0;
}

static void pop(struct toml *t, size_t depth)
{
	while (t->depth > depth)
		free(t->path[--t->depth]);
}

static int give(struct toml *t, enum toml_kind kind, const char *text, int line, struct err *err)
{
	struct toml_value value = { (const char *const *)t->path, t->depth, kind, text, line };
	return t->reader->take(t->reader->data, &value, err);
}

void toml_blank(struct toml *t)
{
	while (t->p < t->end && (*t->p == ' ' || *t->p == '\t'))
		t->p++;
}

/* A comment up to its line's end; control characters have no place even there. */
static int skip_comment(struct toml *t, struct err *err)
{
	if (t->p == t->end || *t->p != '#')
		return 0;
	for (; t->p < t->end && *t->p != '\n'; t->p++)
		if (toml_is_control(*t->p))
			return toml_error(t, err, "a control character in a comment");
	return 0;
}

/* Blanks, comments and line ends, where TOML allows them: between statements and in arrays. */
static int skip_lines(struct toml *t, struct err *err)
{
	for (;;) {
		toml_blank(t);
		int r = skip_comment(t, err);
		if (r < 0)
			return r;
		if (t->p == t->end || *t->p != '\n')
			return 0;
		t->p++;
		t->line++;
	}
}

static bool is_bare(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-';
}

static int read_key(struct toml *t, struct err *err)
{
	CLEANUP_STR struct str key = { 0 };
	if (t->p < t->end && (*t->p == '"' || *t->p == '\'')) {
		int r = toml_string(t, TOML_ONE_LINE, &key, err);
		if (r < 0)
			return r;
	} else {
		const char *start = t->p;
		while (t->p < t->end && is_bare(*t->p))
			t->p++;
		if (t->p == start)
			return toml_error(t, err, "a key is missing or is not a word");
		str_add_n(&key, start, (size_t)(t->p - start));
	}
	return push(t, str_take(&key), err);
}

static int read_keys(struct toml *t, struct err *err)
{
	for (;;) {
		toml_blank(t);
		int r = read_key(t, err);
		if (r < 0)
			return r;
		toml_blank(t);
		if (t->p == t->end || *t->p != '.')
			return 0;
		t->p++;
	}
}

static int read_value(struct toml *t, struct err *err);

static int read_pair(struct toml *t, struct err *err)
{
	size_t depth = t->depth;
	int r = read_keys(t, err);
	if (r < 0)
		return r;
	if (t->p == t->end || *t->p != '=')
		return toml_error(t, err, "'=' is missing after a key");
	t->p++;
	toml_blank(t);
	r = read_value(t, err);
	pop(t, depth);
	return r;
}

static int read_array(struct toml *t, struct err *err)
{
	for (t->p++;;) {
		int r = skip_lines(t, err);
		if (r < 0)
			return r;
		if (t->p < t->end && *t->p == ']')
			break;
		size_t depth = t->depth;
		r = push(t, NULL, err);
		if (r >= 0)
			r = read_value(t, err);
		if (r >= 0)
			r = skip_lines(t, err);
		pop(t, depth);
		if (r < 0)
			return r;
		if (t->p < t->end && *t->p == ',')
			t->p++;
		else if (t->p == t->end || *t->p != ']')
			return toml_error(t, err, "',' or ']' is missing in a list");
	}
	t->p++;
	return 0;
}

/* In one line and without a comma at the end: TOML 1.0. */
static int read_inline_table(struct toml *t, struct err *err)
{
	t->p++;
	toml_blank(t);
	if (t->p < t->end && *t->p == '}') {
		t->p++;
		return 0;
	}
	for (;;) {
		int r = read_pair(t, err);
		if (r < 0)
			return r;
		toml_blank(t);
		if (t->p == t->end || (*t->p != ',' && *t->p != '}'))
			return toml_error(t, err, "',' or '}' is missing in a table");
		if (*t->p++ == '}')
			return 0;
	}
}

static int read_value(struct toml *t, struct err *err)
{
	CLEANUP_STR struct str text = { 0 };
	int line = t->line;
	char first = t->p < t->end ? *t->p : '\n';
	int r = 0;
	if (first == '[' || first == '{') {
		/* The values inside cost a level each, so recursion ends where push() does. */
		r = give(t, first == '[' ? TOML_ARRAY : TOML_TABLE, NULL, line, err);
		if (r < 0)
			return r;
		return first == '[' ? read_array(t, err) : read_inline_table(t, err);
	}
	if (first == '"' || first == '\'') {
		r = toml_string(t, TOML_ANY_LINES, &text, err);
		return r < 0 ? r : give(t, TOML_STRING, str_text(&text), line, err);
	}
	r = toml_other(t, err);
	return r < 0 ? r : give(t, TOML_OTHER, NULL, line, err);
}

static int read_header(struct toml *t, struct err *err)
{
	bool list = t->p + 1 < t->end && t->p[1] == '[';
	t->p += list ? 2 : 1;
	pop(t, 0);
	int r = read_keys(t, err);
	if (r < 0)
		return r;
	for (int i = 0; i < (list ? 2 : 1); i++) {
		if (t->p == t->end || *t->p != ']')
			return toml_error(t, err, "']' is missing after a table's name");
		t->p++;
	}
	if (list && (r = push(t, NULL, err)) < 0)
		return r;
	return give(t, TOML_TABLE, NULL, t->line, err);
}

static int read_statement(struct toml *t, struct err *err)
{
	if (t->end - t->p >= 3 && memcmp(t->p, "///", 3) == 0)
		return toml_error(
			t, err,
			"a block ends before another begins: put an empty line between them");
	int r = *t->p == '[' ? read_header(t, err) : read_pair(t, err);
	if (r < 0)
		return r;
	toml_blank(t);
	r = skip_comment(t, err);
	if (r >= 0 && t->p < t->end && *t->p != '\n')
		return toml_error(t, err, "only a comment may follow in this line");
	return r;
}

int toml_read(const struct toml_reader *reader, const char *text, size_t length, struct err *err)
{
	struct toml t = { .reader = reader, .p = text, .end = text + length, .line = 1 };
	int r = skip_lines(&t, err);
	while (r >= 0 && t.p < t.end) {
		r = read_statement(&t, err);
		if (r >= 0)
			r = skip_lines(&t, err);
	}
	pop(&t, 0);
	return r;
}

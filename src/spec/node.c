/* Reading typed values out of a document, with errors that say what was expected and where. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "spec/show.h"
#include "spec/yaml.h"

#define ROWS_MAX 64

static bool is_sent(const struct document *d)
{
	return str_eq(document_file(d), DOCUMENT_SENT);
}

char *node_place(const struct document *d, const struct node *n)
{
	if (is_sent(d))
		return xstrdup("the analysis");
	return n ? xasprintf("%s:%d:%d", document_file(d), n->line, n->column)
		 : xstrdup(document_file(d));
}

int node_error(const struct document *d, const struct node *n, struct err *err, const char *format,
	       ...)
{
	CLEANUP_FREE char *place = node_place(d, n);
	char text[sizeof(err->text)];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return err_caller(err, "%s: %s", place, text);
}

/* The place of a byte, where there is no mark. */
struct node text_place(const char *text, size_t offset)
{
	struct node at = { .line = 1, .column = 1 };

	for (size_t i = 0; i < offset; i++) {
		at.column = text[i] == '\n' ? 1 : at.column + 1;
		at.line += text[i] == '\n';
	}
	return at;
}

const char *text_remedy(const char *text, size_t length, int at)
{
	const char *line = text, *end = text + length;
	for (int i = 1; line && i < at; i++) {
		line = memchr(line, '\n', (size_t)(end - line));
		line = line ? line + 1 : NULL;
	}
	if (!line)
		return "check indentation and quotes";
	const char *stop = memchr(line, '\n', (size_t)(end - line));
	size_t n = (size_t)((stop ? stop : end) - line);
	for (size_t i = 0; i < n && (line[i] == ' ' || line[i] == '\t'); i++)
		if (line[i] == '\t')
			return "indent with spaces, not with tabs";
	if (memmem(line, n, "{{", 2))
		return "a text with {{ in it is written in quotes";
	return "check indentation and quotes";
}

static const char *kind_name(const struct node *n)
{
	static const char *const names[] = { "a text", "a list", "a map" };

	return names[n->kind];
}

bool node_is_null(const struct node *n)
{
	static const char *const nulls[] = { "", "~", "null", "Null", "NULL" };

	if (n->kind != NODE_SCALAR || n->quoted)
		return false;
	for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++) {
		if (str_eq(n->text, nulls[i]))
			return true;
	}
	return false;
}

const struct node *map_get(const struct node *map, const char *key)
{
	for (size_t i = 0; map && map->kind == NODE_MAP && i < map->n; i++) {
		if (str_eq(map->keys[i]->text, key))
			return map->values[i];
	}
	return NULL;
}

static const struct key_row *row_find(const struct key_row *rows, size_t n_rows, const char *key)
{
	for (size_t i = 0; i < n_rows; i++) {
		if (str_eq(rows[i].key, key))
			return &rows[i];
	}
	return NULL;
}

static void words_join(struct str *out, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		str_addf(out, "%s%s", i ? ", " : "", words[i]);
}

/* "unknown key 'memroy'; did you mean 'memory'?", or all the words when none is near. */
static int word_unknown(const struct document *d, const struct node *n, const char *what,
			const char *const *words, size_t count, struct err *err)
{
	CLEANUP_STR struct str known = { 0 };
	char shown[SHOW_ROOM];
	const char *nearest = str_nearest(n->text, words, count);

	show_text(n->text, shown);
	if (nearest)
		return node_error(d, n, err, "unknown %s '%s'; did you mean '%s'?", what, shown,
				  nearest);
	words_join(&known, words, count);
	return node_error(d, n, err, "unknown %s '%s'; known: %s", what, shown, str_text(&known));
}

static int key_unknown(const struct document *d, const struct node *key, const struct key_row *rows,
		       size_t n_rows, struct err *err)
{
	const char *words[ROWS_MAX];
	size_t count = n_rows < ROWS_MAX ? n_rows : ROWS_MAX;

	for (size_t i = 0; i < count; i++)
		words[i] = rows[i].key;
	return word_unknown(d, key, "key", words, count, err);
}

int map_read(const struct document *d, const struct node *map, const struct key_row *rows,
	     size_t n_rows, void *target, struct err *err)
{
	if (!map)
		return 0;
	if (map->kind != NODE_MAP)
		return node_error(d, map, err, "expected a map (key: value), found %s",
				  kind_name(map));
	for (size_t i = 0; i < map->n; i++) {
		const struct node *key = map->keys[i], *value = map->values[i];
		const struct key_row *row = row_find(rows, n_rows, key->text);
		if (!row)
			return key_unknown(d, key, rows, n_rows, err);
		if (node_is_null(value))
			return node_error(d, key, err,
					  "'%s' is empty; give it a value or remove it", row->key);
		int r = row->read(d, value, target, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int scalar_text(const struct document *d, const struct node *n, const char **ret,
		       struct err *err)
{
	if (n->kind != NODE_SCALAR)
		return node_error(d, n, err, "expected a text, found %s", kind_name(n));
	if (node_is_null(n))
		return node_error(d, n, err,
				  "the value is empty; give it a value, in quotes if it is '%s'",
				  n->text);
	*ret = n->text;
	return 0;
}

int node_string(const struct document *d, const struct node *n, char **ret, struct err *err)
{
	const char *text = NULL;
	int r = scalar_text(d, n, &text, err);

	if (r < 0)
		return r;
	*ret = xstrdup(text);
	return 0;
}

int node_bool(const struct document *d, const struct node *n, bool *ret, struct err *err)
{
	char shown[SHOW_ROOM];

	if (n->kind != NODE_SCALAR)
		return node_error(d, n, err, "expected true or false, found %s", kind_name(n));
	if (n->quoted || (!str_eq(n->text, "true") && !str_eq(n->text, "false")))
		return node_error(d, n, err, "expected true or false without quotes, found '%s'",
				  show_text(n->text, shown));
	*ret = n->text[0] == 't';
	return 0;
}

int node_strings(const struct document *d, const struct node *n, size_t max, struct strv *ret,
		 struct err *err)
{
	CLEANUP_STRV struct strv list = { 0 };

	if (n->kind != NODE_LIST)
		return node_error(d, n, err, "expected a list ([a, b]), found %s", kind_name(n));
	if (n->n > max)
		return node_error(d, n, err, "a list of %zu; at most %zu are allowed", n->n, max);
	for (size_t i = 0; i < n->n; i++) {
		const char *text = NULL;
		int r = scalar_text(d, n->values[i], &text, err);
		if (r < 0)
			return r;
		strv_add(&list, text);
	}
	for (size_t i = 0; i < list.n; i++)
		strv_take(ret, take_ptr(list.v[i]));
	list.n = 0;
	return 0;
}

int node_word(const struct document *d, const struct node *n, const char *const *words,
	      size_t count, struct err *err)
{
	const char *text = NULL;
	int r = scalar_text(d, n, &text, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		if (str_eq(text, words[i]))
			return (int)i;
	}
	return word_unknown(d, n, "word", words, count, err);
}

char *node_origin(const struct document *d, const struct node *n)
{
	return is_sent(d) ? node_place(d, n) : xasprintf("%s:%d", document_file(d), n->line);
}

#include "base/writer.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/json.h"

void writer_release(struct writer *w)
{
	str_release(&w->text);
}

static void new_line(struct writer *w)
{
	str_add_n(&w->text, "\n", 1);
	for (unsigned i = 0; i < w->depth; i++)
		str_add_n(&w->text, "  ", 2);
}

/* What stands before a value. */
static void begin(struct writer *w, const char *key)
{
	if (w->depth > 0) {
		if (!w->is_empty)
			str_add_n(&w->text, ",", 1);
		new_line(w);
	}
	w->is_empty = false;
	if (!key)
		return;
	str_add_n(&w->text, "\"", 1);
	str_add(&w->text, key);
	str_add_n(&w->text, "\": ", 3);
}

void writer_open(struct writer *w, const char *key, char bracket)
{
	begin(w, key);
	str_add_n(&w->text, &bracket, 1);
	w->depth++;
	w->is_empty = true;
}

void writer_close(struct writer *w, char bracket)
{
	w->depth--;
	if (!w->is_empty)
		new_line(w);
	str_add_n(&w->text, &bracket, 1);
	w->is_empty = false;
}

static void add_escaped(struct str *out, char c)
{
	static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
	const char *at = strchr(plain, c);
	if (c && at)
		str_addf(out, "\\%c", letters[at - plain]);
	else
		str_addf(out, "\\u%04X", (unsigned)(unsigned char)c);
}

static void add_quoted(struct str *out, const char *text)
{
	str_add_n(out, "\"", 1);
	for (;;) {
		size_t n = 0;
		while ((unsigned char)text[n] >= ' ' && text[n] != '"' && text[n] != '\\')
			n++;
		str_add_n(out, text, n);
		text += n;
		if (!*text)
			break;
		add_escaped(out, *text++);
	}
	str_add_n(out, "\"", 1);
}

void writer_text(struct writer *w, const char *key, const char *text)
{
	if (!text || !str_is_utf8(text, strlen(text))) {
		writer_value(w, key, json_text(text));
		return;
	}
	begin(w, key);
	add_quoted(&w->text, text);
}

void writer_u64(struct writer *w, const char *key, uint64_t value)
{
	begin(w, key);
	str_addf(&w->text, "%llu",
		 (unsigned long long)(value > INT64_MAX ? (uint64_t)INT64_MAX : value));
}

void writer_bool(struct writer *w, const char *key, bool value)
{
	begin(w, key);
	str_add(&w->text, value ? "true" : "false");
}

void writer_texts(struct writer *w, const char *key, const struct strv *texts)
{
	writer_open(w, key, '[');
	for (size_t i = 0; i < texts->n; i++)
		writer_text(w, NULL, texts->v[i]);
	writer_close(w, ']');
}

/* Its lines are put as deep as this place is; no string has an end of line in it. */
void writer_value(struct writer *w, const char *key, json_t *value)
{
	CLEANUP_JSON json_t *owned = value;
	CLEANUP_FREE char *text = json_dumps(owned, JSON_INDENT(2) | JSON_ENCODE_ANY);
	begin(w, key);
	for (const char *line = text ? text : "null"; line;) {
		const char *end = strchr(line, '\n');
		str_add_n(&w->text, line, end ? (size_t)(end - line) : strlen(line));
		if (end)
			new_line(w);
		line = end ? end + 1 : NULL;
	}
}

/* Growing strings, lists of strings, and the few questions we ask about text. */
#include "base/str.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void out_of_memory(void)
{
	static const char text[] = "cupel: out of memory\n";
	ssize_t ignored = write(STDERR_FILENO, text, sizeof(text) - 1);

	(void)ignored;
	abort();
}

void *xmalloc(size_t size)
{
	return xrealloc(NULL, size);
}

void *xcalloc(size_t count, size_t size)
{
	void *fresh = calloc(count ? count : 1, size ? size : 1);

	if (!fresh)
		out_of_memory();
	return fresh;
}

void *xrealloc(void *old, size_t size)
{
	void *fresh = realloc(old, size ? size : 1);

	if (!fresh)
		out_of_memory();
	return fresh;
}

void *xreallocarray(void *old, size_t count, size_t size)
{
	size_t bytes = 0;

	if (__builtin_mul_overflow(count, size, &bytes))
		out_of_memory();
	return xrealloc(old, bytes);
}

char *xstrdup(const char *text)
{
	return xstrndup(text, strlen(text));
}

char *xstrndup(const char *text, size_t length)
{
	size_t n = strnlen(text, length);
	char *fresh = xmalloc(n + 1);

	memcpy(fresh, text, n);
	fresh[n] = '\0';
	return fresh;
}

char *xvasprintf(const char *format, va_list args)
{
	char *text = NULL;

	if (vasprintf(&text, format, args) < 0)
		out_of_memory();
	return text;
}

char *xasprintf(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	char *text = xvasprintf(format, args);
	va_end(args);
	return text;
}

void str_release(struct str *s)
{
	if (!s)
		return;
	free(s->text);
	*s = (struct str){ 0 };
}

void str_add(struct str *s, const char *text)
{
	str_add_n(s, text, strlen(text));
}

void str_add_n(struct str *s, const void *bytes, size_t length)
{
	size_t need = 0;

	if (__builtin_add_overflow(s->length, length, &need) || need > SIZE_MAX / 4)
		out_of_memory();
	if (need + 1 > s->room) {
		s->room = need + 1 > 2 * s->room ? need + 1 : 2 * s->room;
		if (s->room < 32)
			s->room = 32;
		s->text = xrealloc(s->text, s->room);
	}
	if (length > 0)
		memcpy(s->text + s->length, bytes, length);
	s->length = need;
	s->text[need] = '\0';
}

void str_addf(struct str *s, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	CLEANUP_FREE char *text = xvasprintf(format, args);
	va_end(args);
	str_add(s, text);
}

const char *str_text(const struct str *s)
{
	return s->text ? s->text : "";
}

char *str_take(struct str *s)
{
	char *text = s->text ? s->text : xstrdup("");

	*s = (struct str){ 0 };
	return text;
}

void strv_release(struct strv *list)
{
	if (!list)
		return;
	for (size_t i = 0; i < list->n; i++)
		free(list->v[i]);
	free(list->v);
	*list = (struct strv){ 0 };
}

void strv_add(struct strv *list, const char *text)
{
	strv_take(list, xstrdup(text));
}

void strv_addf(struct strv *list, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	strv_take(list, xvasprintf(format, args));
	va_end(args);
}

/* Room is not stored: it is the next power of two above n, so it grows when n + 2 passes one. */
void strv_take(struct strv *list, char *owned)
{
	size_t need = list->n + 2;

	if (!list->v || (need & (need - 1)) == 0)
		list->v = xreallocarray(list->v, need < 4 ? 4 : 2 * need, sizeof(*list->v));
	list->v[list->n++] = owned;
	list->v[list->n] = NULL;
}

void strv_copy(struct strv *list, const struct strv *from)
{
	size_t n = from->n; /* fixed first: `from` may be the list itself */

	for (size_t i = 0; i < n; i++)
		strv_add(list, from->v[i]);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void strv_sort(struct strv *list)
{
	if (list->n > 1)
		qsort(list->v, list->n, sizeof *list->v, by_text);
}

bool strv_has(const struct strv *list, const char *text)
{
	for (size_t i = 0; i < list->n; i++)
		if (str_eq(list->v[i], text))
			return true;
	return false;
}

char *const *strv_argv(struct strv *list)
{
	if (!list->v)
		list->v = xcalloc(4, sizeof(*list->v));
	return list->v;
}

bool str_starts(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *text, const char *suffix)
{
	size_t n = strlen(text);
	size_t m = strlen(suffix);

	return n >= m && memcmp(text + n - m, suffix, m) == 0;
}

size_t str_utf8_length(const char *text, size_t length)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *b = (const unsigned char *)text;

	if (length == 0)
		return 0;
	if (b[0] < 0x80)
		return 1;
	size_t n = b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : 2;
	if (b[0] < 0xc2 || b[0] > 0xf4 || n > length)
		return 0;
	uint32_t c = b[0] & (0xffU >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		if ((b[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (b[i] & 0x3f);
	}
	/* Overlong forms, surrogates and what lies beyond Unicode are no characters. */
	if (c < least[n] || (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff)
		return 0;
	return n;
}

bool str_is_utf8(const char *text, size_t length)
{
	size_t at = 0;

	while (at < length) {
		size_t n = str_utf8_length(text + at, length - at);
		if (n == 0)
			return false;
		at += n;
	}
	return true;
}

#define DISTANCE_MAX 64

static unsigned least_of(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* Optimal string alignment: two neighbours swapped are one mistake, the commonest one of typing. */
unsigned str_distance(const char *a, const char *b)
{
	unsigned rows[3][DISTANCE_MAX + 1];
	size_t n = strnlen(a, DISTANCE_MAX);
	size_t m = strnlen(b, DISTANCE_MAX);

	for (size_t j = 0; j <= m; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= n; i++) {
		unsigned *row = rows[i % 3];
		const unsigned *above = rows[(i + 2) % 3];
		const unsigned *second = rows[(i + 1) % 3];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= m; j++) {
			unsigned best = least_of(above[j], row[j - 1]) + 1;

			best = least_of(best, above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = least_of(best, second[j - 2] + 1);
			row[j] = best;
		}
	}
	return rows[n % 3][m];
}

const char *str_nearest(const char *word, const char *const *words, size_t count)
{
	const char *nearest = NULL;
	unsigned least = UINT32_MAX;

	for (size_t i = 0; i < count; i++) {
		size_t n = strnlen(word, DISTANCE_MAX);
		size_t m = strnlen(words[i], DISTANCE_MAX);
		unsigned distance = str_distance(word, words[i]);

		if (distance <= (n > m ? n : m) / 3 && distance < least) {
			least = distance;
			nearest = words[i];
		}
	}
	return nearest;
}

bool str_is_deceptive(const char *text, size_t n)
{
	const unsigned char *b = (const unsigned char *)text;

	if (n == 1)
		return b[0] < 0x20 || b[0] == 0x7f;
	if (n == 2)
		return (b[0] == 0xc2 && b[1] < 0xa0) || (b[0] == 0xd8 && b[1] == 0x9c);
	if (n != 3 || b[0] != 0xe2)
		return false;
	return (b[1] == 0x80 && (b[2] == 0x8e || b[2] == 0x8f || (b[2] >= 0xaa && b[2] <= 0xae))) ||
	       (b[1] == 0x81 && b[2] >= 0xa6 && b[2] <= 0xa9);
}

void str_clean(char *text)
{
	for (size_t left = strlen(text), n; left > 0; text += n, left -= n) {
		n = str_utf8_length(text, left);
		bool odd = n == 0 || str_is_deceptive(text, n);
		n = n ? n : 1;
		if (odd)
			memset(text, '?', n);
	}
}

char *str_visible(const char *text)
{
	char *copy = xstrdup(text);

	str_clean(copy);
	return copy;
}

char *str_quoted(const char *text)
{
	struct str out = { 0 };
	str_add(&out, "'");
	for (; *text; text++)
		str_add_n(&out, *text == '\'' ? "'\\''" : text, *text == '\'' ? 4 : 1);
	str_add(&out, "'");
	return out.text;
}

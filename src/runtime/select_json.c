/* JSON as it passes by. */
#include "runtime/select_json.h"

#include <string.h>

#define KEY_MAX 256 /* bytes of a key that are compared */

int skim_error(const struct skim *s, struct err *err, const char *what)
{
	int line = 1;
	for (const char *p = s->start; p < s->p; p++)
		line += *p == '\n';
	return err_caller(err, "%s:%d: not a notebook: %s", s->file, line, what);
}

char skim_peek(struct skim *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r'))
		s->p++;
	return s->p < s->end ? *s->p : '\0';
}

static void add_utf8(struct str *s, unsigned c)
{
	char out[4];
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const unsigned char marks[] = { 0, 0x00, 0xc0, 0xe0, 0xf0 };
	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)(marks[n] | c);
	str_add_n(s, out, n);
}

/* Four hexadecimal digits at s->p, or -1. */
static int read_unit(struct skim *s)
{
	int c = 0;
	for (int i = 0; i < 4; i++, s->p++) {
		char d = s->p < s->end ? *s->p : ' ';
		if (d >= '0' && d <= '9')
			c = c << 4 | (d - '0');
		else if ((d | 0x20) >= 'a' && (d | 0x20) <= 'f')
			c = c << 4 | ((d | 0x20) - 'a' + 10);
		else
			return -1;
	}
	return c;
}

/* Behind "\u". A surrogate without its other half becomes U+FFFD, as in what Python writes. */
static int read_unicode(struct skim *s, struct str *ret, struct err *err)
{
	int c = read_unit(s);
	if (c < 0)
		return skim_error(s, err, "an escape lacks hexadecimal digits");
	if (c >= 0xd800 && c < 0xdc00 && s->end - s->p >= 6 && s->p[0] == '\\' && s->p[1] == 'u') {
		const char *back = s->p;
		s->p += 2;
		int low = read_unit(s);
		if (low >= 0xdc00 && low < 0xe000)
			c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		else
			s->p = back;
	}
	if (c >= 0xd800 && c < 0xe000)
		c = 0xfffd;
	if (ret && c > 0)
		add_utf8(ret, (unsigned)c);
	return 0;
}

static int read_escape(struct skim *s, struct str *ret, struct err *err)
{
	static const char from[] = "\"\\/bfnrt";
	static const char to[] = "\"\\/\b\f\n\r\t";
	char c = s->p < s->end ? *s->p++ : '\0';
	if (c == 'u')
		return read_unicode(s, ret, err);
	const char *at = c ? strchr(from, c) : NULL;
	if (!at)
		return skim_error(s, err, "an unknown escape in a string");
	if (ret)
		str_add_n(ret, &to[at - from], 1);
	return 0;
}

int skim_string(struct skim *s, size_t max, struct str *ret, struct err *err)
{
	if (skim_peek(s) != '"')
		return skim_error(s, err, "a string is missing");
	for (s->p++;;) {
		const char *start = s->p;
		while (s->p < s->end && *s->p != '"' && *s->p != '\\' &&
		       (unsigned char)*s->p >= 0x20)
			s->p++;
		size_t n = (size_t)(s->p - start);
		if (ret && ret->length + n > max) {
			str_add_n(ret, start, max > ret->length ? max - ret->length : 0);
			ret = NULL;
		}
		if (ret && n > 0)
			str_add_n(ret, start, n);
		if (s->p == s->end)
			return skim_error(s, err, "a string is not closed");
		char c = *s->p++;
		if (c == '"')
			return 0;
		if (c != '\\')
			return skim_error(s, err, "a control character in a string");
		int r = read_escape(s, ret && ret->length < max ? ret : NULL, err);
		if (r < 0)
			return r;
	}
}

static size_t digits(struct skim *s)
{
	const char *start = s->p;
	while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
		s->p++;
	return (size_t)(s->p - start);
}

static int skip_number(struct skim *s, struct err *err)
{
	s->p += *s->p == '-';
	bool zero = s->p < s->end && *s->p == '0';
	size_t n = digits(s);
	bool ok = n > 0 && !(zero && n > 1);
	if (ok && s->p < s->end && *s->p == '.') {
		s->p++;
		ok = digits(s) > 0;
	}
	if (ok && s->p < s->end && (*s->p == 'e' || *s->p == 'E')) {
		s->p++;
		s->p += s->p < s->end && (*s->p == '+' || *s->p == '-');
		ok = digits(s) > 0;
	}
	return ok ? 0 : skim_error(s, err, "a value is no JSON");
}

static int skip_word(struct skim *s, struct err *err)
{
	static const char *const words[] = { "true", "false", "null" };
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		size_t n = strlen(words[i]);
		if ((size_t)(s->end - s->p) >= n && memcmp(s->p, words[i], n) == 0) {
			s->p += n;
			return 0;
		}
	}
	return skip_number(s, err);
}

static int skip_each(struct skim *s, const char *key, void *data, struct err *err)
{
	return skim_skip(s, err);
}

int skim_skip(struct skim *s, struct err *err)
{
	char c = skim_peek(s);
	if (c == '"')
		return skim_string(s, 0, NULL, err);
	if (c == '{' || c == '[')
		return skim_each(s, skip_each, NULL, err);
	return c ? skip_word(s, err) : skim_error(s, err, "it ends too early");
}

static int take_one(struct skim *s, char open, skim_take *take, void *data, struct err *err)
{
	CLEANUP_STR struct str key = { 0 };
	if (open == '[')
		return take(s, NULL, data, err);
	int r = skim_string(s, KEY_MAX, &key, err);
	if (r < 0)
		return r;
	if (skim_peek(s) != ':')
		return skim_error(s, err, "':' is missing after a key");
	s->p++;
	return take(s, str_text(&key), data, err);
}

int skim_each(struct skim *s, skim_take *take, void *data, struct err *err)
{
	char open = skim_peek(s);
	char close = open == '{' ? '}' : ']';
	if (open != '{' && open != '[')
		return skim_error(s, err, "an object or a list is missing");
	if (++s->depth > SKIM_DEPTH_MAX)
		return skim_error(s, err, "it is nested too deeply");
	s->p++;
	bool more = skim_peek(s) != close;
	s->p += !more;
	while (more) {
		int r = take_one(s, open, take, data, err);
		if (r < 0)
			return r;
		char c = skim_peek(s);
		if (c != ',' && c != close)
			return skim_error(s, err, "',' is missing, or the end");
		s->p++;
		more = c == ',';
	}
	s->depth--;
	return 0;
}

int skim_finish(struct skim *s, struct err *err)
{
	skim_peek(s);
	return s->p == s->end ? 0 : skim_error(s, err, "something follows its end");
}

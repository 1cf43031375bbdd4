/* TOML's scalars: strings of four kinds, and everything that is passed over. */
#include <regex.h>
#include <string.h>

#include "runtime/select_toml_parts.h"

#define OTHER_MAX 128 /* bytes of a number or date */

static void add_utf8(struct str *s, unsigned long c)
{
	char out[4];
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	static const unsigned char marks[] = { 0, 0x00, 0xc0, 0xe0, 0xf0 };
	out[0] = (char)(marks[n] | c);
	str_add_n(s, out, n);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int read_unicode(struct toml *t, int digits, struct str *ret, struct err *err)
{
	unsigned long c = 0;
	for (int i = 0; i < digits; i++, t->p++) {
		int digit = t->p < t->end ? hex_digit(*t->p) : -1;
		if (digit < 0)
			return toml_error(t, err, "an escape lacks hexadecimal digits");
		c = c << 4 | (unsigned)digit;
	}
	if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return toml_error(t, err, "an escape names no character");
	add_utf8(ret, c);
	return 0;
}

/* Behind the backslash. */
static int read_escape(struct toml *t, struct str *ret, struct err *err)
{
	static const char from[] = "btnfr\"\\";
	static const char to[] = "\b\t\n\f\r\"\\";
	char c = t->p < t->end ? *t->p++ : '\n';
	if (c == 'u' || c == 'U')
		return read_unicode(t, c == 'u' ? 4 : 8, ret, err);
	const char *at = c ? strchr(from, c) : NULL;
	if (!at)
		return toml_error(t, err, "an unknown escape in a string");
	str_add_n(ret, &to[at - from], 1);
	return 0;
}

/* A backslash at the end of a line swallows all blanks and line ends up to the next word. */
static bool swallow_lines(struct toml *t)
{
	const char *p = t->p;
	while (p < t->end && (*p == ' ' || *p == '\t'))
		p++;
	if (p == t->end || *p != '\n')
		return false;
	for (; p < t->end && (*p == ' ' || *p == '\t' || *p == '\n'); p++)
		t->line += *p == '\n';
	t->p = p;
	return true;
}

static size_t count_quotes(const struct toml *t, char quote)
{
	size_t n = 0;
	while (n < 5 && t->p + n < t->end && t->p[n] == quote)
		n++;
	return n;
}

/* One character of a string's inside, or an escape. */
static int read_inside(struct toml *t, char quote, bool many, struct str *ret, struct err *err)
{
	char c = *t->p;
	if (c == '\\' && quote == '"') {
		t->p++;
		if (many && swallow_lines(t))
			return 0;
		return read_escape(t, ret, err);
	}
	if (c == '\n' && many)
		t->line++;
	else if (toml_is_control(c))
		return toml_error(t, err,
				  c == '\n' ? "a string is not closed in its line"
					    : "a control character in a string");
	str_add_n(ret, t->p++, 1);
	return 0;
}

int toml_string(struct toml *t, enum toml_lines lines, struct str *ret, struct err *err)
{
	char quote = *t->p;
	size_t opened = count_quotes(t, quote);
	bool many = opened >= 3;
	if (many && lines == TOML_ONE_LINE)
		return toml_error(t, err, "a key is not of several lines");
	if (opened == 2) { /* the empty string */
		t->p += 2;
		return 0;
	}
	t->p += many ? 3 : 1;
	if (many && t->p < t->end && *t->p == '\n') {
		t->p++;
		t->line++;
	}
	while (t->p < t->end) {
		size_t n = count_quotes(t, quote);
		if (n >= (many ? 3 : 1)) {
			/* Up to two quotes may stand right before the three that close. */
			if (many)
				str_add_n(ret, t->p, n - 3);
			t->p += many ? n : 1;
			return 0;
		}
		int r = read_inside(t, quote, many, ret, err);
		if (r < 0)
			return r;
	}
	return toml_error(t, err, "a string is not closed");
}

/* Written down as TOML has them. It is compiled only for a block that holds such a value, which few do. */
#define INT      "[+-]?(0|[1-9](_?[0-9])*)"
#define DIGITS   "[0-9](_?[0-9])*"
#define DATE     "[0-9]{4}-[0-9]{2}-[0-9]{2}"
#define TIME     "[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]+)?"
#define FRACTION "(\\." DIGITS ")"
#define EXPONENT "([eE][+-]?" DIGITS ")"
static const char other_pattern[] = "^(true|false|[+-]?(inf|nan)|" INT FRACTION "?" EXPONENT
				    "?|0x[0-9A-Fa-f](_?[0-9A-Fa-f])*|"
				    "0o[0-7](_?[0-7])*|0b[01](_?[01])*|" DATE "([Tt ]" TIME
				    "([Zz]|[+-][0-9]{2}:[0-9]{2})?)?|" TIME ")$";

static bool is_other(const char *word)
{
	regex_t pattern;
	if (regcomp(&pattern, other_pattern, REG_EXTENDED | REG_NOSUB) != 0)
		return false;
	bool is = regexec(&pattern, word, 0, NULL, 0) == 0;
	regfree(&pattern);
	return is;
}

static void skip_word(struct toml *t)
{
	while (t->p < t->end && ((*t->p >= '0' && *t->p <= '9') || (*t->p >= 'a' && *t->p <= 'z') ||
				 (*t->p >= 'A' && *t->p <= 'Z') || *t->p == '+' || *t->p == '-' ||
				 *t->p == '.' || *t->p == '_' || *t->p == ':'))
		t->p++;
}

int toml_other(struct toml *t, struct err *err)
{
	const char *start = t->p;
	skip_word(t);
	/* A date and its time may have one blank between them. */
	if (t->p - start == 10 && t->end - t->p > 3 && t->p[0] == ' ' && t->p[3] == ':') {
		t->p++;
		skip_word(t);
	}
	if (t->p == start)
		return toml_error(t, err, "a value is missing; text stands in quotes");
	CLEANUP_FREE char *word = xstrndup(start, (size_t)(t->p - start));
	if (t->p - start > OTHER_MAX || !is_other(word))
		return toml_error(t, err,
				  "a value is no number, boolean or date; text stands in quotes");
	return 0;
}

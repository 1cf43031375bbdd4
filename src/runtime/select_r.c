/* What an R text loads: library(x), require(x), requireNamespace("x"), loadNamespace("x"), x::y and x:::y. */
#include <string.h>

#include "runtime/select_parts.h"

#define CALL_MAX 1000 /* bytes of a call's arguments that are looked at */

struct scan {
	const char *p, *end;
	struct strv *needs;
};

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '.' || (unsigned char)c >= 0x80;
}

static void skip_blank(struct scan *s)
{
	for (; s->p < s->end; s->p++) {
		if (*s->p == '#') {
			const char *newline = memchr(s->p, '\n', (size_t)(s->end - s->p));
			s->p = newline ? newline : s->end - 1;
		} else if (*s->p != ' ' && *s->p != '\t' && *s->p != '\n' && *s->p != '\r') {
			return;
		}
	}
}

/* From the opening quote to behind the closing one; gives what is between. */
static size_t read_string(struct scan *s, const char **ret)
{
	char quote = *s->p++;
	*ret = s->p;
	for (; s->p < s->end; s->p++) {
		if (*s->p == quote)
			return (size_t)(s->p++ - *ret);
		if (*s->p == '\\' && s->p + 1 < s->end)
			s->p++;
	}
	return 0;
}

/* r"---(...)---", at its letter; false: it is none, and nothing is passed over. */
static bool skip_raw_string(struct scan *s)
{
	const char *p = s->p + 1;
	if ((*s->p != 'r' && *s->p != 'R') || p >= s->end || (*p != '"' && *p != '\''))
		return false;
	char quote = *p++;
	size_t dashes = 0;
	for (; p < s->end && *p == '-'; p++)
		dashes++;
	const char *bracket = p < s->end && *p ? strchr("([{", *p) : NULL;
	if (!bracket)
		return false;
	char closing = *bracket == '(' ? ')' : *bracket == '[' ? ']' : '}';
	for (p++; p < s->end; p++) {
		size_t n = 0;
		if (*p != closing)
			continue;
		while (n < dashes && p + 1 + n < s->end && p[1 + n] == '-')
			n++;
		if (n == dashes && p + 1 + n < s->end && p[1 + n] == quote) {
			s->p = p + 2 + n;
			return true;
		}
	}
	s->p = s->end;
	return true;
}

static size_t name_length(const struct scan *s)
{
	size_t n = 0;
	while (s->p + n < s->end && is_name(s->p[n]))
		n++;
	return n;
}

/* With character.only the name is a variable's, and what it will hold nobody knows yet. */
static bool by_variable(const struct scan *s)
{
	static const char words[] = "character.only";
	size_t room = s->end - s->p < CALL_MAX ? (size_t)(s->end - s->p) : CALL_MAX;
	const char *close = memchr(s->p, ')', room);
	return close && memmem(s->p, (size_t)(close - s->p), words, sizeof words - 1);
}

/* Behind the function's name. */
static void read_call(struct scan *s)
{
	const char *name = NULL;
	size_t n = 0;
	skip_blank(s);
	if (s->p == s->end || *s->p != '(')
		return;
	s->p++;
	skip_blank(s);
	if (s->p < s->end && (*s->p == '"' || *s->p == '\'' || *s->p == '`')) {
		n = read_string(s, &name);
	} else {
		name = s->p;
		n = name_length(s);
		s->p += n;
	}
	skip_blank(s);
	if (n > 0 && s->p < s->end && (*s->p == ')' || *s->p == ',') && !by_variable(s))
		needs_add(s->needs, name, n);
}

static void read_name(struct scan *s)
{
	static const char *const loaders[] = { "library", "require", "requireNamespace",
					       "loadNamespace" };
	const char *word = s->p;
	size_t n = name_length(s);
	s->p += n;
	if (s->end - s->p > 2 && s->p[0] == ':' && s->p[1] == ':') {
		needs_add(s->needs, word, n);
		return;
	}
	for (size_t i = 0; i < sizeof loaders / sizeof *loaders; i++)
		if (strlen(loaders[i]) == n && memcmp(word, loaders[i], n) == 0)
			read_call(s);
}

void needs_r(const char *text, size_t length, struct strv *ret)
{
	struct scan s = { text, text + length, ret };
	const char *ignored = NULL;
	for (skip_blank(&s); s.p < s.end; skip_blank(&s)) {
		if (*s.p == '"' || *s.p == '\'' || *s.p == '`')
			(void)read_string(&s, &ignored);
		else if (!is_name(*s.p))
			s.p++;
		else if (!skip_raw_string(&s))
			read_name(&s);
	}
}

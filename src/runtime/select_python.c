/* What a Python text imports. A scanner, no parser: `import` is a keyword, so that outside strings and comments it is always the
 * statement, wherever it is indented; what follows the word decides. */
#include <string.h>

#include "runtime/select_parts.h"

struct scan {
	const char *p, *end;
	int brackets;      /* open: a line's end does not end the statement */
	bool at_statement; /* the next word begins one */
	struct strv *needs;
};

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || (unsigned char)c >= 0x80;
}

/* From the opening quote to behind the closing one. A backslash takes the next character with it in raw strings too. */
static void skip_string(struct scan *s)
{
	char quote = *s->p;
	bool triple = s->end - s->p >= 3 && s->p[1] == quote && s->p[2] == quote;
	for (s->p += triple ? 3 : 1; s->p < s->end; s->p++) {
		if (*s->p == '\\') {
			if (s->p + 1 < s->end)
				s->p++;
		} else if (*s->p == '\n' && !triple) {
			return; /* not closed: Python would refuse it */
		} else if (*s->p == quote && (!triple || (s->end - s->p >= 3 && s->p[1] == quote &&
							  s->p[2] == quote))) {
			s->p += triple ? 3 : 1;
			return;
		}
	}
}

static void skip_line(struct scan *s)
{
	const char *newline = memchr(s->p, '\n', (size_t)(s->end - s->p));
	s->p = newline ? newline : s->end;
}

/* Blanks and joined lines inside a statement. */
static void skip_blank(struct scan *s)
{
	for (; s->p < s->end; s->p++) {
		if (*s->p == '\\' && s->p + 1 < s->end && s->p[1] == '\n')
			s->p++;
		else if (*s->p == '\\' && s->end - s->p > 2 && s->p[1] == '\r' && s->p[2] == '\n')
			s->p += 2;
		else if (*s->p != ' ' && *s->p != '\t' && *s->p != '\f')
			return;
	}
}

static size_t name_length(const struct scan *s)
{
	size_t n = 0;
	while (s->p + n < s->end && is_name(s->p[n]))
		n++;
	return n;
}

/* A dotted name: its first part, or nothing for a relative one, which comes with the analysis. False: there is no name. */
static bool read_module(struct scan *s, const char **ret, size_t *ret_length)
{
	skip_blank(s);
	bool relative = s->p < s->end && *s->p == '.';
	while (s->p < s->end && *s->p == '.') {
		s->p++;
		skip_blank(s);
	}
	*ret = s->p;
	*ret_length = relative ? 0 : name_length(s);
	for (;;) {
		size_t n = name_length(s);
		s->p += n;
		skip_blank(s);
		if (n == 0 || s->p == s->end || *s->p != '.')
			return relative || *ret_length > 0;
		s->p++;
		skip_blank(s);
	}
}

static bool read_word(struct scan *s, const char *word)
{
	skip_blank(s);
	size_t n = name_length(s);
	if (n != strlen(word) || memcmp(s->p, word, n) != 0)
		return false;
	s->p += n;
	return true;
}

/* import a.b as c, d */
static void read_import(struct scan *s)
{
	const char *name = NULL;
	size_t length = 0;
	while (read_module(s, &name, &length)) {
		if (length == 0 || (name[0] >= '0' && name[0] <= '9'))
			return; /* `import .a`, `import 3`: no statement of Python's */
		needs_add(s->needs, name, length);
		if (read_word(s, "as")) {
			skip_blank(s);
			s->p += name_length(s);
			skip_blank(s);
		}
		if (s->p == s->end || *s->p != ',')
			return;
		s->p++;
	}
}

/* from a.b import ...; what is imported from it is the module's own matter. */
static void read_from(struct scan *s)
{
	const char *name = NULL;
	size_t length = 0;
	if (read_module(s, &name, &length) && read_word(s, "import") && length > 0)
		needs_add(s->needs, name, length);
}

static void read_name(struct scan *s)
{
	const char *word = s->p;
	size_t n = name_length(s);
	s->p += n;
	/* r"...", f'...': the letters belong to the string that follows. */
	if (!s->at_statement || (s->p < s->end && (*s->p == '"' || *s->p == '\'')))
		return;
	s->at_statement = false;
	if (n == 6 && memcmp(word, "import", 6) == 0)
		read_import(s);
	else if (n == 4 && memcmp(word, "from", 4) == 0)
		read_from(s);
}

static void read_sign(struct scan *s)
{
	char c = *s->p++;
	if (c == '(' || c == '[' || c == '{')
		s->brackets++;
	else if ((c == ')' || c == ']' || c == '}') && s->brackets > 0)
		s->brackets--;
	if (c == ' ' || c == '\t' || c == '\f' || c == '\r')
		return;
	s->at_statement = s->brackets == 0 && (c == '\n' || c == ';' || c == ':');
}

void needs_python(const char *text, size_t length, struct strv *ret)
{
	struct scan s = { .p = text, .end = text + length, .at_statement = true, .needs = ret };
	while (s.p < s.end) {
		if (*s.p == '#') {
			skip_line(&s);
		} else if (*s.p == '"' || *s.p == '\'') {
			skip_string(&s);
			s.at_statement = false;
		} else if (*s.p == '\\') {
			skip_blank(&s);
			if (s.p < s.end && *s.p == '\\')
				s.p++;
		} else if (is_name(*s.p)) {
			read_name(&s);
		} else {
			read_sign(&s);
		}
	}
}

/* JSON and JSON lines: well-formed to the last byte. Names and numbers mean nothing here. */
#include "collect/check_parts.h"

#define DEPTH_MAX 100000

struct json_scan {
	struct checking *c; /* borrowed */
	uint64_t at, end;
	char *open; /* in the arena; the brackets that are open */
	size_t depth;
	bool nan;          /* NaN or Infinity, which JSON has not */
	const char *fault; /* static; NULL: none yet */
};

static int peek(const struct json_scan *s)
{
	return s->at < s->end ? s->c->bytes[s->at] : -1;
}

static void skip_space(struct json_scan *s)
{
	int b;
	while ((b = peek(s)) == ' ' || b == '\n' || b == '\r' || b == '\t')
		s->at++;
}

static bool fail(struct json_scan *s, const char *fault)
{
	if (!s->fault)
		s->fault = peek(s) < 0 ? "truncated: it ends in the middle" : fault;
	return false;
}

static bool is_hex(int b)
{
	return (b >= '0' && b <= '9') || (b >= 'a' && b <= 'f') || (b >= 'A' && b <= 'F');
}

static bool scan_escape(struct json_scan *s)
{
	int b = peek(s);
	if (b <= 0 || !strchr("\"\\/bfnrtu", b))
		return fail(s, "an unknown escape in a string");
	s->at++;
	for (int i = 0; b == 'u' && i < 4; i++, s->at++)
		if (!is_hex(peek(s)))
			return fail(s, "an unknown escape in a string");
	return true;
}

static bool scan_string(struct json_scan *s)
{
	if (peek(s) != '"')
		return fail(s, "a string was expected");
	s->at++;
	for (int b; (b = peek(s)) != '"';) {
		if (b < ' ')
			return fail(s, "a control character in a string");
		s->at++;
		if (b == '\\' && !scan_escape(s))
			return false;
	}
	s->at++;
	return true;
}

static bool scan_digits(struct json_scan *s)
{
	if (peek(s) < '0' || peek(s) > '9')
		return fail(s, "a number was expected");
	while (peek(s) >= '0' && peek(s) <= '9')
		s->at++;
	return true;
}

static bool scan_number(struct json_scan *s)
{
	if (peek(s) == '-')
		s->at++;
	bool zero = peek(s) == '0';
	uint64_t from = s->at;
	if (!scan_digits(s))
		return false;
	if (zero && s->at - from > 1)
		return fail(s, "a number that begins with 0");
	if (peek(s) == '.') {
		s->at++;
		if (!scan_digits(s))
			return false;
	}
	if (peek(s) != 'e' && peek(s) != 'E')
		return true;
	s->at++;
	if (peek(s) == '+' || peek(s) == '-')
		s->at++;
	return scan_digits(s);
}

static bool scan_word(struct json_scan *s)
{
	static const struct {
		const char *word;
		bool nan;
	} words[] = { { "true", false }, { "false", false },   { "null", false },
		      { "NaN", true },   { "Infinity", true }, { "-Infinity", true } };
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		size_t n = strlen(words[i].word);
		if (n > s->end - s->at || memcmp(s->c->bytes + s->at, words[i].word, n) != 0)
			continue;
		s->at += n;
		s->nan |= words[i].nan;
		return true;
	}
	if (s->end - s->at < 9) /* perhaps the beginning of one */
		for (size_t i = 0; i < sizeof words / sizeof *words; i++)
			if (strncmp((const char *)s->c->bytes + s->at, words[i].word,
				    s->end - s->at) == 0)
				s->at = s->end;
	return fail(s, "a value was expected");
}

static bool scan_key(struct json_scan *s)
{
	skip_space(s);
	if (!scan_string(s))
		return false;
	skip_space(s);
	if (peek(s) != ':')
		return fail(s, "a colon was expected");
	s->at++;
	return true;
}

enum begun { BEGUN_FAULT, BEGUN_OPEN, BEGUN_DONE };

/* A scalar or an empty bracket is done; in an open bracket, the next value is its first. */
static enum begun scan_begin(struct json_scan *s)
{
	skip_space(s);
	int b = peek(s);
	if (b == '"')
		return scan_string(s) ? BEGUN_DONE : BEGUN_FAULT;
	if ((b == '-' && s->at + 1 < s->end && s->c->bytes[s->at + 1] != 'I') ||
	    (b >= '0' && b <= '9'))
		return scan_number(s) ? BEGUN_DONE : BEGUN_FAULT;
	if (b != '{' && b != '[')
		return scan_word(s) ? BEGUN_DONE : BEGUN_FAULT;
	s->at++;
	skip_space(s);
	if (peek(s) == (b == '{' ? '}' : ']')) {
		s->at++;
		return BEGUN_DONE;
	}
	if (s->depth == DEPTH_MAX) {
		s->fault = "it is nested too deeply to be checked";
		return BEGUN_FAULT;
	}
	s->open[s->depth++] = (char)b;
	return b == '[' || scan_key(s) ? BEGUN_OPEN : BEGUN_FAULT;
}

/* Behind a value: closes what ends here. True if another value follows, in the innermost bracket. */
static bool scan_after(struct json_scan *s)
{
	while (s->depth > 0) {
		bool object = s->open[s->depth - 1] == '{';
		skip_space(s);
		int b = peek(s);
		if (b == ',') {
			s->at++;
			return !object || scan_key(s);
		}
		if (b != (object ? '}' : ']'))
			return fail(s, "a comma or a closing bracket was expected");
		s->at++;
		s->depth--;
	}
	return false;
}

static bool scan_value(struct json_scan *s)
{
	for (;;) {
		enum begun begun = scan_begin(s);
		if (begun == BEGUN_FAULT)
			return false;
		if (begun == BEGUN_DONE && !scan_after(s))
			return !s->fault;
	}
}

static bool begin(struct checking *c, struct json_scan *ret)
{
	*ret = (struct json_scan){ .c = c, .end = c->size, .open = checking_room(c, DEPTH_MAX) };
	if (checking_is(c, 0, "\xef\xbb\xbf", 3))
		ret->at = 3;
	if (c->size > c->left)
		checking_say(c, CHECK_UNCHECKED, "it is larger than what is looked at");
	return ret->open && c->size <= c->left;
}

static void finish(struct json_scan *s)
{
	if (s->fault && s->depth == DEPTH_MAX)
		checking_say(s->c, CHECK_UNCHECKED, "%s", s->fault);
	else if (s->fault)
		checking_say(s->c, CHECK_DAMAGED, "%s, at byte %llu", s->fault,
			     (unsigned long long)s->at);
	else if (s->nan)
		checking_say(s->c, CHECK_WARNED, "it holds NaN or Infinity, which JSON has not");
}

void format_json(struct checking *c)
{
	struct json_scan s;
	if (!begin(c, &s))
		return;
	if (scan_value(&s)) {
		skip_space(&s);
		if (s.at < s.end)
			(void)fail(&s, "something follows the value");
	}
	finish(&s);
}

void format_json_lines(struct checking *c)
{
	struct json_scan s;
	if (!begin(c, &s))
		return;
	for (skip_space(&s); s.at < c->size && !s.fault; skip_space(&s)) {
		const unsigned char *from = c->bytes + s.at;
		const unsigned char *newline = memchr(from, '\n', (size_t)(c->size - s.at));
		s.end = newline ? (uint64_t)(newline - c->bytes) : c->size;
		bool good = scan_value(&s);
		while (good && (peek(&s) == ' ' || peek(&s) == '\r' || peek(&s) == '\t'))
			s.at++;
		if (good && s.at < s.end)
			(void)fail(&s, "a line holds more than one value");
		s.end = c->size;
	}
	finish(&s);
}

/* Which programs a shell text calls: the words that stand where a command begins. A name that is built at run time is not guessed at.
 * It errs on the side of naming too much; the rule then asks only for what some runtime provides. */
#include <string.h>

#include "runtime/select_parts.h"

#define NESTED_MAX   64
#define HEREDOCS_MAX 8

struct scan {
	const char *p, *end;
	struct strv *needs;
	int depth;
	struct {
		const char *word;
		size_t length;
		bool tabs; /* <<-: leading tabs of the closing line do not count */
	} heredocs[HEREDOCS_MAX];
	size_t n_heredocs;
};

struct word {
	char text[NAME_MAX_];
	size_t length; /* may be more than there was room for */
	bool unknown;  /* holds what only the run knows */
	bool quoted;
};

static void scan_commands(struct scan *s, char closer);

static void word_add(struct word *w, char c)
{
	if (w->length < sizeof w->text)
		w->text[w->length] = c;
	w->length++;
}

static bool word_is(const struct word *w, const char *text)
{
	return !w->quoted && w->length == strlen(text) && w->length <= sizeof w->text &&
	       memcmp(w->text, text, w->length) == 0;
}

static bool word_in(const struct word *w, const char *const *list, size_t n)
{
	bool is = false;
	for (size_t i = 0; !is && i < n; i++)
		is = word_is(w, list[i]);
	return is;
}

/* Commands up to `closer`, which is passed over too. Nested too deeply, they are left unread. */
static void scan_nested(struct scan *s, char closer)
{
	if (s->depth >= NESTED_MAX)
		return;
	s->depth++;
	scan_commands(s, closer);
	s->depth--;
}

static void skip_braces(struct scan *s)
{
	int open = 0;
	for (; s->p < s->end; s->p++) {
		open += *s->p == '{';
		open -= *s->p == '}';
		if (open == 0) {
			s->p++;
			return;
		}
	}
}

/* At '$' or '`'. */
static void read_expansion(struct scan *s, struct word *w)
{
	char c = *s->p++;
	w->unknown = true;
	if (c == '`') {
		scan_nested(s, '`');
	} else if (s->p < s->end && *s->p == '(') {
		s->p++;
		scan_nested(s, ')');
	} else if (s->p < s->end && *s->p == '{') {
		skip_braces(s);
	}
}

static void read_double_quoted(struct scan *s, struct word *w)
{
	for (s->p++; s->p < s->end && *s->p != '"';) {
		if (*s->p == '$' || *s->p == '`') {
			read_expansion(s, w);
			continue;
		}
		if (*s->p == '\\' && s->p + 1 < s->end)
			s->p++;
		word_add(w, *s->p++);
	}
	s->p += s->p < s->end;
}

static void read_single_quoted(struct scan *s, struct word *w)
{
	for (s->p++; s->p < s->end && *s->p != '\'';)
		word_add(w, *s->p++);
	s->p += s->p < s->end;
}

static bool ends_word(char c)
{
	return c && strchr(" \t\r\n;&|()<>", c) != NULL;
}

static void read_word(struct scan *s, char closer, struct word *w)
{
	while (s->p < s->end && !ends_word(*s->p) && !(closer == '`' && *s->p == '`')) {
		char c = *s->p;
		if (c == '"' || c == '\'') {
			w->quoted = true;
			if (c == '"')
				read_double_quoted(s, w);
			else
				read_single_quoted(s, w);
		} else if (c == '$' || c == '`') {
			read_expansion(s, w);
		} else if (c == '\\' && s->p + 1 < s->end && s->p[1] == '\n') {
			s->p += 2;
		} else {
			s->p += c == '\\' && s->p + 1 < s->end;
			word_add(w, *s->p++);
		}
	}
}

static bool is_assignment(const struct word *w)
{
	size_t n = w->length < sizeof w->text ? w->length : sizeof w->text;
	size_t i = 0;
	while (i < n && ((w->text[i] >= 'a' && w->text[i] <= 'z') ||
			 (w->text[i] >= 'A' && w->text[i] <= 'Z') || w->text[i] == '_' ||
			 (i > 0 && w->text[i] >= '0' && w->text[i] <= '9')))
		i++;
	return i > 0 && i < n &&
	       (w->text[i] == '=' || w->text[i] == '[' ||
		(w->text[i] == '+' && i + 1 < n && w->text[i + 1] == '='));
}

static void add_command(struct scan *s, const struct word *w)
{
	if (w->unknown || w->length > sizeof w->text)
		return;
	const char *slash = memrchr(w->text, '/', w->length);
	const char *name = slash ? slash + 1 : w->text;
	needs_add(s->needs, name, w->length - (size_t)(name - w->text));
}

/* A word where a command begins; whether the next one is such a word too. */
static bool take_command(struct scan *s, const struct word *w)
{
	static const char *const before[] = { "if",    "then",  "else", "elif", "do",
					      "while", "until", "!",    "{",    "}" };
	static const char *const wrappers[] = { "exec",   "command", "builtin", "nohup", "nice",
						"time",   "env",     "xargs",   "sudo",  "timeout",
						"setsid", "stdbuf",  "parallel" };
	static const char *const others[] = { "fi",     "done",     "esac", "for",
					      "select", "function", "case", "in" };
	if (word_in(w, before, sizeof before / sizeof *before))
		return true;
	if (word_in(w, others, sizeof others / sizeof *others))
		return false;
	if (is_assignment(w) || w->text[0] == '-' || (w->text[0] >= '0' && w->text[0] <= '9'))
		return true;
	/* name() {, or a pattern of case */
	if (s->p < s->end && (*s->p == '(' || (*s->p == ')' && s->depth == 0)))
		return false;
	add_command(s, w);
	return word_in(w, wrappers, sizeof wrappers / sizeof *wrappers);
}

/* At '<' or '>': what follows is no command, unless it is <(...). */
static void read_redirection(struct scan *s, char closer)
{
	struct word target = { 0 };
	const char *start = s->p;
	while (s->p < s->end && (*s->p == '<' || *s->p == '>') && s->p - start < 3)
		s->p++;
	size_t n = (size_t)(s->p - start);
	if (n == 1 && s->p < s->end && *s->p == '(') {
		s->p++;
		scan_nested(s, ')');
		return;
	}
	bool heredoc = n == 2 && start[0] == '<' && start[1] == '<';
	bool tabs = heredoc && s->p < s->end && *s->p == '-';
	while (s->p < s->end && (*s->p == '&' || *s->p == '|' || *s->p == '-'))
		s->p++;
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\t'))
		s->p++;
	const char *word = s->p;
	read_word(s, closer, &target);
	if (!heredoc || s->n_heredocs == HEREDOCS_MAX)
		return;
	/* Quotes around the whole word are the common form; they are not part of it. */
	size_t length = (size_t)(s->p - word);
	if (length >= 2 && (*word == '\'' || *word == '"')) {
		word++;
		length -= 2;
	} else if (length >= 1 && *word == '\\') {
		word++;
		length--;
	}
	s->heredocs[s->n_heredocs].word = word;
	s->heredocs[s->n_heredocs].length = length;
	s->heredocs[s->n_heredocs++].tabs = tabs;
}

/* Behind a line's end: the bodies that its << announced. */
static void skip_heredocs(struct scan *s)
{
	for (size_t i = 0; i < s->n_heredocs; i++)
		while (s->p < s->end) {
			const char *line = s->p;
			const char *newline = memchr(line, '\n', (size_t)(s->end - line));
			s->p = newline ? newline + 1 : s->end;
			while (s->heredocs[i].tabs && line < s->end && *line == '\t')
				line++;
			size_t n = (size_t)((newline ? newline : s->end) - line);
			if (n == s->heredocs[i].length && memcmp(line, s->heredocs[i].word, n) == 0)
				break;
		}
	s->n_heredocs = 0;
}

static void scan_commands(struct scan *s, char closer)
{
	bool at_command = true;
	while (s->p < s->end) {
		char c = *s->p;
		if (c == closer && closer) {
			s->p++;
			return;
		}
		if (c == '#') {
			const char *newline = memchr(s->p, '\n', (size_t)(s->end - s->p));
			s->p = newline ? newline : s->end;
		} else if (c == '<' || c == '>') {
			read_redirection(s, closer);
		} else if (c == '(') {
			s->p++;
			scan_nested(s, ')');
			at_command = true; /* f() {, or an operator */
		} else if (c == ' ' || c == '\t' || c == '\r') {
			s->p++;
		} else if (ends_word(c)) {
			s->p++;
			at_command = true;
			if (c == '\n')
				skip_heredocs(s);
		} else {
			struct word w = { 0 };
			const char *before = s->p;
			read_word(s, closer, &w);
			if (s->p == before)
				s->p++;
			else if (at_command)
				at_command = take_command(s, &w);
		}
	}
}

void needs_shell(const char *text, size_t length, struct strv *ret)
{
	struct scan s = { .p = text, .end = text + length, .needs = ret };
	scan_commands(&s, 0);
}

/* Tables as text: each row has as many fields as the others, and what is quoted is closed. */
#include "collect/check_csv.h"

struct table_scan {
	struct checking *c; /* borrowed */
	uint64_t at, end;
	unsigned char separator;
	bool open_quote, has_nul;
	struct columns columns;
	size_t head_width, width; /* of the first row, and of the first row of data; 0: none yet */
	uint64_t line;            /* from 1 on; lines in quotes count */
	bool has_head;
};

/* Behind an opening quote; *ret is what is between the quotes, doubled ones included. */
static void scan_quoted(struct table_scan *s, struct field *ret)
{
	const unsigned char *bytes = s->c->bytes;
	uint64_t from = s->at;
	for (; s->at < s->end; s->at++) {
		s->line += bytes[s->at] == '\n';
		s->has_nul |= bytes[s->at] == 0;
		if (bytes[s->at] != '"')
			continue;
		if (s->at + 1 < s->end && bytes[s->at + 1] == '"') {
			s->at++;
			continue;
		}
		*ret = (struct field){ bytes + from, (size_t)(s->at - from) };
		s->at++;
		return;
	}
	s->open_quote = true;
	*ret = (struct field){ bytes + from, (size_t)(s->end - from) };
}

/* Stops at the separator, at the end of the line or of the text. */
static void scan_field(struct table_scan *s, struct field *ret)
{
	const unsigned char *bytes = s->c->bytes;
	bool quoted = s->at < s->end && bytes[s->at] == '"';
	if (quoted) {
		s->at++;
		scan_quoted(s, ret);
	}
	uint64_t from = s->at;
	while (s->at < s->end && bytes[s->at] != s->separator && bytes[s->at] != '\n') {
		s->has_nul |= bytes[s->at] == 0;
		s->at++;
	}
	uint64_t to = s->at > from && bytes[s->at - 1] == '\r' ? s->at - 1 : s->at;
	if (!quoted)
		*ret = (struct field){ bytes + from, (size_t)(to - from) };
}

/* True behind a separator, which is passed. */
static bool scan_goes_on(struct table_scan *s)
{
	if (s->at < s->end && s->c->bytes[s->at] == s->separator) {
		s->at++;
		return true;
	}
	if (s->at < s->end) {
		s->at++; /* the newline */
		s->line++;
	}
	return false;
}

/* The first row is a head if each of its fields is a name. */
static size_t scan_head(struct table_scan *s)
{
	size_t width = 0;
	uint64_t from = s->at, line = s->line;
	bool is_head = true, goes_on = true;
	while (goes_on) {
		struct field f;
		scan_field(s, &f);
		/* The column of row names has none in what R and pandas write. */
		is_head &= f.length ? field_kind(&f) != FIELD_NUMBER : width == 0;
		if (width < COLUMNS_MAX)
			s->columns.at[width].name = f;
		width++;
		goes_on = scan_goes_on(s);
	}
	s->has_head = is_head;
	if (!is_head) {
		for (size_t i = 0; i < width && i < COLUMNS_MAX; i++)
			s->columns.at[i].name = (struct field){ 0 };
		s->at = from;
		s->line = line;
	}
	return width;
}

static size_t scan_row(struct table_scan *s)
{
	size_t width = 0;
	bool goes_on = true;
	while (goes_on) {
		struct field f;
		scan_field(s, &f);
		columns_add(&s->columns, width++, &f);
		goes_on = scan_goes_on(s);
	}
	s->columns.rows++;
	return width;
}

/* Lines that are no rows: empty ones, and comments before the first row. */
static void skip_lines(struct table_scan *s, bool comments)
{
	const unsigned char *bytes = s->c->bytes;
	while (s->at < s->end) {
		bool is_empty =
			bytes[s->at] == '\n' ||
			(bytes[s->at] == '\r' && s->at + 1 < s->end && bytes[s->at + 1] == '\n');
		if (!is_empty && !(comments && bytes[s->at] == '#'))
			return;
		const unsigned char *end = memchr(bytes + s->at, '\n', (size_t)(s->end - s->at));
		s->at = end ? (uint64_t)(end - bytes) + 1 : s->end;
		s->line++;
	}
}

/* Names that R shifts by one: the head has no field for the names of the rows. */
static void shift_names(struct table_scan *s)
{
	struct column *at = s->columns.at;
	size_t n = s->width < COLUMNS_MAX ? s->width : COLUMNS_MAX;
	for (size_t i = n; i-- > 1;)
		at[i].name = at[i - 1].name;
	at[0].name = (struct field){ 0 };
}

/* False if the row is not as the others are. */
static bool judge_row(struct table_scan *s, size_t width, uint64_t line)
{
	if (s->width == 0) {
		s->width = width;
		if (s->has_head && width == s->head_width + 1)
			shift_names(s);
		else if (width != s->head_width)
			s->width = s->head_width;
	}
	if (width == s->width)
		return true;
	checking_say(s->c, CHECK_DAMAGED, "%s: line %llu has %zu fields, those before it %zu",
		     s->at >= s->end ? "truncated or ragged" : "ragged rows",
		     (unsigned long long)line, width, s->width);
	return false;
}

static void scan_table(struct table_scan *s)
{
	bool good = true;
	skip_lines(s, true);
	if (s->at < s->end)
		s->head_width = scan_head(s);
	for (skip_lines(s, false); good && s->at < s->end && !s->open_quote; skip_lines(s, false)) {
		uint64_t line = s->line;
		size_t width = scan_row(s);
		/* The cap, not the file, cut this one. */
		bool cut = s->at >= s->end && s->end < s->c->size;
		good = cut || s->open_quote || judge_row(s, width, line);
	}
	bool to_the_end = s->end == s->c->size;
	if (s->open_quote && to_the_end)
		checking_say(s->c, s->separator == '\t' ? CHECK_WARNED : CHECK_DAMAGED,
			     "truncated: a quoted field is not closed");
	else if (s->has_nul)
		checking_say(s->c, CHECK_DAMAGED, "it holds zero bytes, as lost data leave them");
	else if (!to_the_end)
		checking_say(s->c, CHECK_UNCHECKED, "only its first %llu MiB were looked at",
			     (unsigned long long)(s->end >> 20));
	else if (good)
		columns_judge(s->c, &s->columns);
}

/* What a first line without the usual separator is separated by. */
static unsigned char separator_of(const struct checking *c, uint64_t at, unsigned char usual)
{
	static const unsigned char others[] = { ';', '\t', '|' };
	const unsigned char *from = c->bytes + at;
	const unsigned char *newline = memchr(from, '\n', (size_t)(c->size - at));
	size_t length = newline ? (size_t)(newline - from) : (size_t)(c->size - at);
	if (memchr(from, usual, length))
		return usual;
	for (size_t i = 0; i < sizeof others; i++)
		if (memchr(from, others[i], length))
			return others[i];
	return usual;
}

static void check_table(struct checking *c, unsigned char separator)
{
	struct table_scan s = { .c = c, .line = 1, .end = c->size < c->left ? c->size : c->left };
	s.columns.at = checking_room(c, COLUMNS_MAX * sizeof *s.columns.at);
	if (checking_is(c, 0, "\xff\xfe", 2) || checking_is(c, 0, "\xfe\xff", 2)) {
		checking_say(c, CHECK_UNCHECKED, "UTF-16 is not looked at");
		return;
	}
	if (!s.columns.at)
		return;
	memset(s.columns.at, 0, COLUMNS_MAX * sizeof *s.columns.at);
	if (checking_is(c, 0, "\xef\xbb\xbf", 3))
		s.at = 3;
	uint64_t begin = s.at;
	skip_lines(&s, true);
	s.separator = separator == ',' ? separator_of(c, s.at, separator) : separator;
	s.at = begin;
	s.line = 1;
	scan_table(&s);
}

void format_csv(struct checking *c)
{
	check_table(c, ',');
}

void format_tsv(struct checking *c)
{
	check_table(c, '\t');
}

/* Columns that hold nothing, or the same number in each row: no damage, but often a sign that something went wrong before. */
#include "collect/check_csv.h"

#include <stdio.h>
#include <strings.h>

#define CONSTANT_ROWS_MIN 3
#define NAMED_MAX         3

static bool is_missing(const struct field *f)
{
	static const char *const words[] = { "nan", "na", "n/a", "null", "none", "-nan", "<na>" };
	if (f->length == 0)
		return true;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (f->length == strlen(words[i]) &&
		    strncasecmp((const char *)f->bytes, words[i], f->length) == 0)
			return true;
	return false;
}

static size_t digits(const struct field *f, size_t at)
{
	size_t from = at;
	while (at < f->length && f->bytes[at] >= '0' && f->bytes[at] <= '9')
		at++;
	return at - from;
}

static bool is_number(const struct field *f)
{
	size_t at = f->length && (f->bytes[0] == '-' || f->bytes[0] == '+') ? 1 : 0;
	if (f->length - at == 3 && strncasecmp((const char *)f->bytes + at, "inf", 3) == 0)
		return true;
	size_t whole = digits(f, at), part = 0;
	at += whole;
	if (at < f->length && f->bytes[at] == '.') {
		part = digits(f, at + 1);
		at += 1 + part;
	}
	if (whole + part == 0)
		return false;
	if (at < f->length && (f->bytes[at] == 'e' || f->bytes[at] == 'E')) {
		at++;
		if (at < f->length && (f->bytes[at] == '-' || f->bytes[at] == '+'))
			at++;
		size_t n = digits(f, at);
		if (n == 0)
			return false;
		at += n;
	}
	return at == f->length;
}

enum field_kind field_kind(const struct field *f)
{
	if (is_missing(f))
		return FIELD_MISSING;
	return is_number(f) ? FIELD_NUMBER : FIELD_TEXT;
}

void columns_add(struct columns *columns, size_t number, const struct field *f)
{
	if (number >= COLUMNS_MAX)
		return;
	struct column *column = &columns->at[number];
	if (columns->n <= number)
		columns->n = number + 1;
	/* Known to be ordinary: nothing more to learn. */
	if (column->differs && column->text)
		return;
	enum field_kind kind = field_kind(f);
	column->missing |= kind == FIELD_MISSING;
	column->text |= kind == FIELD_TEXT;
	if (kind == FIELD_MISSING)
		return;
	if (!column->value.bytes)
		column->value = *f;
	else if (!column->differs)
		column->differs = column->value.length != f->length ||
				  memcmp(column->value.bytes, f->bytes, f->length) != 0;
}

static bool is_empty(const struct columns *columns, const struct column *column)
{
	return columns->rows > 0 && !column->value.bytes;
}

static bool is_constant(const struct columns *columns, const struct column *column)
{
	return columns->rows >= CONSTANT_ROWS_MIN && column->value.bytes && !column->text &&
	       !column->missing && !column->differs;
}

static void name_columns(struct checking *c, const struct columns *columns,
			 bool (*is_odd)(const struct columns *columns, const struct column *column),
			 const char *what)
{
	size_t odd = 0;
	char list[120] = "";
	for (size_t i = 0; i < columns->n; i++) {
		char name[25];
		const struct column *column = &columns->at[i];
		if (!is_odd(columns, column) || ++odd > NAMED_MAX)
			continue;
		if (column->name.length)
			(void)checking_name(column->name.bytes, column->name.length, name,
					    sizeof name);
		else
			(void)snprintf(name, sizeof name, "%zu", i + 1);
		size_t used = strlen(list);
		(void)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", name);
	}
	if (odd > NAMED_MAX)
		checking_say(c, CHECK_WARNED, "%s: %s and %zu more", what, list, odd - NAMED_MAX);
	else if (odd)
		checking_say(c, CHECK_WARNED, "%s: %s", what, list);
}

void columns_judge(struct checking *c, const struct columns *columns)
{
	if (columns->rows == 0)
		checking_say(c, CHECK_WARNED, "it has no rows of data");
	name_columns(c, columns, is_empty, "columns without any value");
	name_columns(c, columns, is_constant, "columns with the same number in each row");
}

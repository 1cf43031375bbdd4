#include "cli/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "spec/analysis.h"

#define ROWS_MAX 64

static const struct option_row *find_long(const struct options *o, const char *name, size_t length)
{
	for (size_t i = 0; i < o->n_rows; i++)
		if (strlen(o->rows[i].name) == length && memcmp(o->rows[i].name, name, length) == 0)
			return &o->rows[i];
	return NULL;
}

static const struct option_row *find_letter(const struct options *o, char letter)
{
	for (size_t i = 0; i < o->n_rows; i++)
		if (o->rows[i].letter == letter)
			return &o->rows[i];
	return NULL;
}

static int unknown(const struct options *o, const char *argument, struct err *err)
{
	const char *names[ROWS_MAX];
	CLEANUP_FREE char *name = xstrndup(argument + 2, strcspn(argument + 2, "="));
	for (size_t i = 0; i < o->n_rows; i++)
		names[i] = o->rows[i].name;
	const char *here = o->foreign ? o->foreign(argument) : NULL;
	if (here)
		return err_caller(err, "there is no option %.60s: %s", argument, here);
	const char *nearest = argument[1] == '-' ? str_nearest(name, names, o->n_rows) : NULL;
	return err_caller(err, "there is no option %.60s%s%s%s --help lists them", argument,
			  nearest ? "; did you mean --" : ";", nearest ? nearest : "",
			  nearest ? "?" : "");
}

/* A value that can't be is a mistake in an option, so the option is named where the setter does not. */
static int set_value(const struct option_row *row, void *target, const char *value, struct err *err)
{
	CLEANUP_FREE char *name = xasprintf("--%s", row->name);
	int r = row->set(target, row, value, err);
	return r < 0 && !strstr(err->text, name) ? err_wrap(err, "%s", name) : r;
}

/* One option of argv[i], with its value behind '=', behind the letter, or in the next word. Returns the words used. */
static int parse_one(const struct options *o, int argc, char **argv, int i, void *target,
		     struct err *err)
{
	const char *word = argv[i];
	bool is_long = word[1] == '-';
	const char *equals = is_long ? strchr(word, '=') : NULL;
	const struct option_row *row =
		is_long ? find_long(o, word + 2,
				    equals ? (size_t)(equals - word - 2) : strlen(word + 2))
			: find_letter(o, word[1]);
	if (!row)
		return unknown(o, word, err);
	const char *attached = is_long ? (equals ? equals + 1 : NULL) : (word[2] ? word + 2 : NULL);
	if (!row->metavar) {
		if (attached)
			return err_caller(err, "--%s takes no value", row->name);
		int r = row->set(target, row, NULL, err);
		return r < 0 ? r : 1;
	}
	if (!attached && i + 1 >= argc)
		return err_caller(err, "--%s needs a value: %s", row->name, row->metavar);
	int r = set_value(row, target, attached ? attached : argv[i + 1], err);
	return r < 0 ? r : (attached ? 1 : 2);
}

int options_parse(const struct options *o, int argc, char **argv, void *target,
		  struct operands *ret, struct err *err)
{
	int i = 1;
	struct operands rest = { 0 };
	while (i < argc && argv[i][0] == '-' && argv[i][1]) {
		if (str_eq(argv[i], "--")) {
			rest.after_dashes = true;
			i++;
			break;
		}
		if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h"))
			return -ECANCELED;
		int used = parse_one(o, argc, argv, i, target, err);
		if (used < 0)
			return used;
		i += used;
	}
	rest.first = i;
	*ret = rest;
	return 0;
}

int options_parse_mixed(const struct options *o, int argc, char **argv, void *target,
			struct operands *ret, struct err *err)
{
	CLEANUP_FREE char **operands = xcalloc((size_t)argc, sizeof *operands);
	struct operands rest = { 0 };
	int n = 0, n_options = 1;
	for (int at = 0;
	     at < argc;) { /* argv[at] is the name, or an operand, which stands for it */
		int r = options_parse(o, argc - at, argv + at, target, &rest, err);
		if (r < 0)
			return r;
		/* What was read moves up to where operands stood: never behind its own place. */
		for (int i = at + 1; i < at + rest.first; i++)
			argv[n_options++] = argv[i];
		at += rest.first;
		int end = rest.after_dashes || at == argc ? argc : at + 1;
		for (int i = at; i < end; i++)
			operands[n++] = argv[i];
		if (end == argc)
			break;
	}
	for (int i = 0; i < n; i++)
		argv[argc - n + i] = operands[i];
	*ret = (struct operands){ .first = argc - n, .after_dashes = rest.after_dashes };
	return 0;
}

void options_print(const struct options *o)
{
	for (size_t i = 0; i < o->n_rows; i++) {
		const struct option_row *row = &o->rows[i];
		char left[64];
		char letter[8] = "    ";
		if (row->letter)
			(void)snprintf(letter, sizeof letter, "-%c, ", row->letter);
		(void)snprintf(left, sizeof left, "%s--%s%s%s", letter, row->name,
			       row->metavar ? " " : "", row->metavar ? row->metavar : "");
		printf("  %-30s %s\n", left, row->help);
	}
	printf("  %-30s %s\n", "-h, --help", "show this help");
}

int options_env(const char *text, struct pairs *env, struct err *err)
{
	const char *equals = strchr(text, '=');
	CLEANUP_FREE char *name = xstrndup(text, equals ? (size_t)(equals - text) : strlen(text));
	if (!name[0])
		return err_caller(err, "--env takes NAME=VALUE or NAME, not '%.60s'", text);
	const char *value = equals ? equals + 1 : getenv(name);
	if (!value)
		return err_caller(
			err,
			"--env %.60s: your environment has no such variable; export it or write --env %.60s=VALUE",
			name, name);
	pairs_set(env, name, value);
	return 0;
}

#include "spec/parameters.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "spec/show.h"
#include "spec/yaml.h"

static bool is_name(const char *text)
{
	if (!isalpha((unsigned char)text[0]) && text[0] != '_')
		return false;
	for (const char *c = text; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '_')
			return false;
	return strlen(text) <= 128;
}

/* Digits with a sign: a leading zero makes a text of it, since nobody agrees what it means. */
static bool is_integer(const char *text)
{
	const char *digits = text + (text[0] == '-' || text[0] == '+');
	size_t n = strspn(digits, "0123456789");
	return n > 0 && digits[n] == '\0' && (n == 1 || digits[0] != '0');
}

static bool is_float(const char *text)
{
	const char *c = text + (text[0] == '-' || text[0] == '+');
	size_t whole = strspn(c, "0123456789"), part = 0;
	if (whole > 1 && c[0] == '0')
		return false;
	c += whole;
	if (*c == '.') {
		part = strspn(c + 1, "0123456789");
		c += 1 + part;
	}
	if (whole + part == 0)
		return false;
	if (*c == 'e' || *c == 'E') {
		c += 1 + (c[1] == '-' || c[1] == '+');
		size_t digits = strspn(c, "0123456789");
		if (digits == 0)
			return false;
		c += digits;
	}
	return *c == '\0';
}

static int scalar_json(const struct document *d, const struct node *n, json_t **ret,
		       struct err *err)
{
	char shown[SHOW_ROOM];
	if (n->quoted) {
		*ret = json_text(n->text);
		return 0;
	}
	if (node_is_null(n)) {
		*ret = json_null();
		return 0;
	}
	if (str_eq(n->text, "true") || str_eq(n->text, "false")) {
		*ret = json_boolean(n->text[0] == 't');
		return 0;
	}
	if (is_integer(n->text)) {
		errno = 0;
		long long value = strtoll(n->text, NULL, 10);
		if (errno)
			return node_error(d, n, err, "'%s' is too large; put it in quotes",
					  show_text(n->text, shown));
		*ret = json_integer(value);
		return 0;
	}
	if (is_float(n->text)) {
		double value = strtod(n->text, NULL);
		if (!isfinite(value))
			return node_error(d, n, err, "'%s' is too large; put it in quotes",
					  show_text(n->text, shown));
		*ret = json_real(value);
		return 0;
	}
	if (str_eq(n->text, ".nan") || str_eq(n->text, ".inf") || str_eq(n->text, "-.inf"))
		return node_error(d, n, err, "%s has no JSON; leave the parameter out, or use null",
				  n->text);
	*ret = json_text(n->text);
	return 0;
}

int node_json(const struct document *d, const struct node *n, json_t **ret, struct err *err)
{
	if (n->kind == NODE_SCALAR)
		return scalar_json(d, n, ret, err);
	CLEANUP_JSON json_t *made = n->kind == NODE_LIST ? json_array() : json_object();
	for (size_t i = 0; i < n->n; i++) {
		json_t *value = NULL;
		int r = node_json(d, n->values[i], &value, err);
		if (r < 0)
			return r;
		if (n->kind == NODE_LIST)
			json_array_append_new(made, value);
		else
			json_object_set_new(made, n->keys[i]->text, value);
	}
	*ret = take_ptr(made);
	return 0;
}

char *parameters_text(const json_t *object)
{
	char *text = json_dumps_short(object, JSON_COMPACT | JSON_SORT_KEYS);
	if (!text)
		abort();
	return text;
}

json_t *parameters_json(const char *text)
{
	json_t *object = text ? json_loads(text, 0, NULL) : NULL;
	return object ? object : json_object();
}

int parameters_read(const struct document *d, const struct node *map, char **ret, struct err *err)
{
	CLEANUP_JSON json_t *object = NULL;
	char shown[SHOW_ROOM];
	if (map->kind != NODE_MAP)
		return node_error(
			d, map, err,
			"expected a map (NAME: VALUE); a step may also name the file's ([NAME, ...])");
	for (size_t i = 0; i < map->n; i++)
		if (!is_name(map->keys[i]->text))
			return node_error(
				d, map->keys[i], err,
				"'%s' is no name of a parameter: letters, digits and _, not a digit first",
				show_text(map->keys[i]->text, shown));
	int r = node_json(d, map, &object, err);
	if (r < 0)
		return r;
	CLEANUP_FREE char *text = parameters_text(object);
	if (strlen(text) > PARAMETERS_MAX)
		return node_error(d, map, err,
				  "more than %d bytes of parameters; give large values as an input",
				  PARAMETERS_MAX);
	free(*ret);
	*ret = take_ptr(text);
	return 0;
}

int parameters_set(char **text, const char *pair, struct err *err)
{
	const char *equals = strchr(pair, '=');
	CLEANUP_FREE char *name = equals ? xstrndup(pair, (size_t)(equals - pair)) : NULL;
	if (!name || !is_name(name))
		return err_caller(
			err,
			"expected NAME=VALUE with a name of letters, digits and _, not '%.60s'",
			pair);
	CLEANUP_JSON json_t *object = parameters_json(*text);
	json_t *value = json_loads(equals + 1, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
	json_object_set_new(object, name, value ? value : json_text(equals + 1));
	CLEANUP_FREE char *made = parameters_text(object);
	if (strlen(made) > PARAMETERS_MAX)
		return err_caller(err,
				  "more than %d bytes of parameters; give large values as an input",
				  PARAMETERS_MAX);
	free(*text);
	*text = take_ptr(made);
	return 0;
}

void parameters_merge(char **text, const char *over)
{
	if (!over)
		return;
	CLEANUP_JSON json_t *object = parameters_json(*text);
	CLEANUP_JSON json_t *more = parameters_json(over);
	json_object_update(object, more);
	free(*text);
	*text = parameters_text(object);
}

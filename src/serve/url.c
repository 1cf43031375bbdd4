/* The target of a request. Whatever could mean two things is refused. */
#include "serve/url.h"

#include <errno.h>
#include <string.h>

void url_release(struct url *u)
{
	strv_release(&u->path);
	strv_release(&u->keys);
	strv_release(&u->values);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

enum part { PART_SEGMENT, PART_QUERY };

/* NULL if an escape is none, or hides what must not be hidden. */
static char *decode(const char *text, size_t n, enum part part)
{
	CLEANUP_FREE char *out = xmalloc(n + 1);
	size_t length = 0;
	for (size_t i = 0; i < n; i++) {
		int c = (unsigned char)text[i];
		if (c == '%') {
			int high = i + 1 < n ? hex_digit(text[i + 1]) : -1;
			int low = i + 2 < n ? hex_digit(text[i + 2]) : -1;
			if (high < 0 || low < 0)
				return NULL;
			c = high << 4 | low;
			i += 2;
			if (c == 0 || (part == PART_SEGMENT && c == '/'))
				return NULL;
		} else if (c == '+' && part == PART_QUERY) {
			c = ' ';
		}
		out[length++] = (char)c;
	}
	out[length] = 0;
	return take_ptr(out);
}

static int add_segment(struct url *u, const char *text, size_t n, struct err *err)
{
	CLEANUP_FREE char *segment = decode(text, n, PART_SEGMENT);
	if (!segment)
		return err_caller(err, "the path has an escape that is none or is not allowed");
	if (!*segment || str_eq(segment, ".") || str_eq(segment, ".."))
		return err_caller(err, "the path has an empty segment, '.' or '..'");
	if (u->path.n >= URL_SEGMENTS)
		return err_set(err, ERR_CALLER, E2BIG, "the path has more than %d segments",
			       URL_SEGMENTS);
	strv_take(&u->path, take_ptr(segment));
	return 0;
}

static int add_pair(struct url *u, const char *text, size_t n, struct err *err)
{
	const char *equals = memchr(text, '=', n);
	size_t key_length = equals ? (size_t)(equals - text) : n;
	CLEANUP_FREE char *key = decode(text, key_length, PART_QUERY);
	CLEANUP_FREE char *value = equals ? decode(equals + 1, n - key_length - 1, PART_QUERY)
					  : xstrdup("");
	if (!key || !value || !*key)
		return err_caller(err, "the query has an escape that is none, or no key");
	if (strv_has(&u->keys, key))
		return err_caller(err, "the query says '%.40s' twice; put commas between values",
				  key);
	if (u->keys.n >= URL_PAIRS)
		return err_set(err, ERR_CALLER, E2BIG, "the query has more than %d keys",
			       URL_PAIRS);
	strv_take(&u->keys, take_ptr(key));
	strv_take(&u->values, take_ptr(value));
	return 0;
}

static int parse_path(const char *text, size_t n, struct url *u, struct err *err)
{
	const char *at = text + 1, *end = text + n;
	if (n == 1)
		return 0;
	for (;;) {
		const char *slash = memchr(at, '/', (size_t)(end - at));
		const char *stop = slash ? slash : end;
		int r = add_segment(u, at, (size_t)(stop - at), err);
		if (r < 0 || !slash)
			return r;
		at = slash + 1;
	}
}

static int parse_query(const char *text, struct url *u, struct err *err)
{
	for (const char *at = text; *at;) {
		size_t n = strcspn(at, "&");
		int r = n ? add_pair(u, at, n, err) : 0;
		if (r < 0)
			return r;
		at += n + (at[n] == '&');
	}
	return 0;
}

int url_parse(const char *target, struct url *ret, struct err *err)
{
	CLEANUP_URL struct url u = { 0 };
	size_t length = strlen(target);
	if (length > URL_MAX)
		return err_set(err, ERR_CALLER, E2BIG, "the address has more than %d bytes",
			       URL_MAX);
	if (target[0] != '/')
		return err_caller(err, "the address does not begin with '/'");
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)target[i] <= ' ' || target[i] == 0x7f || target[i] == '#' ||
		    target[i] == '\\')
			return err_caller(
				err, "the address has a character that must be written as %%XX");
	size_t path_length = strcspn(target, "?");
	int r = parse_path(target, path_length, &u, err);
	if (r >= 0 && target[path_length])
		r = parse_query(target + path_length + 1, &u, err);
	if (r < 0)
		return r;
	*ret = u;
	u = (struct url){ 0 };
	return 0;
}

const char *url_value(const struct url *u, const char *key)
{
	for (size_t i = 0; i < u->keys.n; i++)
		if (str_eq(u->keys.v[i], key))
			return u->values.v[i];
	return NULL;
}

char *url_rest(const struct url *u, size_t first)
{
	CLEANUP_STR struct str s = { 0 };
	for (size_t i = first; i < u->path.n; i++) {
		str_add(&s, i > first ? "/" : "");
		str_add(&s, u->path.v[i]);
	}
	str_add(&s, "");
	return str_take(&s);
}

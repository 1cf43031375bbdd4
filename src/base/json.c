/* Small helpers over jansson. */
#include "base/json.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/fs.h"
#include "base/str.h"

void json_seed(void)
{
	size_t seed = 0;
	if (getrandom(&seed, sizeof seed, 0) == sizeof seed && seed)
		json_object_seed(seed); /* jansson keeps the first one */
}

json_t *json_text(const char *text)
{
	if (!text)
		return json_null();

	size_t length = strlen(text);
	if (str_is_utf8(text, length))
		return json_stringn_nocheck(text, length);

	CLEANUP_STR struct str clean = { 0 };
	for (size_t at = 0; at < length;) {
		size_t n = str_utf8_length(text + at, length - at);

		if (n > 0)
			str_add_n(&clean, text + at, n);
		else
			str_add(&clean, "\xef\xbf\xbd");
		at += n > 0 ? n : 1;
	}
	return json_stringn_nocheck(clean.text, clean.length);
}

json_t *json_u64(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

/* 15 digits are always those that were written, if no more were; 17 always give the number back. */
char *json_dumps_short(const json_t *value, size_t flags)
{
	for (size_t digits = 15; digits < 17; digits++) {
		char *text = json_dumps(value, flags | JSON_REAL_PRECISION(digits));
		CLEANUP_JSON json_t *back = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
		if (!text || json_equal(back, value))
			return text;
		free(text);
	}
	return json_dumps(value, flags | JSON_REAL_PRECISION(17));
}

int json_write_file(int dir_fd, const char *name, const json_t *value, struct err *err)
{
	CLEANUP_STR struct str whole = { 0 };
	CLEANUP_FREE char *text = json_dumps(value, JSON_INDENT(2) | JSON_ENCODE_ANY);

	if (!text)
		return err_set(err, ERR_HOST, EINVAL, "write '%s': the value is not valid JSON",
			       name);
	str_add(&whole, text);
	str_add(&whole, "\n");
	return fs_write_atomic(dir_fd, name, whole.text, whole.length, 0644, err);
}

int json_read_file(int dir_fd, const char *name, size_t max, json_t **ret, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	json_error_t where;

	int r = fs_read_capped(dir_fd, name, max, &text, &length, err);
	if (r < 0)
		return r;
	json_t *value = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
	if (!value)
		return err_caller(err, "%s:%d:%d: %s", name, where.line, where.column, where.text);
	*ret = value;
	return 0;
}

void json_print(const json_t *value)
{
	CLEANUP_FREE char *text = json_dumps(value, JSON_COMPACT);
	if (!text)
		abort();
	(void)printf("%s\n", text);
}

/* json: hostile text, clamped numbers, files with duplicates, mistakes and too many bytes. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/writer.h"
#include "place.h"

static void text_is_never_lost(void **state)
{
	CLEANUP_JSON json_t *plain = json_text("é\n\"");
	CLEANUP_JSON json_t *bad = json_text("a\xff\xe2\x82z\xc3\xa9");
	CLEANUP_JSON json_t *none = json_text(NULL);
	CLEANUP_FREE char *dumped = json_dumps(bad, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);

	assert_string_equal(json_string_value(plain), "é\n\"");
	assert_string_equal(dumped, "\"a\\uFFFD\\uFFFD\\uFFFDz\\u00E9\"");
	assert_true(json_is_null(none));
}

static void big_numbers_are_clamped(void **state)
{
	CLEANUP_JSON json_t *big = json_u64(UINT64_MAX);
	CLEANUP_JSON json_t *small = json_u64(42);

	assert_true(json_integer_value(big) == INT64_MAX);
	assert_int_equal(json_integer_value(small), 42);
}

static void written_and_read(void **state)
{
	struct place *p = *state;
	CLEANUP_JSON json_t *value = json_pack("{s:i, s:[s]}", "a", 1, "b", "x");
	CLEANUP_JSON json_t *back = NULL;
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	struct err err = { 0 };

	assert_int_equal(json_write_file(p->fd, "v.json", value, &err), 0);
	assert_int_equal(fs_read_capped(p->fd, "v.json", 1000, &text, &length, &err), 0);
	assert_string_equal(text, "{\n  \"a\": 1,\n  \"b\": [\n    \"x\"\n  ]\n}\n");
	assert_int_equal(json_read_file(p->fd, "v.json", 1000, &back, &err), 0);
	assert_true(json_equal(value, back));
}

/* Whatever is written, the number read back is the same, and it is not longer than it must be. */
static void numbers_are_short_and_whole(void **state)
{
	static const struct {
		const char *said, *text;
	} cases[] = {
		{ "0.3", "0.3" },
		{ "-0.80000000000000004e-5", "-8e-6" },
		{ "0.1234567890123456", "0.1234567890123456" },
		{ "0.30000000000000004", "0.30000000000000004" },
		{ "1.0", "1.0" },
		{ "[0.3,0.5,{\"a\":2.50}]", "[0.3,0.5,{\"a\":2.5}]" },
		{ "9223372036854775807", "9223372036854775807" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CLEANUP_JSON json_t *value = json_loads(cases[i].said, JSON_DECODE_ANY, NULL);
		CLEANUP_FREE char *text = json_dumps_short(value, JSON_ENCODE_ANY | JSON_COMPACT);
		CLEANUP_JSON json_t *back = json_loads(text, JSON_DECODE_ANY, NULL);
		assert_string_equal(text, cases[i].text);
		assert_true(json_equal(value, back));
	}
}

static void mistakes_are_placed(void **state)
{
	static const struct {
		const char *text, *where;
	} cases[] = {
		{ "{\n  \"a\": 1,\n  \"a\": 2\n}", "v.json:3:5: duplicate object key" },
		{ "{\"a\": }", "v.json:1:7: " },
		{ "{} x", "v.json:1:4: " },
		{ "", "v.json:1:0: " },
		{ "{\"a\": NaN}", "v.json:1:" },
	};
	struct place *p = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err err = { 0 };
		json_t *value = NULL;

		assert_int_equal(fs_write_atomic(p->fd, "v.json", cases[i].text,
						 strlen(cases[i].text), 0600, &err),
				 0);
		assert_int_equal(json_read_file(p->fd, "v.json", 1000, &value, &err), -EINVAL);
		assert_null(value);
		assert_int_equal(err.kind, ERR_CALLER);
		if (strncmp(err.text, cases[i].where, strlen(cases[i].where)) != 0)
			fail_msg("got '%s' where '%s' was due", err.text, cases[i].where);
	}
}

static void size_and_absence(void **state)
{
	struct place *p = *state;
	struct err err = { 0 };
	json_t *value = NULL;

	assert_int_equal(fs_write_atomic(p->fd, "v.json", "[1,2,3]", 7, 0600, &err), 0);
	assert_int_equal(json_read_file(p->fd, "v.json", 6, &value, &err), -EFBIG);
	assert_int_equal(json_read_file(p->fd, "none.json", 6, &value, &err), -ENOENT);
	assert_null(value);
	assert_int_equal(json_read_file(p->fd, "v.json", 7, &value, &err), 0);
	json_decref(value);
}

/* Text that is written from front to back is what a tree of values would become. */
static void written_without_a_tree(void **state)
{
	char all[256] = "";
	for (int c = 1; c < 128; c++)
		all[c - 1] = (char)c;
	const char *const texts[] = { all, "é\xf0\x9f\x98\x80/", "", "bad \xff\xc3", NULL };
	CLEANUP_WRITER struct writer w = { 0 };
	CLEANUP_STRV struct strv none = { 0 };
	json_t *inner = json_array();
	CLEANUP_JSON json_t *tree = json_pack("{s:[],s:{},s:o,s:I,s:b}", "none", "empty", "texts",
					      inner, "most", (json_int_t)INT64_MAX, "no", 0);

	writer_open(&w, NULL, '{');
	writer_texts(&w, "none", &none);
	writer_open(&w, "empty", '{');
	writer_close(&w, '}');
	writer_open(&w, "texts", '[');
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		writer_text(&w, NULL, texts[i]);
		json_array_append_new(inner, json_text(texts[i]));
	}
	writer_value(&w, NULL, json_pack("{s:[i,s]}", "deep", 1, "two\nlines"));
	json_array_append_new(inner, json_pack("{s:[i,s]}", "deep", 1, "two\nlines"));
	writer_close(&w, ']');
	writer_u64(&w, "most", UINT64_MAX);
	writer_bool(&w, "no", false);
	writer_close(&w, '}');
	CLEANUP_FREE char *dumped = json_dumps(tree, JSON_INDENT(2));
	assert_string_equal(str_text(&w.text), dumped);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_never_lost),
		cmocka_unit_test(big_numbers_are_clamped),
		cmocka_unit_test(numbers_are_short_and_whole),
		cmocka_unit_test(written_without_a_tree),
		cmocka_unit_test_setup_teardown(written_and_read, place_set_up, place_tear_down),
		cmocka_unit_test_setup_teardown(mistakes_are_placed, place_set_up, place_tear_down),
		cmocka_unit_test_setup_teardown(size_and_absence, place_set_up, place_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

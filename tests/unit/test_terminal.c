/* terminal: what others wrote reaches a terminal as text, however it is cut into pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/terminal.h"

static const struct {
	const char *bytes, *shown;
} rows[] = {
	{ "", "" },
	{ "plain\ttext\r\nback\b", "plain\ttext\r\nback\b" },
	{ "\033[31mred\033[m", "\\x1b[31mred\\x1b[m" },
	{ "\033]0;title\a", "\\x1b]0;title\\x07" },
	{ "\xc2\x9b"
	  "2J\xc2\x9d",
	  "\\u009b2J\\u009d" },
	{ "\x9b"
	  "2J",
	  "\\x9b2J" },
	{ "\xc3\xa9\xe2\x98\x83\xf0\x9f\xa7\xaa", "\xc3\xa9\xe2\x98\x83\xf0\x9f\xa7\xaa" },
	{ "\xe2\x80\xae"
	  "abc\xd8\x9c",
	  "\\u202eabc\\u061c" },
	/* Too long, a surrogate, too high, cut off, a tail alone. */
	{ "\xc0\x9b|\xe0\x82\x9b|\xed\xa0\x80|\xf5\x80\x80\x80|\xe2\x98|\xf0\x9f\xa7",
	  "\\xc0\\x9b|\\xe0\\x82\\x9b|\\xed\\xa0\\x80|\\xf5\\x80\\x80\\x80|\\xe2\\x98|\\xf0\\x9f\\xa7" },
	{ "\xc2\033\xe2\x98\033", "\\xc2\\x1b\\xe2\\x98\\x1b" },
	{ "\x01\x0b\x0c\x0e\x0f\x1f\x7f", "\\x01\\x0b\\x0c\\x0e\\x0f\\x1f\\x7f" },
};

/* The text in three pieces. */
static char *filtered(const char *bytes, size_t length, size_t first, size_t second)
{
	struct terminal_filter filter = { 0 };
	struct str out = { 0 };
	terminal_filter_add(&filter, bytes, first, &out);
	terminal_filter_add(&filter, bytes + first, second - first, &out);
	terminal_filter_add(&filter, bytes + second, length - second, &out);
	terminal_filter_end(&filter, &out);
	return str_take(&out);
}

static void text_is_the_same_however_it_is_cut(void **state)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t length = strlen(rows[i].bytes);
		for (size_t first = 0; first <= length; first++)
			for (size_t second = first; second <= length; second++) {
				CLEANUP_FREE char *shown =
					filtered(rows[i].bytes, length, first, second);
				assert_string_equal(shown, rows[i].shown);
			}
	}
}

static void a_null_byte_is_shown(void **state)
{
	CLEANUP_FREE char *shown = filtered("a\0b", 3, 1, 2);
	assert_string_equal(shown, "a\\x00b");
}

/* Nothing that a terminal obeys comes out, whatever goes in. */
static void no_byte_pattern_passes(void **state)
{
	static const unsigned char firsts[] = { 0x1b, 0x9b, 0xc2, 0xc3, 0xe2, 0xf0, 'a', '\n' };
	for (size_t f = 0; f < sizeof firsts; f++)
		for (unsigned second = 0; second < 256; second++)
			for (unsigned third = 0; third < 256; third++) {
				const char bytes[] = { (char)firsts[f], (char)second, (char)third };
				CLEANUP_FREE char *shown = filtered(bytes, 3, 1, 2);
				for (char *p = shown; *p; p++)
					assert_true(((unsigned char)*p >= 0x20 && *p != 0x7f) ||
						    strchr("\n\t\r\b", *p));
				assert_true(str_is_utf8(shown, strlen(shown)));
				assert_null(strstr(shown, "\xc2\x9b"));
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_the_same_however_it_is_cut),
		cmocka_unit_test(a_null_byte_is_shown),
		cmocka_unit_test(no_byte_pattern_passes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

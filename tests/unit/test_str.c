/* str: growing strings and lists, UTF-8, nearest words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"

static void strings_grow(void **state)
{
	CLEANUP_STR struct str s = { 0 };

	assert_string_equal(str_text(&s), "");
	for (int i = 0; i < 1000; i++)
		str_addf(&s, "%d,", i % 10);
	assert_int_equal(s.length, 2000);
	assert_int_equal(strlen(s.text), 2000);
	assert_memory_equal(s.text, "0,1,2,3,", 8);
	str_add_n(&s, "a\0b", 3);
	assert_int_equal(s.length, 2003);

	CLEANUP_FREE char *taken = str_take(&s);
	assert_memory_equal(taken + 2000, "a\0b", 4);
	assert_null(s.text);
	CLEANUP_FREE char *empty = str_take(&s);
	assert_string_equal(empty, "");
	str_add(&s, "");
	assert_non_null(s.text);
}

static void lists_grow_and_end_in_null(void **state)
{
	CLEANUP_STRV struct strv list = { 0 };
	CLEANUP_STRV struct strv copy = { 0 };
	CLEANUP_STRV struct strv none = { 0 };

	assert_null(strv_argv(&none)[0]);
	strv_add(&none, "after");
	assert_string_equal(none.v[0], "after");
	assert_null(none.v[1]);
	for (int i = 0; i < 100; i++) {
		strv_addf(&list, "%d", i);
		assert_null(list.v[list.n]);
	}
	strv_take(&list, xstrdup("last"));
	assert_int_equal(list.n, 101);
	assert_true(strv_has(&list, "99"));
	assert_true(strv_has(&list, "last"));
	assert_false(strv_has(&list, "100"));
	strv_copy(&copy, &list);
	strv_copy(&copy, &copy);
	assert_int_equal(copy.n, 202);
	assert_string_equal(copy.v[201], "last");
	assert_ptr_not_equal(copy.v[0], list.v[0]);
	strv_release(&copy);
	strv_release(&copy);
	assert_int_equal(copy.n, 0);
}

static void compares(void **state)
{
	assert_true(str_eq("a", "a"));
	assert_true(str_eq(NULL, NULL));
	assert_false(str_eq(NULL, "a"));
	assert_true(str_starts("abc", "ab"));
	assert_false(str_starts("a", "ab"));
	assert_true(str_ends("abc", "bc"));
	assert_true(str_ends("abc", ""));
	assert_false(str_ends("c", "bc"));
	CLEANUP_FREE char *cut = xstrndup("abcdef", 3);
	assert_string_equal(cut, "abc");
	CLEANUP_FREE char *whole = xstrndup("ab", 300);
	assert_string_equal(whole, "ab");
	CLEANUP_FREE char *made = xasprintf("%s-%d", "x", 3);
	assert_string_equal(made, "x-3");
}

static void utf8_is_strict(void **state)
{
	static const char *const good[] = { "", "abc", "é", "€", "😀", "\xf4\x8f\xbf\xbf" };
	static const char *const bad[] = { "\x80",         "\xc0\xaf",        "\xc1\xbf",
					   "\xe0\x80\x80", "\xed\xa0\x80",    "\xf5\x80\x80\x80",
					   "\xe2\x82",     "\xf0\x9f\x98",    "a\xff",
					   "\xc3(",        "\xf4\x90\x80\x80" };

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(str_is_utf8(good[i], strlen(good[i])));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(str_is_utf8(bad[i], strlen(bad[i])));
	assert_true(str_is_utf8("a\0b", 3));
	assert_int_equal(str_utf8_length("€x", 4), 3);
	assert_int_equal(str_utf8_length("€", 2), 0);
}

static void nearest_word(void **state)
{
	static const char *const keys[] = { "memory", "name", "network", "outputs", "env" };
	size_t n = sizeof(keys) / sizeof(keys[0]);
	char longer[500];

	assert_int_equal(str_distance("", "abc"), 3);
	assert_int_equal(str_distance("kitten", "sitting"), 3);
	assert_int_equal(str_distance("memroy", "memory"), 1);
	assert_int_equal(str_distance("same", "same"), 0);
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_int_equal(str_distance(longer, ""), 64);
	assert_string_equal(str_nearest("memroy", keys, n), "memory");
	assert_string_equal(str_nearest("ouput", keys, n), "outputs");
	assert_string_equal(str_nearest("nme", keys, n), "name");
	assert_null(str_nearest("zzzzzz", keys, n));
	assert_null(str_nearest("", keys, n));
	assert_null(str_nearest("x", keys, 0));
}

static void shell_word(void **state)
{
	static const char *const words[][2] = {
		{ "/a/b-1.csv", "/a/b-1.csv" },   { "", "''" },           { "a b", "'a b'" },
		{ "x'; rm y", "'x'\\''; rm y'" }, { "$(id)", "'$(id)'" }, { "-r", "'-r'" },
	};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		CLEANUP_FREE char *word = str_shell(words[i][0]);
		assert_string_equal(word, words[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strings_grow), cmocka_unit_test(lists_grow_and_end_in_null),
		cmocka_unit_test(compares),     cmocka_unit_test(utf8_is_strict),
		cmocka_unit_test(nearest_word), cmocka_unit_test(shell_word),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Escaping: whatever goes in, what comes out is text of a page, or a URI. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "view/crate.h"
#include "view/html.h"

static void check(const char *text, size_t length, const char *expected)
{
	CLEANUP_STR struct str s = { 0 };
	html_add_n(&s, text, length);
	assert_string_equal(str_text(&s), expected);
}

static void markup_is_escaped(void **state)
{
	check("a<b>&\"'c", 8, "a&lt;b&gt;&amp;&quot;&#39;c");
	check("\n\tplain \xc3\xa9 \xe2\x82\xac", 14, "\n\tplain \xc3\xa9 \xe2\x82\xac");
}

static void what_deceives_is_replaced(void **state)
{
	check("a\0b", 3,
	      "a\xef\xbf\xbd"
	      "b");
	check("\x1b[0m\x7f", 5, "\xef\xbf\xbd[0m\xef\xbf\xbd");
	check("\xff<\xc3", 3, "\xef\xbf\xbd&lt;\xef\xbf\xbd");
	check("\xe2\x80\xae"
	      "x\xe2\x81\xa6",
	      7, "\xef\xbf\xbdx\xef\xbf\xbd");    /* RLO, LRI */
	check("\xc2\x9b", 2, "\xef\xbf\xbd");     /* CSI of C1 */
	check("\xe2\x80\xa6", 3, "\xe2\x80\xa6"); /* an ellipsis is harmless */
}

static void no_byte_leaves_markup(void **state)
{
	for (int a = 0; a < 256; a++)
		for (int b = 0; b < 256; b++) {
			char two[2] = { (char)a, (char)b };
			CLEANUP_STR struct str s = { 0 };
			html_add_n(&s, two, sizeof two);
			assert_true(str_is_utf8(s.text, s.length));
			for (size_t i = 0; i < s.length; i++)
				assert_null(memchr("<>\"'", s.text[i], 4));
		}
}

static void base64_is_as_in_rfc_4648(void **state)
{
	static const char *const rows[][2] = {
		{ "", "" },        { "f", "Zg==" },        { "fo", "Zm8=" },
		{ "foo", "Zm9v" }, { "foob", "Zm9vYg==" }, { "foobar", "Zm9vYmFy" }
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		CLEANUP_STR struct str s = { 0 };
		html_add_base64(&s, rows[i][0], strlen(rows[i][0]));
		assert_string_equal(str_text(&s), rows[i][1]);
	}
}

static void a_policy_has_the_digest(void **state)
{
	CLEANUP_STR struct str s = { 0 };
	html_add_csp_hash(&s, "");
	assert_string_equal(str_text(&s), "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
}

static void a_path_becomes_a_uri(void **state)
{
	CLEANUP_FREE char *plain = crate_uri("outputs/a-b_c.~9");
	CLEANUP_FREE char *other = crate_uri("a b#?%:\xff\"<\n");
	CLEANUP_FREE char *none = crate_uri("");
	assert_string_equal(plain, "outputs/a-b_c.~9");
	assert_string_equal(other, "a%20b%23%3F%25%3A%FF%22%3C%0A");
	assert_string_equal(none, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(markup_is_escaped),
		cmocka_unit_test(what_deceives_is_replaced),
		cmocka_unit_test(no_byte_leaves_markup),
		cmocka_unit_test(base64_is_as_in_rfc_4648),
		cmocka_unit_test(a_policy_has_the_digest),
		cmocka_unit_test(a_path_becomes_a_uri),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

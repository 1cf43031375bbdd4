/* Output patterns and media types. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "collect/outputs.h"
#include "collect/pattern.h"

static void matches_by_component(void **state)
{
	(void)state;
	static const struct {
		const char *pattern, *path;
		bool expected;
	} rows[] = {
		{ "results.csv", "results.csv", true },
		{ "results.csv", "out/results.csv", false },
		{ "results.csv", "results.csv2", false },
		{ "out/*.png", "out/a.png", true },
		{ "out/*.png", "out/.hidden.png", true },
		{ "out/*.png", "out/sub/a.png", false },
		{ "out/*.png", "out2/a.png", false },
		{ "out/?.txt", "out/a.txt", true },
		{ "out/?.txt", "out/ab.txt", false },
		{ "out/[a-c].txt", "out/b.txt", true },
		{ "out/[!a-c].txt", "out/b.txt", false },
		{ "out/**", "out/a", true },
		{ "out/**", "out/a/b/c", true },
		{ "out/**", "out", false },
		{ "out/**", "outer/a", false },
		{ "out", "out/a/b", true },
		{ "out/", "out/a/b", true },
		{ "./out//", "out/a/b", true },
		{ "out", "outer", false },
		{ ".", "anything/at/all", true },
		{ "**", "a", true },
		{ "**", "a/b", true },
		{ "**/*.csv", "x.csv", true },
		{ "**/*.csv", "a/b/x.csv", true },
		{ "**/*.csv", "a/b/x.tsv", false },
		{ "a/**/b", "a/b", true },
		{ "a/**/b", "a/x/y/b", true },
		{ "a/**/b", "a/x/y/c", false },
		{ "a/**/**/b", "a/b", true },
		{ "", "a", false },
		{ "/out/a", "out/a", false },
		{ "../out", "out", false },
		{ "out/../a", "a", false },
		{ "*", "\xff\xfe", true },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (outputs_match(rows[i].pattern, rows[i].path) != rows[i].expected)
			fail_msg("'%s' and '%s': not %d", rows[i].pattern, rows[i].path,
				 rows[i].expected);
}

/* A spec may be hostile too: naive backtracking would need 2^60 steps for these. */
static void stars_do_not_blow_up(void **state)
{
	(void)state;
	CLEANUP_STR struct str pattern = { 0 };
	CLEANUP_STR struct str path = { 0 };
	for (int i = 0; i < 30; i++)
		str_add(&pattern, "**/a/");
	str_add(&pattern, "b");
	for (int i = 0; i < 128; i++)
		str_add(&path, "a/");
	str_add(&path, "c");
	assert_false(outputs_match(str_text(&pattern), str_text(&path)));

	CLEANUP_STR struct str stars = { 0 };
	for (int i = 0; i < 100; i++)
		str_add(&stars, "*a");
	str_add(&stars, "b");
	char name[256];
	memset(name, 'a', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	assert_false(outputs_match(str_text(&stars), name));
}

static void too_many_parts_match_nothing(void **state)
{
	(void)state;
	CLEANUP_STR struct str text = { 0 };
	for (int i = 0; i < PATTERN_PARTS_MAX - 1; i++)
		str_add(&text, "a/");
	str_add(&text, "a");
	assert_true(outputs_match(str_text(&text), str_text(&text)));
	str_add(&text, "/a");
	assert_false(outputs_match(str_text(&text), str_text(&text)));
}

static void states_say_where_to_look(void **state)
{
	(void)state;
	CLEANUP(pattern_release) struct pattern p;
	pattern_init(&p, "out/*/x");
	uint64_t top = pattern_start(&p);
	assert_true(pattern_step(&p, top, "out") != 0);
	assert_false(pattern_matched(&p, pattern_step(&p, top, "out")));
	assert_true(pattern_step(&p, top, "data") == 0);
	uint64_t below = pattern_step(&p, pattern_step(&p, top, "out"), "any");
	assert_true(pattern_step(&p, below, "y") == 0);
	assert_true(pattern_matched(&p, pattern_step(&p, below, "x")));
}

static void guesses_by_extension(void **state)
{
	(void)state;
	assert_string_equal(media_type_guess("out/a.csv"), "text/csv");
	assert_string_equal(media_type_guess("out/a.b.PNG"), "image/png");
	assert_null(media_type_guess("out.csv/noext"));
	assert_null(media_type_guess(".csv"));
	assert_null(media_type_guess("a."));
	assert_null(media_type_guess("a.unheard-of"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matches_by_component),
		cmocka_unit_test(stars_do_not_blow_up),
		cmocka_unit_test(too_many_parts_match_nothing),
		cmocka_unit_test(states_say_where_to_look),
		cmocka_unit_test(guesses_by_extension),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

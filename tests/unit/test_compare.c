/* compare: the first cell or key that differs, what a tolerance lets pass, and documents that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "view/compare.h"

enum form { CSV, TSV, JSON };

static enum compared look(enum form form, const char *a, const char *b, const char *tolerance,
			  struct str *ret_detail)
{
	struct tolerance t = { 0 };
	struct err err = { 0 };
	CLEANUP_FILE FILE *of_a = fmemopen((void *)a, strlen(a), "r");
	CLEANUP_FILE FILE *of_b = fmemopen((void *)b, strlen(b), "r");
	struct compare_files f = { .a = of_a, .b = of_b, .tolerance = &t };

	if (tolerance)
		assert_int_equal(tolerance_parse(tolerance, &t, &err), 0);
	enum compared result = form == JSON ? compare_json(&f)
					    : compare_tables(&f, form == CSV ? ',' : '\t');
	*ret_detail = f.detail;
	return result;
}

static const struct row {
	enum form form;
	const char *a, *b, *tolerance;
	enum compared result;
	const char *detail;
} rows[] = {
	{ CSV, "a,b\n1,2\n", "a,b\n1,3\n", NULL, COMPARED_DIFFERS,
	  "row 2, column 2 ('b'): '2' and '3'" },
	{ CSV, "a,b\n1,2\n", "a,c\n1,2\n", NULL, COMPARED_DIFFERS, "row 1, column 2: 'b' and 'c'" },
	{ CSV, "a,b\n1,2\n", "a,b\n1,2\n3,4\n", NULL, COMPARED_DIFFERS, "A has only 2 rows" },
	{ CSV, "a,b\n1,2,3\n", "a,b\n1,2\n", NULL, COMPARED_DIFFERS,
	  "row 2 has only 2 columns in B" },
	{ CSV, "a,\n", "a\n", NULL, COMPARED_DIFFERS, "row 1 has only 1 columns in B" },
	{ CSV, "a,", "a", NULL, COMPARED_DIFFERS, "row 1 has only 1 columns in B" },
	{ CSV, "\"a, b\",c\n", "\"a, b\",d\n", NULL, COMPARED_DIFFERS,
	  "row 1, column 2: 'c' and 'd'" },
	{ CSV, "\"x\"\"y\"\n", "\"x\"\"z\"\n", NULL, COMPARED_DIFFERS,
	  "row 1, column 1: 'x\"y' and 'x\"z'" },
	{ CSV, "\"a\nb\",1\n", "\"a\nb\",2\n", NULL, COMPARED_DIFFERS,
	  "row 1, column 2: '1' and '2'" },
	{ CSV, "a\r\n", "a\n", NULL, COMPARED_DIFFERS, "the same cells, written differently" },
	{ CSV, "\"a\"\n", "a\n", "0", COMPARED_NEAR, "" },
	{ CSV, "x\n1.0\n", "x\n1.0000001\n", "1e-6", COMPARED_NEAR, "" },
	{ CSV, "x\n1.0\n", "x\n1.0000001\n", "1e-8", COMPARED_DIFFERS,
	  "row 2, column 1 ('x'): '1.0' and '1.0000001'" },
	{ CSV, "x\n0\n", "x\n1e-17\n", "1e-6", COMPARED_DIFFERS,
	  "row 2, column 1 ('x'): '0' and '1e-17'" },
	{ CSV, "x\n0\n", "x\n1e-17\n", "1e-6,1e-12", COMPARED_NEAR, "" },
	{ CSV, "x\nNaN\n", "x\nnan\n", "1e-6", COMPARED_NEAR, "" },
	{ CSV, "x\ninf\n", "x\n1e300\n", "1e-6", COMPARED_DIFFERS,
	  "row 2, column 1 ('x'): 'inf' and '1e300'" },
	{ CSV, "x\n\n", "x\n0\n", "1", COMPARED_DIFFERS, "row 2, column 1 ('x'): '' and '0'" },
	{ CSV, "x\n1a\n", "x\n1b\n", "1", COMPARED_DIFFERS,
	  "row 2, column 1 ('x'): '1a' and '1b'" },
	{ CSV, "\033[31m,1\n", "\033[31m,2\n", NULL, COMPARED_DIFFERS,
	  "row 1, column 2: '1' and '2'" },
	{ CSV, "a\033b\n", "a\n", NULL, COMPARED_DIFFERS, "row 1, column 1: 'a?b' and 'a'" },
	{ TSV, "a\t\"b\n", "a\t\"c\n", NULL, COMPARED_DIFFERS, "row 1, column 2: '\"b' and '\"c'" },
	{ JSON, "{\"a\":[1,{\"b\":2}]}", "{\"a\":[1,{\"b\":3}]}", NULL, COMPARED_DIFFERS,
	  "'a[1].b': '2' and '3'" },
	{ JSON, "{\"a\":1}", "{\"a\":1,\"b\":2}", NULL, COMPARED_DIFFERS, "'b': only in B" },
	{ JSON, "{\"a\":1,\"b\":2}", "{\"a\":1}", NULL, COMPARED_DIFFERS, "'b': only in A" },
	{ JSON, "[1,2]", "[1]", NULL, COMPARED_DIFFERS, "'[1]': only in A" },
	{ JSON, "1", "2", NULL, COMPARED_DIFFERS, "'(the whole)': '1' and '2'" },
	{ JSON, "{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}", NULL, COMPARED_DIFFERS,
	  "the same values, written differently" },
	{ JSON, "[1.0]", "[1]", "0", COMPARED_NEAR, "" },
	{ JSON, "[1.0]", "[1.0000001]", "1e-6", COMPARED_NEAR, "" },
	{ JSON, "[1.0]", "[\"1.0\"]", "1", COMPARED_DIFFERS, "'[0]': '1.0' and '\"1.0\"'" },
	{ JSON, "[1,", "[1]", NULL, COMPARED_UNKNOWN, "" },
	{ JSON, "{\"a\":1,\"a\":2}", "{\"a\":1}", NULL, COMPARED_UNKNOWN, "" },
};

static void the_first_difference_is_told(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct row *r = &rows[i];
		CLEANUP_STR struct str detail = { 0 };
		enum compared result = look(r->form, r->a, r->b, r->tolerance, &detail);
		if (result != r->result || !str_eq(str_text(&detail), r->detail))
			fail_msg("row %zu: %d '%s', not %d '%s'", i, result, str_text(&detail),
				 r->result, r->detail);
	}
}

static void a_cell_without_end_is_not_kept(void **state)
{
	CLEANUP_STR struct str a = { 0 };
	CLEANUP_STR struct str detail = { 0 };

	str_add(&a, "\"");
	for (int i = 0; i < 3 << 20; i++)
		str_add_n(&a, "x", 1);
	assert_int_equal(look(CSV, str_text(&a), "b", NULL, &detail), COMPARED_UNKNOWN);
}

static void long_values_are_cut(void **state)
{
	CLEANUP_STR struct str a = { 0 };
	CLEANUP_STR struct str detail = { 0 };

	for (int i = 0; i < 1000; i++)
		str_add(&a, "\xc3\xa4");
	assert_int_equal(look(CSV, str_text(&a), "b", NULL, &detail), COMPARED_DIFFERS);
	assert_true(detail.length < 200);
	assert_true(str_is_utf8(detail.text, detail.length));
}

static void tolerances(void **state)
{
	static const char *const bad[] = { "",    ",",  "1,",  "-1",    "nan",
					   "inf", "1x", "0x1", "1,2,3", " 1" };
	struct tolerance t;
	struct err err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_true(tolerance_parse(bad[i], &t, &err) < 0);
	assert_int_equal(tolerance_parse("1e-6,0.5", &t, &err), 0);
	assert_true(t.is_said && t.relative == 1e-6 && t.absolute == 0.5);
}

static void nothing_hides_behind_a_zero_byte(void **state)
{
	static char of_a[] = "x\n1\0a\n", of_b[] = "x\n1\0b\n";
	struct tolerance t = { 0 };
	assert_int_equal(tolerance_parse("1e-6", &t, NULL), 0);
	CLEANUP_FILE FILE *a = fmemopen(of_a, sizeof of_a - 1, "r");
	CLEANUP_FILE FILE *b = fmemopen(of_b, sizeof of_b - 1, "r");
	struct compare_files f = { .a = a, .b = b, .tolerance = &t };
	assert_int_equal(compare_tables(&f, ','), COMPARED_DIFFERS);
	str_release(&f.detail);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_difference_is_told),
		cmocka_unit_test(a_cell_without_end_is_not_kept),
		cmocka_unit_test(long_values_are_cut),
		cmocka_unit_test(tolerances),
		cmocka_unit_test(nothing_hides_behind_a_zero_byte),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Run ids: what is let through, what is not, and that generated ones are sortable. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "spec/id.h"

static void good_ids_pass(void **state)
{
	static const char *const ids[] = {
		"a",     "0",
		"run-1", "A.b_c-9",
		"x.y.z", "0123456789012345678901234567890123456789012345678901234567890123"
	};
	(void)state;
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct err err = { 0 };
		assert_int_equal(id_check(ids[i], &err), 0);
		assert_int_equal(err.kind, ERR_NONE);
	}
}

static void hostile_ids_are_refused(void **state)
{
	static const char *const ids[] = { "",
					   ".",
					   "..",
					   "../x",
					   "a/b",
					   "/etc",
					   "a..b",
					   "-rf",
					   ".hidden",
					   "_x",
					   "a b",
					   "a\nb",
					   "a\n",
					   "a\x1b[31m",
					   "a%n",
					   "a*",
					   "a{id}",
					   "r\xd1\x83n",   /* Cyrillic u */
					   "\xef\xbd\x81", /* full-width a */
					   "a\xff" };
	(void)state;
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct err err = { 0 };
		assert_int_equal(id_check(ids[i], &err), -22);
		assert_int_equal(err.kind, ERR_CALLER);
		/* the message itself cannot carry an escape or a line break to a terminal */
		assert_null(strpbrk(err.text, "\x1b\n"));
	}
}

static void long_ids_are_refused_and_cut(void **state)
{
	char id[5001];
	struct err err = { 0 };
	(void)state;

	memset(id, 'a', sizeof(id) - 1);
	id[sizeof(id) - 1] = '\0';
	assert_int_equal(id_check(id, &err), -22);
	assert_non_null(strstr(err.text, "5000"));
	assert_true(strlen(err.text) < 300);
	id[65] = '\0';
	assert_int_equal(id_check(id, NULL), -22);
	id[64] = '\0';
	assert_int_equal(id_check(id, NULL), 0);
}

static void generated_ids_are_valid_and_differ(void **state)
{
	char id[ID_MAX + 1], before[ID_MAX + 1] = "";
	unsigned same = 0;
	(void)state;

	for (int i = 0; i < 200; i++) {
		id_generate(id);
		assert_int_equal(strlen(id), 13);
		assert_int_equal(strspn(id, "0123456789abcdefghjkmnpqrstvwxyz"), 13);
		assert_int_equal(id_check(id, NULL), 0);
		/* the time part never goes back */
		assert_true(strncmp(before, id, 9) <= 0);
		same += strcmp(before, id) == 0;
		memcpy(before, id, sizeof(id));
	}
	/* 20 bits of chance: two neighbours alike are possible, but not often */
	assert_true(same < 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_ids_pass),
		cmocka_unit_test(hostile_ids_are_refused),
		cmocka_unit_test(long_ids_are_refused_and_cut),
		cmocka_unit_test(generated_ids_are_valid_and_differ),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The table of limits: parsing, writing, profiles, merging, ceilings. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/str.h"
#include "spec/limits.h"
#include "spec/yaml.h"

static void every_row_is_complete(void **state)
{
	(void)state;
	for (int id = 0; id < LIMIT_COUNT_; id++) {
		char text[32];
		uint64_t back = 0;
		assert_non_null(limit_infos[id].key);
		assert_non_null(limit_infos[id].help);
		assert_int_equal(limit_find(limit_infos[id].key), id);
		if (!limit_infos[id].built_in)
			continue;
		/* what is written is read back as the same number */
		limit_write(id, limit_infos[id].built_in, text, sizeof(text));
		assert_int_equal(limit_parse(id, text, &back, NULL), 0);
		assert_int_equal(back, limit_infos[id].built_in);
	}
	assert_int_equal(limit_find("memroy"), -1);
}

static void values_have_units(void **state)
{
	static const struct {
		enum limit_id id;
		const char *text;
		uint64_t value;
	} cases[] = { { LIMIT_MEMORY, "2G", 2ULL << 30 },
		      { LIMIT_CPUS, "1.5", 1500 },
		      { LIMIT_PIDS, "512", 512 },
		      { LIMIT_TIME, "30m", 1800 * NS_PER_SEC },
		      { LIMIT_CPU_TIME, "90s", 90 * NS_PER_SEC } };
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t value = 0;
		assert_int_equal(limit_parse(cases[i].id, cases[i].text, &value, NULL), 0);
		assert_int_equal(value, cases[i].value);
	}
}

static void hostile_values_are_refused(void **state)
{
	static const char *const texts[] = { "",         "0",
					     "-1",       "+1",
					     " 1",       "1 ",
					     "nan",      "NaN",
					     ".nan",     "inf",
					     "-inf",     "1e9",
					     "0x10",     "99999999999999999999999999",
					     "-1G",      "0G",
					     "0s",       "1G1G",
					     "1..5",     "unlimited",
					     "none",     "max",
					     "-0",       "1\n2",
					     "\xd9\xa1", "0.0",
					     "1,5",      "184467440737095516160G" };
	(void)state;
	for (int id = 0; id < LIMIT_COUNT_; id++) {
		for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
			uint64_t value = 7;
			struct err err = { 0 };
			assert_true(limit_parse(id, texts[i], &value, &err) < 0);
			assert_int_equal(value, 7);
			assert_int_equal(err.kind, ERR_CALLER);
			assert_null(strchr(err.text, '\n'));
		}
	}
}

static void profiles_are_as_promised(void **state)
{
	struct limits l;
	(void)state;

	assert_int_equal(limits_profile("default", &l), 0);
	assert_int_equal(l.at[LIMIT_MEMORY].value, 2048ULL << 20);
	assert_int_equal(l.at[LIMIT_TIME].value, 1800 * NS_PER_SEC);
	assert_int_equal(l.at[LIMIT_CPUS].value, 1000);
	assert_int_equal(l.at[LIMIT_CPU_TIME].value, 0);
	assert_string_equal(l.at[LIMIT_MEMORY].origin, "built-in");
	assert_int_equal(limits_profile("notebook", &l), 0);
	assert_int_equal(l.at[LIMIT_TIME].value, 600 * NS_PER_SEC);
	assert_int_equal(limits_profile("tool", &l), 0);
	assert_int_equal(l.at[LIMIT_TIME].value, 600 * NS_PER_SEC);
	assert_int_equal(limits_profile("post_process", &l), 0);
	assert_int_equal(l.at[LIMIT_TIME].value, 300 * NS_PER_SEC);
	assert_int_equal(l.at[LIMIT_MEMORY].value, 2048ULL << 20);
	assert_int_equal(limits_profile("nobody", &l), -ENOENT);
}

static void merging_keeps_what_was_not_said(void **state)
{
	struct limits l, over = { 0 };
	char origin[400];
	(void)state;

	assert_int_equal(limits_profile("default", &l), 0);
	memset(origin, 'd', sizeof(origin));
	memcpy(origin + sizeof(origin) - 9, "x.yaml:3", 9);
	limits_set(&over, LIMIT_PIDS, 9, origin);
	limits_merge(&l, &over);
	assert_int_equal(l.at[LIMIT_PIDS].value, 9);
	assert_true(str_starts(l.at[LIMIT_PIDS].origin, "...d"));
	assert_true(str_ends(l.at[LIMIT_PIDS].origin, "x.yaml:3"));
	assert_int_equal(l.at[LIMIT_MEMORY].value, 2048ULL << 20);
}

static void ceilings_refuse_what_is_above(void **state)
{
	struct limits l = { 0 }, top = { 0 };
	struct err err = { 0 };
	(void)state;

	limits_set(&l, LIMIT_MEMORY, 4ULL << 30, "--memory");
	limits_set(&top, LIMIT_MEMORY, 4ULL << 30, "/etc/cupel/cupel.yaml:3");
	assert_int_equal(limits_check_ceilings(&l, &top, &err), 0);
	limits_set(&l, LIMIT_MEMORY, (4ULL << 30) + 1024, "--memory");
	assert_int_equal(limits_check_ceilings(&l, &top, &err), -EPERM);
	assert_int_equal(err.kind, ERR_CALLER);
	assert_non_null(strstr(err.text, "memory"));
	assert_non_null(strstr(err.text, "--memory"));
	assert_non_null(strstr(err.text, "/etc/cupel/cupel.yaml:3"));
	assert_non_null(strstr(err.text, "4G"));
}

static int read_text(const char *text, struct limits *to, struct err *err)
{
	CLEANUP_DOCUMENT struct document *d = NULL;

	assert_int_equal(document_parse("f.yaml", text, strlen(text), &d, err), 0);
	return limits_read(d, document_root(d), to, err);
}

static void maps_are_read_with_places(void **state)
{
	struct limits l = { 0 };
	struct err err = { 0 };
	(void)state;

	assert_int_equal(read_text("memory: 1.5G\ncpus: 2\n", &l, &err), 0);
	assert_int_equal(l.at[LIMIT_MEMORY].value, 1536ULL << 20);
	assert_int_equal(l.at[LIMIT_CPUS].value, 2000);
	assert_string_equal(l.at[LIMIT_CPUS].origin, "f.yaml:2");
	assert_int_equal(read_text("memory: 1G\nmemroy: 2G\n", &l, &err), -EINVAL);
	assert_true(str_starts(err.text, "f.yaml:2:1: unknown limit 'memroy'; did you mean"));
	assert_int_equal(read_text("time: -3\n", &l, &err), -EINVAL);
	assert_true(str_starts(err.text, "f.yaml:1:7: time: "));
	assert_int_equal(read_text("pids:\n", &l, &err), -EINVAL);
	assert_non_null(strstr(err.text, "is empty"));
	assert_int_equal(read_text("[memory]\n", &l, &err), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_is_complete),
		cmocka_unit_test(values_have_units),
		cmocka_unit_test(hostile_values_are_refused),
		cmocka_unit_test(profiles_are_as_promised),
		cmocka_unit_test(merging_keeps_what_was_not_said),
		cmocka_unit_test(ceilings_refuse_what_is_above),
		cmocka_unit_test(maps_are_read_with_places),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

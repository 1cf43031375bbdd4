/* What a runtime is put to, and what the end of a trial says: pure functions of values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "run/trial.h"

static void versions_are_found(void **state)
{
	static const char *const rows[][2] = {
		{ "samtools 1.16.1\nUsing htslib 1.16\n", "1.16.1" },
		{ "Python 3.11.2", "3.11.2" },
		{ "R version 4.2.2 (2022-10-31)", "4.2.2" },
		{ "This is perl 5, version 36, subversion 0 (v5.36.0)", "5.36.0" },
		{ "/usr/bin/bowtie2-align-s version 2.5.0\n64-bit", "2.5.0" },
		{ "loaded /usr/lib/python3.11/x.so, numpy-1.24.2", "1.24.2" },
		{ "gcc (Debian 12.2.0-14) 12.2.0", "12.2.0" },
		{ "V2.7", "2.7" },
		{ "less 590 (GNU)", "590" },
		{ "the 3rd of 4 parts", "4" },
		{ "1.2.", "1.2" },
		{ "dev2.7", NULL },
		{ "no number", NULL },
		{ "", NULL },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		CLEANUP_FREE char *found = version_find(rows[i][0]);
		if (!str_eq(found, rows[i][1]))
			fail_msg("'%s': found %s, not %s", rows[i][0], found, rows[i][1]);
	}
}

static void versions_are_compared_as_numbers(void **state)
{
	static const struct {
		const char *a, *b;
		int order;
	} rows[] = {
		{ "1.16", "1.9", 1 },
		{ "1.9", "1.16", -1 },
		{ "1.16", "1.16.0", 0 },
		{ "1.16", "1.16.1", -1 },
		{ "2", "1.999", 1 },
		{ "1.02", "1.2", 0 },
		{ "1.0", "1", 0 },
		{ "1.16rc1", "1.16", 0 },
		{ "99999999999999999999999999", "99999999999999999999999998", 1 },
		{ "", "0", 0 },
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		int order = version_compare(rows[i].a, rows[i].b);
		if ((order > 0) - (order < 0) != rows[i].order)
			fail_msg("%s against %s: %d", rows[i].a, rows[i].b, order);
	}
}

/* A runtime with two interpreters for three endings and one check of each kind. */
struct scene {
	struct interpreter interpreters[3];
	struct runtime_check checks[3];
	struct runtime runtime;
	struct trials trials;
};

static int setup(void **state)
{
	struct scene *s = xcalloc(1, sizeof *s);
	static const char *const programs[][2] = { { ".py", "python3" },
						   { ".R", "Rscript" },
						   { ".r", "Rscript" } };
	for (size_t i = 0; i < 3; i++) {
		s->interpreters[i].extension = (char *)programs[i][0];
		strv_add(&s->interpreters[i].argv, programs[i][1]);
	}
	s->checks[0] =
		(struct runtime_check){ .name = (char *)"import numpy", .kind = CHECK_IMPORT };
	strv_add(&s->checks[0].command, "python");
	strv_add(&s->checks[0].command, "numpy");
	s->checks[1] = (struct runtime_check){ .name = (char *)"v",
					       .kind = CHECK_VERSION,
					       .expect = (char *)"2.10" };
	strv_add(&s->checks[1].command, "tool");
	s->checks[2] = (struct runtime_check){ .name = (char *)"sum",
					       .kind = CHECK_RUN,
					       .expect = (char *)"42" };
	strv_add(&s->checks[2].command, "sum");
	s->runtime = (struct runtime){ .name = (char *)"r",
				       .origin = (char *)"r.yaml:1",
				       .interpreters = s->interpreters,
				       .n_interpreters = 3,
				       .checks = s->checks,
				       .n_checks = 3 };
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct scene *s = *state;
	trials_release(&s->trials);
	trials_release(&s->trials); /* twice is fine */
	for (size_t i = 0; i < 3; i++) {
		strv_release(&s->interpreters[i].argv);
		strv_release(&s->checks[i].command);
	}
	free(s);
	return 0;
}

static void each_interpreter_once_then_the_checks(void **state)
{
	struct scene *s = *state;
	trials_make(&s->runtime, &s->trials);
	assert_int_equal(s->trials.n, 5);
	assert_string_equal(s->trials.v[0].name, "interpreter python3");
	assert_string_equal(s->trials.v[0].argv.v[1], "-c");
	assert_string_equal(s->trials.v[1].name, "interpreter Rscript");
	const struct trial *import = &s->trials.v[2];
	assert_string_equal(import->argv.v[0], "python3");
	assert_string_equal(import->argv.v[import->argv.n - 1], "numpy");
	assert_string_equal(s->trials.v[4].argv.v[0], "sum");
	assert_null(s->trials.v[4].fault);
}

static void an_import_without_its_interpreter_fails(void **state)
{
	struct scene *s = *state;
	CLEANUP_FREE char *text = NULL;
	CLEANUP_TRIAL_END struct trial_end none = { 0 };
	s->runtime.n_interpreters = 0;
	trials_make(&s->runtime, &s->trials);
	assert_int_equal(s->trials.v[0].argv.n, 0);
	assert_int_equal(trial_judge(&s->trials.v[0], &none, &text), TRIAL_FAILED);
	assert_non_null(strstr(text, "interpreters: {.py: python3}"));
}

enum { PYTHON, RSCRIPT, IMPORT, VERSION, SUM };

static void ends_are_judged(void **state)
{
	static const struct {
		size_t trial;
		const char *cause;
		int exit_code, exec_errno;
		const char *out, *errors;
		enum trial_result result;
		const char *said;
	} rows[] = {
		{ PYTHON, "ok", 0, 0, "Python 3.11.2\n", "", TRIAL_OK, "Python 3.11.2" },
		{ PYTHON, "exit", 127, ENOENT, "", "", TRIAL_FAILED, "not found" },
		{ PYTHON, "exit", 126, EACCES, "", "", TRIAL_FAILED, "Permission denied" },
		{ PYTHON, "exit", 1, 0, "", "no encodings\n\n", TRIAL_FAILED,
		  "status 1: no encodings" },
		{ IMPORT, "ok", 0, 0, "numpy 1.24.2\n", "", TRIAL_OK, "numpy 1.24.2" },
		{ IMPORT, "exit", 1, 0, "", "Traceback\nModuleNotFoundError: x\n", TRIAL_FAILED,
		  "ModuleNotFoundError: x" },
		{ IMPORT, "oom", -1, 0, "", "", TRIAL_FAILED,
		  "oom: it needed more memory than its 64.0 MiB" },
		{ IMPORT, "deadline", -1, 0, "", "", TRIAL_FAILED,
		  "deadline: it did not end within its 2.00 s" },
		{ IMPORT, "setup", -1, 0, "", "", TRIAL_FAILED, "setup: the notes" },
		{ VERSION, "ok", 0, 0, "tool 2.10\n", "", TRIAL_OK, "version 2.10" },
		{ VERSION, "ok", 0, 0, "", "tool 3.0\n", TRIAL_OK, "version 3.0" },
		{ VERSION, "ok", 0, 0, "tool 2.9\n", "", TRIAL_FAILED, "2.9 is older than 2.10" },
		{ VERSION, "ok", 0, 0, "tool\n", "", TRIAL_FAILED, "no version" },
		{ VERSION, "exit", 1, 0, "tool 2.10\n", "", TRIAL_FAILED, "exit status 1" },
		{ SUM, "ok", 0, 0, "42", "", TRIAL_OK, "42" },
		{ SUM, "ok", 0, 0, "42\n", "", TRIAL_OK, "42" },
		{ SUM, "ok", 0, 0, "42\n\n", "", TRIAL_FAILED, "expected '42'" },
		{ SUM, "ok", 0, 0, "4", "", TRIAL_FAILED, "its output is '4'" },
		{ SUM, "ok", 0, 0, "\033[31mred", "", TRIAL_FAILED, "'?[31mred'" },
		{ SUM, "exit", 3, 0, "42", "", TRIAL_FAILED, "exit status 3" },
	};
	struct scene *s = *state;
	trials_make(&s->runtime, &s->trials);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		CLEANUP_FREE char *text = NULL;
		CLEANUP_TRIAL_END struct trial_end e = { .cause = xstrdup(rows[i].cause),
							 .notes = xstrdup("the notes"),
							 .exit_code = rows[i].exit_code,
							 .exec_errno = rows[i].exec_errno,
							 .out = xstrdup(rows[i].out),
							 .out_length = strlen(rows[i].out),
							 .out_bytes = strlen(rows[i].out),
							 .errors = xstrdup(rows[i].errors) };
		limits_set(&e.limits, LIMIT_MEMORY, 64 << 20, "test");
		limits_set(&e.limits, LIMIT_TIME, 2000000000, "test");
		enum trial_result result = trial_judge(&s->trials.v[rows[i].trial], &e, &text);
		if (result != rows[i].result || !strstr(text, rows[i].said))
			fail_msg("row %zu: %d, '%s'", i, result, text);
	}
}

static void digests_decide(void **state)
{
	struct scene *s = *state;
	static const char *const texts[] = { "42\n", "42" };
	for (int i = 0; i < 2; i++) {
		CLEANUP_FREE char *text = NULL;
		CLEANUP_TRIAL_END struct trial_end e = { .cause = xstrdup("ok"),
							 .out = xstrdup(texts[i]) };
		hash_bytes(texts[i], strlen(texts[i]), e.out_hex);
		/* printf '42\n' | sha256sum */
		s->checks[2].expect =
			(char *)"sha256:084c799cd551dd1d8d5c5f9a5d593b2e931f5e36122ee5c793c1d08a19839cc0";
		trials_make(&s->runtime, &s->trials);
		assert_int_equal(trial_judge(&s->trials.v[SUM], &e, &text),
				 i ? TRIAL_FAILED : TRIAL_OK);
		trials_release(&s->trials);
	}
}

/* What every kind has by default is used where it is installed; an entry that names a program must have it. */
static void only_what_nobody_named_may_be_absent(void **state)
{
	struct scene *s = *state;
	for (int i = 0; i < 2; i++) {
		CLEANUP_FREE char *text = NULL;
		CLEANUP_TRIAL_END struct trial_end e = { .cause = xstrdup("exit"),
							 .exit_code = 127,
							 .exec_errno = ENOENT };
		for (size_t k = 0; k < s->runtime.n_interpreters; k++)
			s->interpreters[k].by_default = i == 0;
		s->runtime.n_checks = i ? s->runtime.n_checks : 0;
		trials_make(&s->runtime, &s->trials);
		assert_int_equal(trial_judge(&s->trials.v[RSCRIPT], &e, &text),
				 i ? TRIAL_FAILED : TRIAL_ABSENT);
		trials_release(&s->trials);
	}
}

/* One that knows no --version has started all the same; a loader without a library says 127. */
static void an_unknown_language_need_not_tell_its_version(void **state)
{
	struct scene *s = *state;
	s->interpreters[0].extension = (char *)".lua";
	trials_make(&s->runtime, &s->trials);
	assert_string_equal(s->trials.v[0].argv.v[1], "--version");
	for (int i = 0; i < 2; i++) {
		CLEANUP_FREE char *text = NULL;
		CLEANUP_TRIAL_END struct trial_end e = { .cause = xstrdup("exit"),
							 .exit_code = i ? 127 : 2 };
		assert_int_equal(trial_judge(&s->trials.v[0], &e, &text),
				 i ? TRIAL_FAILED : TRIAL_OK);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions_are_found),
		cmocka_unit_test(versions_are_compared_as_numbers),
#define SCENE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
		SCENE(each_interpreter_once_then_the_checks),
		SCENE(an_import_without_its_interpreter_fails),
		SCENE(ends_are_judged),
		SCENE(digests_decide),
		SCENE(only_what_nobody_named_may_be_absent),
		SCENE(an_unknown_language_need_not_tell_its_version),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* err: the text fits whatever is put in, errno stays, kinds and codes arrive. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"

static void sets_code_kind_text(void **state)
{
	struct err err = { .layer = "old" };

	assert_int_equal(err_set(&err, ERR_HOST, ENOSPC, "disk %d", 7), -ENOSPC);
	assert_int_equal(err.code, ENOSPC);
	assert_int_equal(err.kind, ERR_HOST);
	assert_string_equal(err.text, "disk 7");
	assert_string_equal(err.layer, "");
	assert_int_equal(err_caller(&err, "no '%s'", "x"), -EINVAL);
	assert_int_equal(err.code, EINVAL);
	assert_int_equal(err.kind, ERR_CALLER);
	assert_string_equal(err.text, "no 'x'");
}

static void errno_is_appended_and_kept(void **state)
{
	struct err err = { 0 };

	errno = ENOENT;
	assert_int_equal(err_errno(&err, "open '%s'", "f"), -ENOENT);
	assert_string_equal(err.text, "open 'f': No such file or directory");
	assert_int_equal(err.kind, ERR_HOST);
	assert_int_equal(errno, ENOENT);
	errno = 0; /* a failure is never reported as success */
	assert_int_equal(err_errno(&err, "x"), -EIO);
}

static void layer_is_named(void **state)
{
	struct err err = { 0 };

	assert_int_equal(err_layer(&err, "landlock", "kernel has no %s", "it"), -EOPNOTSUPP);
	assert_string_equal(err.layer, "landlock");
	assert_string_equal(err.text, "landlock: kernel has no it");
	assert_int_equal(err_layer(&err, "a-layer-name-that-is-far-too-long", "x"), -EOPNOTSUPP);
	assert_int_equal(strlen(err.layer), sizeof(err.layer) - 1);
}

static void wrap_keeps_code_and_layer(void **state)
{
	struct err err = { 0 };

	(void)err_layer(&err, "disk", "none");
	assert_int_equal(err_wrap(&err, "start %s", "r1"), -EOPNOTSUPP);
	assert_string_equal(err.text, "start r1: disk: none");
	assert_string_equal(err.layer, "disk");
	assert_int_equal(err.kind, ERR_HOST);
	/* the text may be its own argument */
	(void)err_set(&err, ERR_CALLER, EPERM, "again %s", err.text);
	assert_string_equal(err.text, "again start r1: disk: none");
}

static void long_text_ends_in_dots(void **state)
{
	char text[3000];
	struct err err = { 0 };

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	(void)err_caller(&err, "%s", text);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	assert_true(str_ends(err.text, "x..."));
	assert_int_equal(err_wrap(&err, "%s", text), -EINVAL);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	assert_true(str_ends(err.text, "x..."));
	/* no half character is left before the dots, wherever the cut falls */
	for (int shift = 0; shift < 3; shift++) {
		struct str s = { 0 };
		for (int i = 0; i < shift; i++)
			str_add(&s, "a");
		for (int i = 0; i < 600; i++)
			str_add(&s, "€");
		(void)err_caller(&err, "%s", s.text);
		assert_true(str_is_utf8(err.text, strlen(err.text)));
		assert_true(str_ends(err.text, "€..."));
		str_release(&s);
	}
}

/* Names that others chose end up in these texts, and those on a terminal. */
static void text_is_one_printable_line(void **state)
{
	struct err err = { 0 };

	(void)err_caller(&err, "a%sb", "\x1b[31m\n\t\x7f");
	assert_string_equal(err.text, "a?[31m???b");
	(void)err_set(&err, ERR_HOST, EIO, "%s", "\xc2\x9b \xff\xc3 \xc3\xa9\xc2\xa0\xe2\x82\xac");
	assert_string_equal(err.text, "?? ?? \xc3\xa9\xc2\xa0\xe2\x82\xac");
	(void)err_wrap(&err, "%s", "\r");
	assert_true(str_starts(err.text, "?: ?? ??"));
	errno = EPERM;
	(void)err_errno(&err, "open '%s'", "\a");
	assert_string_equal(err.text, "open '?': Operation not permitted");
}

static void null_err_is_allowed(void **state)
{
	errno = EPERM;
	assert_int_equal(err_errno(NULL, "x"), -EPERM);
	assert_int_equal(err_caller(NULL, "x"), -EINVAL);
	assert_int_equal(err_set(NULL, ERR_HOST, EIO, "x"), -EIO);
	assert_int_equal(err_layer(NULL, "l", "x"), -EOPNOTSUPP);
	assert_true(err_wrap(NULL, "x") < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sets_code_kind_text),
		cmocka_unit_test(errno_is_appended_and_kept),
		cmocka_unit_test(layer_is_named),
		cmocka_unit_test(wrap_keeps_code_and_layer),
		cmocka_unit_test(long_text_ends_in_dots),
		cmocka_unit_test(text_is_one_printable_line),
		cmocka_unit_test(null_err_is_allowed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

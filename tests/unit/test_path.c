/* path: normal form, containment by component, names. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/path.h"

static void normal_form(void **state)
{
	static const struct {
		const char *base, *path, *normal; /* NULL: refused */
	} cases[] = {
		{ "/b", "/a/b", "/a/b" },
		{ "/b", "//a///b/", "/a/b" },
		{ "/b", "/a/./b/.", "/a/b" },
		{ "/b", "/a/../b", "/b" },
		{ "/b", "/", "/" },
		{ "/b", "/a/..", "/" },
		{ "/b", "/..", NULL },
		{ "/b", "/a/../..", NULL },
		{ "/b", "", NULL },
		{ "/b", "c", "/b/c" },
		{ "/b/", "./c", "/b/c" },
		{ "/b", "../c", "/c" },
		{ "/b", "../../c", NULL },
		{ "/", "c", "/c" },
		{ "/b", ".", "/b" },
		{ NULL, "c", NULL },
		{ "rel", "c", NULL },
		{ NULL, "/c", "/c" },
		{ "/b", "/a/..b/...", "/a/..b/..." },
		{ "/x", NULL, NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CLEANUP_FREE char *got = path_normal(cases[i].base, cases[i].path);
		if (!str_eq(got, cases[i].normal))
			fail_msg("%s + %s: got %s, not %s", cases[i].base, cases[i].path, got,
				 cases[i].normal);
	}
}

static void within_is_by_component(void **state)
{
	assert_true(path_within("/scratch", "/scratch"));
	assert_true(path_within("/scratch/a", "/scratch"));
	assert_false(path_within("/scratch2", "/scratch"));
	assert_false(path_within("/scratc", "/scratch"));
	assert_false(path_within("/", "/scratch"));
	assert_true(path_within("/anything", "/"));
	assert_true(path_within("/", "/"));
}

static void parts(void **state)
{
	CLEANUP_FREE char *joined = path_join("/a", "b");
	CLEANUP_FREE char *root = path_join("/", "b");
	CLEANUP_FREE char *parent = path_parent("/a/b");
	CLEANUP_FREE char *top = path_parent("/a");
	CLEANUP_FREE char *here = path_parent("a");

	assert_string_equal(joined, "/a/b");
	assert_string_equal(root, "/b");
	assert_string_equal(parent, "/a");
	assert_string_equal(top, "/");
	assert_string_equal(here, ".");
	assert_string_equal(path_base("/a/b"), "b");
	assert_string_equal(path_base("b"), "b");
	assert_string_equal(path_base("/"), "/");
}

static void names(void **state)
{
	char name[260];

	memset(name, 'n', sizeof(name));
	name[255] = '\0';
	assert_true(path_name_ok(name));
	name[255] = 'n';
	name[256] = '\0';
	assert_false(path_name_ok(name));
	assert_true(path_name_ok("a.b"));
	assert_true(path_name_ok("..."));
	assert_true(path_name_ok("é"));
	assert_false(path_name_ok(""));
	assert_false(path_name_ok(NULL));
	assert_false(path_name_ok("."));
	assert_false(path_name_ok(".."));
	assert_false(path_name_ok("a/b"));
	assert_false(path_name_ok("a\nb"));
	assert_false(path_name_ok("a\x7f"));
}

static void real_ones(void **state)
{
	CLEANUP_FREE char *cwd = path_cwd();
	CLEANUP_FREE char *real = path_real(".");

	assert_non_null(cwd);
	assert_string_equal(cwd, real);
	errno = 0;
	assert_null(path_real("/nowhere/at/all"));
	assert_int_equal(errno, ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(normal_form), cmocka_unit_test(within_is_by_component),
		cmocka_unit_test(parts),       cmocka_unit_test(names),
		cmocka_unit_test(real_ones),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

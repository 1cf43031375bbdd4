/* Inline script metadata: which block counts, what is read of its TOML, and every form that must not lead astray. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/num.h"
#include "runtime/select_parts.h"

static struct script_meta read_ok(const char *text)
{
	struct script_meta m = { 0 };
	struct err err = { 0 };

	if (script_meta_read("/d/a.py", text, strlen(text), &m, &err) < 0)
		fail_msg("refused: %s\n%s", err.text, text);
	return m;
}

/* Refused with an error that begins with `place` and has `words` in it. */
static void refused(const char *text, const char *place, const char *words)
{
	struct script_meta m = { 0 };
	struct err err = { 0 };

	if (script_meta_read("/d/a.py", text, strlen(text), &m, &err) >= 0)
		fail_msg("accepted:\n%s", text);
	assert_int_equal(err.kind, ERR_CALLER);
	assert_int_equal(m.line, 0);
	if (!str_starts(err.text, place) || !strstr(err.text, words))
		fail_msg("wanted '%s ... %s', got '%s'", place, words, err.text);
}

static void runtime_is(const char *text, const char *runtime, int line)
{
	CLEANUP_SCRIPT_META struct script_meta m = read_ok(text);

	if (!str_eq(m.runtime, runtime) || m.runtime_line != line)
		fail_msg("runtime %s in line %d, wanted %s in %d:\n%s", m.runtime, m.runtime_line,
			 runtime, line, text);
}

static void whole_block_is_read(void **state)
{
	CLEANUP_SCRIPT_META struct script_meta m = read_ok("#!/usr/bin/env python3\n"
							   "# A comment before it.\n"
							   "\n"
							   "# /// script\n"
							   "# requires-python = \">=3.11\"\n"
							   "# dependencies = [\n"
							   "#   \"numpy<3\", # why\n"
							   "#\n"
							   "#   'pandas[excel] >= 2',\n"
							   "# ]\n"
							   "#\n"
							   "# [tool.other]\n"
							   "# runtime = \"not ours\"\n"
							   "# [tool.cupel]\n"
							   "# runtime = \"data-ml\"\n"
							   "# [tool.cupel.limits]\n"
							   "# memory = \"4G\"\n"
							   "# cpu_time = '20m'\n"
							   "# ///\n"
							   "import numpy\n");
	(void)state;

	assert_int_equal(m.line, 4);
	assert_string_equal(m.requires_python, ">=3.11");
	assert_int_equal(m.dependencies.n, 2);
	assert_string_equal(m.dependencies.v[0], "numpy<3");
	assert_string_equal(m.dependencies.v[1], "pandas[excel] >= 2");
	assert_string_equal(m.runtime, "data-ml");
	assert_int_equal(m.runtime_line, 15);
	assert_int_equal(m.limits.at[LIMIT_MEMORY].value, 4ULL << 30);
	assert_string_equal(m.limits.at[LIMIT_MEMORY].origin, "/d/a.py:17");
	assert_int_equal(m.limits.at[LIMIT_CPU_TIME].value, 1200ULL * 1000000000);
	assert_int_equal(m.limits.at[LIMIT_TIME].value, 0);
}

/* What is no block says nothing, and is no mistake. */
static void what_is_no_block(void **state)
{
	static const char *const texts[] = {
		"",
		"import numpy\n",
		"# /// script\n# runtime = 3\n",    /* not closed: must be ignored */
		"# /// script\n# x = (\n\n# ///\n", /* the empty line has no '#' */
		"# /// script\n# x = (\nx = 1\n# ///\n",
		"# /// script\n#x = (\n# ///\n", /* no blank after '#' */
		" # /// script\n # x = (\n # ///\n",
		"#/// script\n# x = (\n# ///\n",
		"# ///script\n# x = (\n# ///\n",
		"# /// script \n# x = (\n# ///\n",
		"# /// script x\n# x = (\n# ///\n",
		"# /// Script\n# x = (\n# ///\n",
		"# /// pyproject\n# x = (\n# ///\n",
		"# //// script\n# x = (\n# ///\n",
		"# /// script\n# x = (\n# /// \n",
		"# /// script\n# x = (\n# ////\n",
		"# /// other\n# /// script\n# x = (\n# ///\n", /* content of another's */
	};
	(void)state;

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		CLEANUP_SCRIPT_META struct script_meta m = read_ok(texts[i]);
		if (m.line != 0)
			fail_msg("taken for a block: %s", texts[i]);
	}
	/* The control: the same content in a block is refused. */
	refused("# /// script\n# x = (\n# ///\n", "/d/a.py:2:", "value");
}

static void last_close_closes(void **state)
{
	(void)state;
	/* The example of the specification, with a table of ours behind the string. */
	runtime_is("# /// script\n"
		   "# embedded = \"\"\"\n"
		   "# /// <summary>\n"
		   "# /// text\n"
		   "# ///\n"
		   "# /// </summary>\n"
		   "# public class MyClass { }\n"
		   "# \"\"\"\n"
		   "# [tool.cupel]\n"
		   "# runtime = \"a\"\n"
		   "# ///\n",
		   "a", 10);
	/* Comments that follow a closed block at once are no part of it. */
	runtime_is("# /// script\n# tool.cupel.runtime = 'b'\n# ///\n# x = (\n", "b", 2);
	runtime_is("# /// script\n# tool.cupel.runtime = 'c'\n# ///", "c", 2);
	runtime_is("# /// script\r\n# tool.cupel.runtime = 'd'\r\n# ///\r\n", "d", 2);
	runtime_is("# /// script\n# ///\n", NULL, 0);
}

static void two_blocks_are_refused(void **state)
{
	(void)state;
	refused("# /// script\n# a = 1\n# ///\n\n\n# /// script\n# b = 1\n# ///\n",
		"/d/a.py:6:", "second block");
	refused("# /// script\n# a = 1\n# ///\n# /// script\n# b = 1\n# ///\n",
		"/d/a.py:3:", "empty line between");
	/* A second one that is not closed is none. */
	runtime_is("# /// script\n# tool.cupel.runtime = 'a'\n# ///\n\n# /// script\n# b = 1\n",
		   "a", 2);
	/* Of another type it does not count. */
	runtime_is("# /// x\n# a = (\n# ///\n\n# /// script\n# tool.cupel.runtime = 'a'\n# ///\n",
		   "a", 6);
}

/* One key of the table, in every way that TOML has to say it. */
static void every_way_to_say_a_key(void **state)
{
	(void)state;
	runtime_is("# /// script\n# tool = { cupel = { runtime = 'a' } }\n# ///\n", "a", 2);
	runtime_is("# /// script\n# tool.cupel = {runtime=\"a\"}\n# ///\n", "a", 2);
	runtime_is("# /// script\n# [tool]\n# cupel.runtime = 'a'\n# ///\n", "a", 3);
	runtime_is("# /// script\n# [ tool . \"cupel\" ] # x\n# 'runtime' = 'a'\n# ///\n", "a", 3);
	runtime_is("# /// script\n# [tool.cupel]\n# \"run\\u0074ime\" = 'a'\n# ///\n", "a", 3);
	runtime_is("# /// script\n# [tool.cupel]\n# runtime = \"\"\"\n# a\\\n#    b\"\"\"\n# ///\n",
		   "ab", 3);
	runtime_is("# /// script\n# [tool.cupel]\n# runtime = '''a'''\n# ///\n", "a", 3);
	runtime_is("# /// script\n#   [tool.cupel]\n# \t runtime\t=\t'a'\t\n# ///\n", "a", 3);
	/* Not ours: the key of another table, or a longer path. */
	runtime_is("# /// script\n# runtime = 'a'\n# ///\n", NULL, 0);
	runtime_is("# /// script\n# [tool.cupel2]\n# runtime = 'a'\n# ///\n", NULL, 0);
	runtime_is("# /// script\n# [x.tool.cupel]\n# runtime = 'a'\n# ///\n", NULL, 0);
	runtime_is("# /// script\n# [\"tool.cupel\"]\n# runtime = 'a'\n# ///\n", NULL, 0);
}

/* What nobody asks for is passed over by TOML's rules, so that what follows it is found. */
static void the_rest_is_passed_over(void **state)
{
	static const char *const values[] = {
		"1",
		"+1_000",
		"-0",
		"0xdead_BEEF",
		"0o17",
		"0b1_0",
		"3.14",
		"-2E-2_2",
		"1e06",
		"inf",
		"-nan",
		"true",
		"false",
		"1979-05-27",
		"1979-05-27T07:32:00Z",
		"1979-05-27 07:32:00.999-07:00",
		"07:32:00",
		"[]",
		"[ ]",
		"[1, 2,]",
		"[[1], ['a', \"]\"], {x = ']'}]",
		"{}",
		"{ a = 1, b.c = '}', \"d\" = [ '{' ] }",
		"\"a # b\"",
		"'a \\'",
		"\"\\\"\"",
		"\"\\\\\"",
		"\"\\u00e9 \\U0001F600\"",
		"''",
		"\"\"",
		"\"\"\"a\"\"\"",
		"\"\"\"\"a\"\"\"\"",
		"\"\"\"a\"\"\"\"\"",
		"''''a'''''",
		"'''[tool.cupel]'''",
	};
	char text[512];
	(void)state;

	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		(void)snprintf(
			text, sizeof text,
			"# /// script\n# x = %s # c\n# [tool.cupel]\n# runtime = 'a'\n# ///\n",
			values[i]);
		runtime_is(text, "a", 4);
	}
	runtime_is(
		"# /// script\n# x = [ # a ]\n#\n#   1, # '\n# ]\n# [[y]]\n# z = '''\n# [tool.cupel]\n"
		"# '''\n# [tool.cupel]\n# runtime = 'a'\n# ///\n",
		"a", 11);
	runtime_is(
		"# /// script\n# x = \"\"\"\n# \\\"\"\"\n# runtime = 1\n# \"\"\"\n# tool.cupel.runtime = 'a'\n# ///\n",
		"a", 6);
}

static void what_is_no_toml(void **state)
{
	static const struct {
		const char *line, *words;
	} cases[] = {
		{ "x", "'='" },
		{ "x =", "value" },
		{ "= 1", "key" },
		{ "x = a", "value" },
		{ "x = 01", "value" },
		{ "x = 1__0", "value" },
		{ "x = 1.", "value" },
		{ "x = .5", "value" },
		{ "x = 0x", "value" },
		{ "x = True", "value" },
		{ "x = 1979-5-27", "value" },
		{ "x = 1 y = 2", "only a comment" },
		{ "x = \"a", "not closed" },
		{ "x = 'a", "not closed" },
		{ "x = \"\\x41\"", "escape" },
		{ "x = \"\\ud800\"", "escape" },
		{ "x = \"\\u0000\"", "escape" },
		{ "x = \"\\u12\"", "escape" },
		{ "x = \"a\tb\x01\"", "control" },
		{ "x = 1 # \x01", "control" },
		{ "x = [1 2]", "','" },
		{ "x = [1", "','" },
		{ "x = [,]", "value" },
		{ "x = {a = 1,}", "key" },
		{ "x = {a = 1", "','" },
		{ "x = {a}", "'='" },
		{ "[x", "']'" },
		{ "[x] y", "only a comment" },
		{ "[[x]", "']'" },
		{ "[]", "key" },
		{ "[x.]", "key" },
		{ "\"\"\"x\"\"\" = 1", "key" },
		{ "x.y. = 1", "key" },
	};
	char text[256];
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		(void)snprintf(text, sizeof text, "\n# /// script\n# a = 1\n# %s\n# ///\n",
			       cases[i].line);
		refused(text, "/d/a.py:", cases[i].words);
	}
	refused("# /// script\n# a = 1\n# x = 01\n# ///\n", "/d/a.py:3:", "value");
	refused("# /// script\n# x = '''\n# a\n# ///\n", "/d/a.py:", "not closed");
	refused("# /// script\n# x = \"\xff\"\n# ///\n", "/d/a.py:1:", "UTF-8");
}

static void what_cupel_does_not_take(void **state)
{
	(void)state;
	refused("# /// script\n# requires-python = 3\n# ///\n", "/d/a.py:2:", "string");
	refused("# /// script\n# requires-python.x = '3'\n# ///\n", "/d/a.py:2:", "string");
	refused("# /// script\n# dependencies = 'a'\n# ///\n", "/d/a.py:2:", "list");
	refused("# /// script\n# dependencies = [\n#   'a',\n#   1,\n# ]\n# ///\n",
		"/d/a.py:4:", "list of strings");
	refused("# /// script\n# dependencies = [['a']]\n# ///\n", "/d/a.py:2:", "list");
	refused("# /// script\n# dependencies = ['-e .']\n# ///\n", "/d/a.py:2:", "name");
	refused("# /// script\n# dependencies = ['']\n# ///\n", "/d/a.py:2:", "name");
	refused("# /// script\n# dependencies = []\n# dependencies = []\n# ///\n",
		"/d/a.py:3:", "twice");
	refused("# /// script\n# [tool.cupel]\n# runtime = 1\n# ///\n", "/d/a.py:3:", "string");
	refused("# /// script\n# [tool.cupel]\n# runtime = []\n# ///\n", "/d/a.py:3:", "string");
	refused("# /// script\n# [tool.cupel]\n# runtime = 'a'\n# runtime = 'b'\n# ///\n",
		"/d/a.py:4:", "twice");
	refused("# /// script\n# [tool.cupel]\n# runtime = '../a'\n# ///\n", "/d/a.py:3:", "name");
	refused("# /// script\n# [tool.cupel]\n# runtime = ''\n# ///\n", "/d/a.py:3:", "name");
	refused("# /// script\n# [tool.cupel]\n# runtime = \"a\\nb\"\n# ///\n",
		"/d/a.py:3:", "name");
	refused("# /// script\n# [[tool.cupel]]\n# runtime = 'a'\n# ///\n",
		"/d/a.py:2:", "[tool.cupel]");
	refused("# /// script\n# tool.cupel = 1\n# ///\n", "/d/a.py:2:", "table");
	refused("# /// script\n# [tool.cupel]\n# runtme = 'a'\n# ///\n",
		"/d/a.py:3:", "did you mean runtime");
	refused("# /// script\n# [tool.cupel]\n# limits = '4G'\n# ///\n", "/d/a.py:3:", "table");
	refused("# /// script\n# [tool.cupel.limits]\n# memory = 4\n# ///\n",
		"/d/a.py:3:", "quotes");
	refused("# /// script\n# [tool.cupel.limits]\n# memory = '4X'\n# ///\n",
		"/d/a.py:3:", "memory");
	refused("# /// script\n# [tool.cupel.limits]\n# ram = '4G'\n# ///\n",
		"/d/a.py:3:", "no limit");
	refused("# /// script\n# [tool.cupel.limits]\n# memory = '4G'\n# memory = '5G'\n# ///\n",
		"/d/a.py:4:", "twice");
	/* The control. */
	CLEANUP_SCRIPT_META struct script_meta m = read_ok(
		"# /// script\n# tool.cupel.limits = { memory = '4G', pids = '10' }\n# ///\n");
	assert_int_equal(m.limits.at[LIMIT_PIDS].value, 10);
}

/* Depth costs no stack, length no time that grows faster than the text. */
static void hostile_sizes(void **state)
{
	CLEANUP_STR struct str deep = { 0 }, starts = { 0 };
	(void)state;

	str_add(&deep, "# /// script\n# x = ");
	for (int i = 0; i < 100000; i++)
		str_add(&deep, "[");
	str_add(&deep, "\n# ///\n");
	refused(str_text(&deep), "/d/a.py:2:", "too deeply");

	for (int i = 0; i < 100000; i++)
		str_add(&starts, "# /// a\n");
	CLEANUP_SCRIPT_META struct script_meta m = read_ok(str_text(&starts));
	assert_int_equal(m.line, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_block_is_read),
		cmocka_unit_test(what_is_no_block),
		cmocka_unit_test(last_close_closes),
		cmocka_unit_test(two_blocks_are_refused),
		cmocka_unit_test(every_way_to_say_a_key),
		cmocka_unit_test(the_rest_is_passed_over),
		cmocka_unit_test(what_is_no_toml),
		cmocka_unit_test(what_cupel_does_not_take),
		cmocka_unit_test(hostile_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

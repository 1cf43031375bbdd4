/* The YAML tree: what it holds, and every cap that hostile text meets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "../skip.h"
#include "base/str.h"
#include "spec/show.h"
#include "spec/yaml.h"

static struct document *parse(const char *text)
{
	struct document *d = NULL;
	struct err err = { 0 };
	int r = document_parse("f.yaml", text, strlen(text), &d, &err);

	if (r < 0)
		fail_msg("refused: %s", err.text);
	return d;
}

/* The text must be refused with an error that begins `place` and has `words` in it. */
static void refused_n(const char *text, size_t length, const char *place, const char *words)
{
	CLEANUP_DOCUMENT struct document *d = NULL;
	struct err err = { 0 };

	assert_true(document_parse("f.yaml", text, length, &d, &err) < 0);
	assert_null(d);
	assert_int_equal(err.kind, ERR_CALLER);
	if (!str_starts(err.text, place) || !strstr(err.text, words))
		fail_msg("wanted '%s ... %s', got '%s'", place, words, err.text);
}

static void refused(const char *text, const char *place, const char *words)
{
	refused_n(text, strlen(text), place, words);
}

static void tree_has_places_and_text(void **state)
{
	CLEANUP_DOCUMENT struct document *d =
		parse("a: 1\nlist:\n  - x\n  - 'y'\nmap: {k: \"v\"}\n");
	const struct node *root = document_root(d);
	(void)state;

	assert_int_equal(root->kind, NODE_MAP);
	assert_int_equal(root->n, 3);
	assert_string_equal(map_get(root, "a")->text, "1");
	const struct node *list = map_get(root, "list");
	assert_int_equal(list->kind, NODE_LIST);
	assert_int_equal(list->n, 2);
	assert_int_equal(list->values[1]->line, 4);
	assert_int_equal(list->values[1]->column, 5);
	assert_true(list->values[1]->quoted);
	assert_false(list->values[0]->quoted);
	assert_int_equal(root->weight, 11);
	assert_int_equal(root->height, 2);
	assert_null(map_get(root, "none"));
	assert_string_equal(document_file(d), "f.yaml");
}

static void empty_documents_have_no_root(void **state)
{
	static const char *const texts[] = { "", "\n\n", "# only a comment\n", "---\n", "~\n" };
	(void)state;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		CLEANUP_DOCUMENT struct document *d = parse(texts[i]);
		assert_null(document_root(d));
	}
}

static void aliases_share_and_count(void **state)
{
	CLEANUP_DOCUMENT struct document *d = parse("a: &x [1, 2]\nb: *x\n");
	const struct node *root = document_root(d);
	(void)state;

	assert_ptr_equal(map_get(root, "a"), map_get(root, "b"));
	assert_int_equal(root->weight, 1 + 2 + 3 + 3);
	assert_int_equal(root->bytes, 2 + 2 + 2);
}

static void duplicates_name_both_places(void **state)
{
	(void)state;
	refused("a: 1\nb: 2\n  \na: 3\n", "f.yaml:4:1: ", "first at line 1 column 1");
	refused("m: {x: 1, 'x': 2}\n", "f.yaml:1:11: ", "second time");
}

static void odd_yaml_is_refused(void **state)
{
	(void)state;
	refused("a: !!int 3\n", "f.yaml:1:4: ", "tag");
	refused("a: !!python/object:os.system [x]\n", "f.yaml:1:4: ", "tag");
	refused("! a: b\n", "f.yaml:1:1: ", "tag");
	refused("d: &d {x: 1}\na:\n  <<: *d\n", "f.yaml:3:3: ", "merge key");
	refused("[a, b]: c\n", "f.yaml:1:1: ", "key must be");
	refused("? {a: b}\n: c\n", "f.yaml:1:3: ", "key must be");
	refused("a: &k x\n*k : y\n", "f.yaml:2:1: ", "alias cannot be a key");
	refused("a: 1\n---\nb: 2\n", "f.yaml:2:1: ", "second document");
	refused("a: *nobody\n", "f.yaml:1:4: ", "no anchor");
	refused("a: &a [*a]\n", "f.yaml:1:8: ", "inside what it refers to");
	refused("a: [1, 2\nb: 3\n", "f.yaml:", "not valid YAML");
	refused("a: 'x\n", "f.yaml:", "not valid YAML");
	refused("\ta: 1\n", "f.yaml:1:", "not valid YAML");
}

/* libyaml compares each with all before it, so a file of them would cost many seconds. */
static void tag_directives_are_refused(void **state)
{
	CLEANUP_DOCUMENT struct document *d = parse("%YAML 1.1\n---\na: 1 %TAG\n");
	(void)state;

	assert_string_equal(map_get(document_root(d), "a")->text, "1 %TAG");
	refused("%TAG !a! x\n---\na: 1\n", "f.yaml:1:1: ", "directive");
	refused("# first\r%TAG !a! x\n---\na: 1\n", "f.yaml:", "directive");
	refused("a: 1\n%TAG !a! x\n---\na: 1\n", "f.yaml:2:1: ", "directive");
	/* the other line breaks of YAML: NEL, LS, PS */
	refused("#\xc2\x85%TAG !a! x\n---\na: 1\n", "f.yaml:", "directive");
	refused("#\xe2\x80\xa8%TAG !a! x\n---\na: 1\n", "f.yaml:", "directive");
	refused("#\xe2\x80\xa9%TAG !a! x\n---\na: 1\n", "f.yaml:", "directive");
}

static void bad_bytes_are_refused(void **state)
{
	(void)state;
	refused_n("a: x\0y\n", 7, "f.yaml:1:5: ", "control characters");
	refused("a: \"x\\0y\"\n", "f.yaml:1:4: ", "NUL");
	refused("b: 1\na: \xff\xfe\n", "f.yaml:2:4: ", "UTF-8");
	refused("a: \xc0\xaf\n", "f.yaml:1:4: ", "UTF-8");     /* overlong '/' */
	refused("a: \xed\xa0\x80\n", "f.yaml:1:4: ", "UTF-8"); /* surrogate */
	refused("a: \x1b[31m\n", "f.yaml:1:4: ", "control characters");
	refused_n("\xff\xfe\x61\x00:\x00 \x00", 8, "f.yaml:1:1: ", "UTF-8");
}

static void depth_bombs_are_refused(void **state)
{
	const size_t n = 1000 * 1000;
	CLEANUP_FREE char *text = xmalloc(n + 1);
	CLEANUP_STR struct str block = { 0 };
	(void)state;

	memset(text, '[', n);
	text[n] = '\0';
	refused(text, "f.yaml:1:25: ", "deeper");
	memset(text, '{', n);
	refused(text, "f.yaml:1:2: ", "key must be");
	for (int i = 0; i < 500; i++)
		str_add(&block, "- ");
	refused(str_text(&block), "f.yaml:1:49: ", "deeper");
	/* 24 levels are allowed */
	CLEANUP_DOCUMENT struct document *d =
		parse("[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]");
	assert_int_equal(document_root(d)->height, 23);
}

static void depth_through_aliases_is_refused(void **state)
{
	CLEANUP_STR struct str text = { 0 };
	(void)state;

	str_add(&text, "- &a0 [x]\n");
	for (int i = 1; i < 60; i++)
		str_addf(&text, "- &a%d [*a%d]\n", i, i - 1);
	refused(str_text(&text), "f.yaml:23:", "deeper");
}

/* The classic: each level names the one before nine times. */
static void alias_bombs_are_refused(void **state)
{
	CLEANUP_STR struct str text = { 0 };
	(void)state;

	str_add(&text, "- &a0 [x,x,x,x,x,x,x,x,x]\n");
	for (int i = 1; i < 12; i++) {
		str_addf(&text, "- &a%d [", i);
		for (int k = 0; k < 9; k++)
			str_addf(&text, "%s*a%d", k ? "," : "", i - 1);
		str_add(&text, "]\n");
	}
	refused(str_text(&text), "f.yaml:5:", "aliases expanded");
}

static void text_through_aliases_is_capped(void **state)
{
	CLEANUP_FREE char *big = xmalloc(100001);
	CLEANUP_STR struct str text = { 0 };
	(void)state;

	memset(big, 'x', 100000);
	big[100000] = '\0';
	str_addf(&text, "a: &a %s\nb:\n", big);
	for (int i = 0; i < 4000; i++)
		str_add(&text, "- *a\n");
	refused(str_text(&text), "f.yaml:", "bytes of text, aliases expanded");
}

static void sizes_are_capped(void **state)
{
	CLEANUP_STR struct str text = { 0 }, many = { 0 }, anchors = { 0 };
	CLEANUP_FREE char *big = xmalloc(YAML_BYTES_MAX + 2);
	(void)state;

	memset(big, 'x', YAML_BYTES_MAX + 1);
	big[YAML_BYTES_MAX + 1] = '\0';
	refused(big, "f.yaml: ", "larger than");
	str_addf(&text, "a: %.*s\n", YAML_SCALAR_MAX + 1, big);
	refused(str_text(&text), "f.yaml:1:4: ", "at most");
	for (int i = 0; i < YAML_NODES_MAX; i++)
		str_add(&many, "- x\n");
	refused(str_text(&many), "f.yaml:10000:3: ", "more than");
	for (int i = 0; i <= YAML_ANCHORS_MAX; i++)
		str_addf(&anchors, "- &a%d x\n", i);
	refused(str_text(&anchors), "f.yaml:257:3: ", "anchors");
}

/* There in a sanitizer build, whichever the compiler. */
extern void __asan_init(void) __attribute__((weak));

static void hostile_text_costs_little_memory(void **state)
{
	struct rusage use;
	(void)state;

	SKIP_UNLESS(!__asan_init, "plain-build", "the sanitizer keeps freed memory");
	assert_int_equal(getrusage(RUSAGE_SELF, &use), 0);
	/* all of the bombs above have been thrown by now */
	assert_true(use.ru_maxrss < 128 * 1024);
}

struct target {
	char *name;
	bool flag;
	struct strv list;
	int word;
};

static int read_name(const struct document *d, const struct node *n, void *target, struct err *err)
{
	return node_string(d, n, &((struct target *)target)->name, err);
}

static int read_flag(const struct document *d, const struct node *n, void *target, struct err *err)
{
	return node_bool(d, n, &((struct target *)target)->flag, err);
}

static int read_list(const struct document *d, const struct node *n, void *target, struct err *err)
{
	return node_strings(d, n, 3, &((struct target *)target)->list, err);
}

static int read_word(const struct document *d, const struct node *n, void *target, struct err *err)
{
	static const char *const words[] = { "never", "failed", "always" };
	int r = node_word(d, n, words, 3, err);

	((struct target *)target)->word = r;
	return r < 0 ? r : 0;
}

static int read_text(const char *text, struct target *to, struct err *err)
{
	static const struct key_row rows[] = { { "name", read_name },
					       { "flag", read_flag },
					       { "list", read_list },
					       { "word", read_word } };
	CLEANUP_DOCUMENT struct document *d = parse(text);
	int r = map_read(d, document_root(d), rows, 4, to, err);

	free(to->name);
	to->name = NULL;
	return r;
}

static void typed_reads_work(void **state)
{
	struct target to = { 0 };
	struct err err = { 0 };
	(void)state;

	assert_int_equal(read_text("name: ''\nflag: true\nlist: [a, '', \"null\"]\nword: always\n",
				   &to, &err),
			 0);
	assert_true(to.flag);
	assert_int_equal(to.word, 2);
	assert_int_equal(to.list.n, 3);
	assert_string_equal(to.list.v[2], "null");
	strv_release(&to.list);
}

static void typed_reads_refuse(void **state)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{ "nmae: x", "f.yaml:1:1: unknown key 'nmae'; did you mean 'name'?" },
		{ "n\xd0\xb0me: x", "f.yaml:1:1: unknown key" }, /* a Cyrillic twin */
		{ "zzzzzzzz: x", "known: name, flag, list, word" },
		{ "name:", "f.yaml:1:1: 'name' is empty" },
		{ "name: ~", "is empty" },
		{ "name: null", "is empty" },
		{ "name: [x]", "f.yaml:1:7: expected a text, found a list" },
		{ "flag: yes", "f.yaml:1:7: expected true or false" },
		{ "flag: 'true'", "without quotes" },
		{ "flag: {}", "found a map" },
		{ "list: x", "expected a list" },
		{ "list: [a, ~]", "f.yaml:1:11: the value is empty" },
		{ "list: [a, [b]]", "found a list" },
		{ "list: [a, b, c, d]", "at most 3" },
		{ "word: alway", "did you mean 'always'?" },
		{ "- a", "expected a map" },
		{ "just text", "expected a map" },
		{ "\"na\\e[31m\\nme\": x", "unknown key 'na?[31m?me'" },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct target to = { 0 };
		struct err err = { 0 };
		assert_int_equal(read_text(cases[i].text, &to, &err), -22);
		if (!strstr(err.text, cases[i].error))
			fail_msg("'%s': got '%s'", cases[i].text, err.text);
		assert_null(strpbrk(err.text, "\x1b\n"));
		assert_int_equal(to.list.n, 0);
	}
}

static void shown_text_is_short_and_clean(void **state)
{
	char shown[SHOW_ROOM], text[600];
	(void)state;

	assert_string_equal(show_text("a\tb\x7f\xc2\x9b\xff", shown), "a?b????");
	assert_string_equal(show_text("\xc3\xa9", shown), "\xc3\xa9");
	assert_string_equal(show_text(NULL, shown), "");
	for (int i = 0; i < 299; i++)
		memcpy(text + 2 * i, "\xc3\xa9", 3);
	assert_true(strlen(show_text(text, shown)) < SHOW_ROOM);
	assert_true(str_is_utf8(shown, strlen(shown)));
	assert_true(str_ends(shown, "..."));
	memset(text, 'x', 95);
	text[95] = '\0';
	assert_string_equal(show_text(text, shown), text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tree_has_places_and_text),
		cmocka_unit_test(empty_documents_have_no_root),
		cmocka_unit_test(aliases_share_and_count),
		cmocka_unit_test(duplicates_name_both_places),
		cmocka_unit_test(odd_yaml_is_refused),
		cmocka_unit_test(tag_directives_are_refused),
		cmocka_unit_test(bad_bytes_are_refused),
		cmocka_unit_test(depth_bombs_are_refused),
		cmocka_unit_test(depth_through_aliases_is_refused),
		cmocka_unit_test(alias_bombs_are_refused),
		cmocka_unit_test(text_through_aliases_is_capped),
		cmocka_unit_test(sizes_are_capped),
		cmocka_unit_test(hostile_text_costs_little_memory),
		cmocka_unit_test(typed_reads_work),
		cmocka_unit_test(typed_reads_refuse),
		cmocka_unit_test(shown_text_is_short_and_clean),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

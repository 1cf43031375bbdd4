/* The manifest: what is written is read back, and nothing else is read. */
#include "prefix.h"

static void sample(struct snapshot *s)
{
	static const struct entry entries[] = {
		{ .path = "a\n\xff",
		  .kind = 'f',
		  .mode = 0644,
		  .size = 3,
		  .mtime_ns = -7,
		  .ctime_ns = 9,
		  .sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
		{ .path = "b\\x41", .kind = 'd', .mode = 01777 },
		{ .path = "c", .kind = 'l', .mode = 0777, .target = "" },
		{ .path = "b\\x41/\t", .kind = 'o', .mode = 0600, .size = UINT64_MAX },
	};

	items_add(&s->items, "conda", "num\tpy", "1\n", "", "d");
	s->tree.n = sizeof(entries) / sizeof(*entries);
	s->tree.v = xcalloc(s->tree.n, sizeof(*s->tree.v));
	memcpy(s->tree.v, entries, sizeof(entries));
}

static void read_back(void **state)
{
	CLEANUP_SNAPSHOT struct snapshot s = SNAPSHOT_INIT, back = SNAPSHOT_INIT;
	CLEANUP_STR struct str text = { 0 };
	char before[HASH_HEX], after[HASH_HEX];
	struct err err = { 0 };
	(void)state;

	sample(&s);
	manifest_write("r\n", &s, &text);
	if (manifest_parse("m", "r\n", text.text, text.length, &back, &err) < 0)
		fail_msg("%s", err.text);
	tree_digest_stat(&s.tree, before);
	tree_digest_stat(&back.tree, after);
	assert_string_equal(before, after);
	tree_digest_content(&s.tree, before);
	tree_digest_content(&back.tree, after);
	assert_string_equal(before, after);
	assert_string_equal(back.tree.v[1].path, "b\\x41");
	assert_string_equal(back.items.v[0].name, "num\tpy");
	assert_non_null(back.tree.v[2].target);
}

static void assert_refused(const char *text, size_t length, const char *words)
{
	CLEANUP_SNAPSHOT struct snapshot back = SNAPSHOT_INIT;
	struct err err = { 0 };

	assert_int_equal(manifest_parse("m", "r", text, length, &back, &err), -EINVAL);
	if (!strstr(err.text, words))
		fail_msg("'%s' is not in: %s", words, err.text);
	assert_null(back.tree.v);
}

static void every_truncation(void **state)
{
	CLEANUP_SNAPSHOT struct snapshot s = SNAPSHOT_INIT, back = SNAPSHOT_INIT;
	CLEANUP_STR struct str text = { 0 };
	(void)state;

	sample(&s);
	manifest_write("r", &s, &text);
	for (size_t n = 0; n < text.length; n++)
		assert_refused(text.text, n, "damaged");
	assert_int_equal(manifest_parse("m", "r", text.text, text.length, &back, NULL), 0);
}

static void refused(void **state)
{
	static const struct {
		const char *text, *words;
	} rows[] = {
		{ "hello\n", "not a manifest" },
		{ "cupel-manifest\t2\tr\nend\t0\n", "version 2" },
		{ "cupel-manifest\t1\tother\nend\t0\n", "of runtime 'other'" },
		{ "cupel-manifest\t1\tr\nend\t1\n", "lines are missing" },
		{ "cupel-manifest\t1\tr\nend\t0\nend\t0\n", "more after the end" },
		{ "cupel-manifest\t1\tr\nd\t0755\t0\t0\t0\t-\tb\nd\t0755\t0\t0\t0\t-\ta\nend\t2\n",
		  "out of order" },
		{ "cupel-manifest\t1\tr\nd\t0755\t0\t0\t0\t-\tb\nd\t0755\t0\t0\t0\t-\tb\nend\t2\n",
		  "out of order" },
		{ "cupel-manifest\t1\tr\nd\t9755\t0\t0\t0\t-\tb\nend\t1\n", "number" },
		{ "cupel-manifest\t1\tr\nd\t0755\t-1\t0\t0\t-\tb\nend\t1\n", "number" },
		{ "cupel-manifest\t1\tr\nd\t0755\t0\t99999999999999999999\t0\t-\tb\nend\t1\n",
		  "number" },
		{ "cupel-manifest\t1\tr\nf\t0755\t0\t0\t0\tabc\tb\nend\t1\n", "digest" },
		{ "cupel-manifest\t1\tr\nl\t0755\t0\t0\t0\t-\tb\nend\t1\n", "not a line" },
		{ "cupel-manifest\t1\tr\nd\t0755\t0\t0\t0\t-\t\nend\t1\n", "not a line" },
		{ "cupel-manifest\t1\tr\nd\t0755\t0\t0\t0\t-\tb\\q\nend\t1\n", "not a line" },
		{ "cupel-manifest\t1\tr\nd\t0755\t0\t0\t0\t-\tb\\x00\nend\t1\n", "not a line" },
		{ "cupel-manifest\t1\tr\n\nend\t0\n", "not a line" },
	};
	CLEANUP_SNAPSHOT struct snapshot back = SNAPSHOT_INIT;
	const char *good = "cupel-manifest\t1\tr\nd\t0755\t0\t0\t0\t-\tb\nend\t1\n";
	(void)state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_refused(rows[i].text, strlen(rows[i].text), rows[i].words);
	assert_int_equal(manifest_parse("m", "r", good, strlen(good), &back, NULL), 0);
	assert_int_equal(back.tree.n, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_back),
		cmocka_unit_test(every_truncation),
		cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests_name("manifest", tests, NULL, NULL);
}

/* contents: digests of files and directories, what the cache answers, and what it must not be asked for. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "place.h"
#include "spec/contents.h"
#include "spec/contents_cache.h"

static const char abc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

static void put(const struct place *p, const char *name, const char *text)
{
	CLEANUP_FD int fd = openat(p->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fs_write_all(fd, text, strlen(text)), 0);
}

/* Reads with the cache in the place; the bytes that it had to read are in *ret_read. */
static struct contents look(const struct place *p, const char *name, uint64_t *ret_read)
{
	CLEANUP_CONTENTS_READER struct contents_reader reader = { .cache_fd = -1 };
	CLEANUP_FREE char *path = xasprintf("%s/%s", p->path, name);
	struct contents c = { 0 };
	struct err err = { 0 };

	contents_begin(&reader, p->path);
	assert_true(reader.cache_fd >= 0);
	assert_int_equal(contents_read(&reader, path, &c, &err), 0);
	*ret_read = reader.bytes_read;
	return c;
}

static bool holds(const struct place *p, const char *name, const struct contents *then)
{
	CLEANUP_CONTENTS_READER struct contents_reader reader = { .cache_fd = -1 };
	CLEANUP_FREE char *path = xasprintf("%s/%s", p->path, name);

	contents_begin(&reader, p->path);
	return contents_holds(&reader, path, then);
}

static int set_up(void **state)
{
	int r = place_set_up(state);
	return r < 0 ? r : mkdirat(((struct place *)*state)->fd, "cache", 0700);
}

static void a_file_has_its_sha256(void **state)
{
	const struct place *p = *state;
	uint64_t n;

	put(p, "f", "abc");
	struct contents c = look(p, "f", &n);
	assert_int_equal(c.kind, CONTENTS_FILE);
	assert_string_equal(c.sha256, abc);
	assert_int_equal(c.files, 1);
	assert_int_equal(c.bytes, 3);
	assert_int_equal(n, 3);
	assert_true(c.is_young);
	assert_true(holds(p, "f", &c));
}

/* The control of the next: a young file is read every time. */
static void a_young_file_is_not_kept(void **state)
{
	const struct place *p = *state;
	uint64_t n;

	put(p, "f", "abc");
	(void)look(p, "f", &n);
	(void)look(p, "f", &n);
	assert_int_equal(n, 3);
	/* The same tuple by chance, as a clock's tick allows: found by what is in it. */
	struct contents c = look(p, "f", &n);
	struct contents forged = c;
	forged.sha256[0] = forged.sha256[0] == 'a' ? 'b' : 'a';
	assert_false(holds(p, "f", &forged));
	forged.is_young = false;
	assert_true(holds(p, "f", &forged));
}

static void an_old_file_is_read_once(void **state)
{
	const struct place *p = *state;
	uint64_t n;

	/* Its times are the kernel's own, so a file that is old must be found: one of the host's own. */
	struct contents c = { 0 };
	struct err err = { 0 };
	for (int i = 0; i < 2; i++) {
		CLEANUP_CONTENTS_READER struct contents_reader reader = { .cache_fd = -1 };
		contents_begin(&reader, p->path);
		assert_int_equal(contents_read(&reader, "/usr/lib/os-release", &c, &err), 0);
		n = reader.bytes_read;
		assert_int_equal(n, i == 0 ? c.bytes : 0);
		assert_int_equal(strlen(c.sha256), HASH_HEX - 1);
		assert_false(c.is_young);
	}
	/* A damaged table knows nothing, and says nothing wrong. */
	CLEANUP_FD int fd = openat(p->fd, "cache/digests", O_RDWR | O_CLOEXEC);
	struct stat st;
	assert_int_equal(fstat(fd, &st), 0);
	for (off_t at = 0; at < st.st_size; at += 100)
		assert_int_equal(pwrite(fd, "\xa5", 1, at), 1);
	CLEANUP_CONTENTS_READER struct contents_reader reader = { .cache_fd = -1 };
	struct contents again = { 0 };
	contents_begin(&reader, p->path);
	assert_int_equal(contents_read(&reader, "/usr/lib/os-release", &again, &err), 0);
	assert_int_equal(reader.bytes_read, again.bytes);
	assert_string_equal(again.sha256, c.sha256);
}

static void a_directory_is_its_entries(void **state)
{
	const struct place *p = *state;
	uint64_t n;

	assert_int_equal(mkdirat(p->fd, "d", 0755), 0);
	assert_int_equal(mkdirat(p->fd, "d/e", 0755), 0);
	put(p, "d/e/f", "abc");
	assert_int_equal(symlinkat("e/f", p->fd, "d/l"), 0);
	struct contents c = look(p, "d", &n);
	assert_int_equal(c.kind, CONTENTS_DIRECTORY);
	assert_int_equal(c.files, 1);
	assert_true(holds(p, "d", &c));

	put(p, "d/e/f", "abd");
	assert_false(holds(p, "d", &c));
	put(p, "d/e/f", "abc");
	assert_true(holds(p, "d", &c)); /* other times, the same content */
	assert_int_equal(mkdirat(p->fd, "d/new", 0755), 0);
	assert_false(holds(p, "d", &c));
	assert_int_equal(unlinkat(p->fd, "d/new", AT_REMOVEDIR), 0);
	assert_true(holds(p, "d", &c));
	assert_int_equal(unlinkat(p->fd, "d/l", 0), 0);
	assert_int_equal(symlinkat("e", p->fd, "d/l"), 0);
	assert_false(holds(p, "d", &c));
}

static void what_is_too_much_is_not_known(void **state)
{
	const struct place *p = *state;
	CLEANUP_CONTENTS_READER struct contents_reader reader = { .cache_fd = -1 };
	CLEANUP_FREE char *path = xasprintf("%s/f", p->path);
	struct contents c = { 0 };
	struct err err = { 0 };

	put(p, "f", "abc");
	contents_begin(&reader, NULL);
	reader.bytes_left = 2;
	assert_int_equal(contents_read(&reader, path, &c, &err), 0);
	assert_string_equal(c.sha256, "");
	assert_int_not_equal(strlen(c.stat), 0);
	assert_true(contents_holds(&reader, path, &c));
	put(p, "f", "abcd");
	assert_false(contents_holds(&reader, path, &c));
}

static void bounds_are_for_the_first_look_only(void **state)
{
	const struct place *p = *state;
	CLEANUP_CONTENTS_READER struct contents_reader small = { .cache_fd = -1 };
	CLEANUP_CONTENTS_READER struct contents_reader all = { .cache_fd = -1 };
	CLEANUP_FREE char *path = xasprintf("%s/d", p->path);
	struct contents bounded = { 0 }, whole = { 0 };
	struct err err = { 0 };

	assert_int_equal(mkdirat(p->fd, "d", 0700), 0);
	put(p, "d/a", "abc");
	put(p, "d/b", "abc");
	contents_begin(&small, NULL);
	small.entries_max = 1;
	small.bytes_left = 2;
	assert_int_equal(contents_read(&small, path, &bounded, &err), 0);
	assert_string_equal(bounded.sha256, "");
	assert_string_equal(bounded.stat, "");
	assert_true(
		contents_holds(&small, path, &bounded)); /* nothing is known that could differ */
	contents_begin_all(&all, NULL);
	assert_int_equal(contents_read(&all, path, &whole, &err), 0);
	assert_int_equal(strlen(whole.sha256), HASH_HEX - 1);
	assert_true(contents_holds(&small, path, &whole));
	put(p, "d/b", "abd");
	assert_false(contents_holds(&small, path, &whole));
}

static void one_file_by_descriptor(void **state)
{
	const struct place *p = *state;
	CLEANUP_CONTENTS_READER struct contents_reader r = { .cache_fd = -1 };
	char hex[HASH_HEX] = "";
	struct stat st = { 0 };

	put(p, "f", "abc");
	assert_int_equal(symlinkat("f", p->fd, "link"), 0);
	contents_begin(&r, p->path);
	assert_int_equal(contents_file(&r, p->fd, "f", &st, hex), 0);
	assert_string_equal(hex, abc);
	assert_int_equal(st.st_size, 3);
	assert_int_equal(contents_file(&r, p->fd, "link", &st, hex), -EINVAL);
	assert_int_equal(contents_file(&r, p->fd, "none", &st, hex), -ENOENT);
	r.bytes_left = 2;
	assert_int_equal(contents_file(&r, p->fd, "f", &st, hex), -EBUSY);
}

/* As many files as the table can't hold all of: what it still has is right, and most of what is left of it is there. */
static void a_full_cache_tells_no_lies(void **state)
{
	const struct place *p = *state;
	CLEANUP_FD int fd = contents_cache_open(p->path);
	unsigned known = 0;

	assert_true(fd >= 0);
	for (unsigned i = 1; i <= 20000; i++) {
		struct stat st = { .st_dev = 7, .st_ino = i, .st_size = i };
		char name[16], hex[HASH_HEX];
		(void)snprintf(name, sizeof name, "%u", i);
		hash_bytes(name, strlen(name), hex);
		contents_cache_put(fd, &st, hex);
	}
	for (unsigned i = 1; i <= 20000; i++) {
		struct stat st = { .st_dev = 7, .st_ino = i, .st_size = i };
		char name[16], hex[HASH_HEX], found[HASH_HEX] = "";
		(void)snprintf(name, sizeof name, "%u", i);
		hash_bytes(name, strlen(name), hex);
		if (!contents_cache_get(fd, &st, found))
			continue;
		assert_string_equal(found, hex);
		known++;
		st.st_ctim.tv_nsec = 1;
		assert_false(contents_cache_get(fd, &st, found));
	}
	assert_true(known > 19000);
}

static void json_and_back(void **state)
{
	const struct place *p = *state;
	CLEANUP_JSON json_t *o = json_object();
	CLEANUP_JSON json_t *bad = json_pack("{s:s,s:s}", "kind", "file", "sha256", "xyz");
	struct contents back = { 0 };
	uint64_t n;

	put(p, "f", "abc");
	struct contents c = look(p, "f", &n);
	contents_to_json(&c, o);
	assert_int_equal(contents_from_json(o, &back), 0);
	assert_int_equal(back.kind, c.kind);
	assert_string_equal(back.sha256, c.sha256);
	assert_string_equal(back.stat, c.stat);
	assert_int_equal(contents_from_json(bad, &back), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_file_has_its_sha256, set_up, place_tear_down),
		cmocka_unit_test_setup_teardown(a_young_file_is_not_kept, set_up, place_tear_down),
		cmocka_unit_test_setup_teardown(an_old_file_is_read_once, set_up, place_tear_down),
		cmocka_unit_test_setup_teardown(a_directory_is_its_entries, set_up,
						place_tear_down),
		cmocka_unit_test_setup_teardown(what_is_too_much_is_not_known, set_up,
						place_tear_down),
		cmocka_unit_test_setup_teardown(bounds_are_for_the_first_look_only, set_up,
						place_tear_down),
		cmocka_unit_test_setup_teardown(one_file_by_descriptor, set_up, place_tear_down),
		cmocka_unit_test_setup_teardown(a_full_cache_tells_no_lies, set_up,
						place_tear_down),
		cmocka_unit_test_setup_teardown(json_and_back, set_up, place_tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

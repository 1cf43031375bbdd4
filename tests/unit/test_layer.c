/* A tar stream from hostile hands: what it may do to its own directory, and that it does nothing elsewhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "place.h"
#include "runtime/layer.h"
#include "tar.h"

/* PLACE/root is the directory; PLACE/outside is what nothing may touch. */
struct scene {
	struct place *place;
	int root_fd;
	struct layer_counts counts;
	struct err err;
};

static int scene_set_up(void **state)
{
	static struct scene s;

	s = (struct scene){ 0 };
	if (place_set_up((void **)&s.place) < 0)
		return -1;
	if (mkdirat(s.place->fd, "root", 0755) < 0 || mkdirat(s.place->fd, "outside", 0755) < 0 ||
	    fs_write_atomic(s.place->fd, "outside/kept", "kept", 4, 0644, NULL) < 0)
		return -1;
	s.root_fd = openat(s.place->fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = &s;
	return s.root_fd < 0 ? -1 : 0;
}

static int scene_tear_down(void **state)
{
	struct scene *s = *state;

	(void)close(s->root_fd);
	return place_tear_down((void **)&s->place);
}

static int apply_bytes(struct scene *s, enum layer_place place, const struct layer_caps *caps,
		       const struct str *tar)
{
	char digest[HASH_HEX], right[HASH_HEX];

	assert_int_equal(
		fs_write_atomic(s->place->fd, "tar", str_text(tar), tar->length, 0600, NULL), 0);
	CLEANUP_FD int fd = openat(s->place->fd, "tar", O_RDONLY | O_CLOEXEC);
	struct layer l = { .fd = fd, .name = "layer", .place = place, .caps = caps };
	s->err = (struct err){ 0 };
	int r = layer_apply(&l, s->root_fd, &s->counts, digest, &s->err);
	if (r >= 0) {
		hash_bytes(str_text(tar), tar->length, right);
		assert_string_equal(digest, right);
	}
	return r;
}

static int apply(struct scene *s, enum layer_place place, const struct tar_entry *entries)
{
	CLEANUP_STR struct str tar = { 0 };

	tar_make(&tar, entries);
	return apply_bytes(s, place, &layer_caps_default, &tar);
}

static void works(struct scene *s, enum layer_place place, const struct tar_entry *entries)
{
	if (apply(s, place, entries) < 0)
		fail_msg("%s", s->err.text);
}

static void refused(struct scene *s, const struct tar_entry *entries, int code)
{
	assert_int_equal(apply(s, LAYER_FIRST, entries), -code);
	assert_int_equal(s->err.kind, ERR_CALLER);
}

static struct stat look(struct scene *s, const char *name)
{
	struct stat st = { 0 };

	if (fstatat(s->root_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		fail_msg("there is no '%s'", name);
	return st;
}

static bool is_there(struct scene *s, const char *name)
{
	struct stat st = { 0 };

	return fstatat(s->root_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void assert_text(struct scene *s, const char *name, const char *text)
{
	CLEANUP_FREE char *found = NULL;

	if (fs_read_capped(s->root_fd, name, 1 << 20, &found, NULL, &s->err) < 0)
		fail_msg("%s", s->err.text);
	assert_string_equal(found, text);
}

static void assert_outside_kept(struct scene *s)
{
	CLEANUP_FREE char *found = NULL;
	struct stat st = { 0 };

	assert_int_equal(fs_read_capped(s->place->fd, "outside/kept", 100, &found, NULL, NULL), 0);
	assert_string_equal(found, "kept");
	assert_int_equal(fstatat(s->place->fd, "outside/kept", &st, 0), 0);
	assert_int_equal(st.st_nlink, 1);
	assert_int_equal(faccessat(s->place->fd, "outside/new", F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

static void files_directories_and_links_are_made(void **state)
{
	struct scene *s = *state;
	works(s, LAYER_FIRST,
	      (struct tar_entry[]){ { "./", '5', .mode = 0700 },
				    { "bin/", '5', .mode = 0700 },
				    { "bin/tool", '0', "#!", .mode = 0755 },
				    { "etc/secret", '0', "s", .mode = 0600 },
				    { "bin/again", '1', .link = "bin/tool" },
				    { "lib", '2', .link = "usr/lib" },
				    { "usr/lib/", '5' },
				    { "lib/through", '0', "t" },
				    { 0 } });
	assert_text(s, "bin/tool", "#!");
	assert_int_equal(look(s, "bin/tool").st_mode, S_IFREG | 0755);
	assert_int_equal(look(s, "bin").st_mode, S_IFDIR | 0755);
	assert_int_equal(look(s, "etc/secret").st_mode, S_IFREG | 0644);
	assert_int_equal(look(s, "bin/tool").st_mtim.tv_sec, 1000000000);
	assert_int_equal(look(s, "bin/again").st_ino, look(s, "bin/tool").st_ino);
	assert_int_equal(look(s, "bin/tool").st_uid, geteuid());
	assert_text(s, "usr/lib/through", "t"); /* as in a chroot */
	assert_int_equal(s->counts.files, 3);
	assert_int_equal(s->counts.bytes, 4);
}

static void upper_layers_replace_and_hide(void **state)
{
	struct scene *s = *state;
	works(s, LAYER_FIRST,
	      (struct tar_entry[]){ { "a/one", '0', "1" },
				    { "a/two", '0', "2" },
				    { "b/old", '0', "old" },
				    { "b/deep/old", '0', "old" },
				    { "c", '0', "file" },
				    { "d/x", '0', "x" },
				    { "e/.wh.nothing", '0', "" },
				    { 0 } });
	works(s, LAYER_UPPER,
	      (struct tar_entry[]){
		      { "a/.wh.one", '0', "" },
		      { "a/two", '0', "two" },
		      { "b/new", '0', "new" }, /* before the mark that hides its siblings */
		      { "b/.wh..wh..opq", '0', "" },
		      { "c/", '5' },
		      { "d", '0', "now a file" },
		      { "a/same", '0', "s" }, /* both in one layer: it stays */
		      { "a/.wh.same", '0', "" },
		      { ".wh.absent", '0', "" },
		      { "no/such/.wh.thing", '0', "" },
		      { 0 } });
	assert_false(is_there(s, "a/one"));
	assert_text(s, "a/two", "two");
	assert_text(s, "a/same", "s");
	assert_text(s, "b/new", "new");
	assert_false(is_there(s, "b/old"));
	assert_false(is_there(s, "b/deep"));
	assert_true(S_ISDIR(look(s, "c").st_mode));
	assert_text(s, "d", "now a file");
	assert_false(is_there(s, "no"));
	assert_false(is_there(s, "e/.wh.nothing"));
	assert_int_equal(s->counts.whiteouts, 2);
}

static void a_plain_archive_has_no_whiteouts(void **state)
{
	struct scene *s = *state;
	works(s, LAYER_PLAIN, (struct tar_entry[]){ { ".wh.name", '0', "n" }, { 0 } });
	assert_text(s, ".wh.name", "n");
}

static void names_that_lead_up_are_refused(void **state)
{
	static const char *const names[] = { "../outside/new", "a/../../outside/new", "..",
					     "/../outside/new", "a/.." };
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		refused(*state, (struct tar_entry[]){ { names[i], '0', "x" }, { 0 } }, EPERM);
	assert_outside_kept(*state);
}

static void whiteouts_never_lead_up(void **state)
{
	struct scene *s = *state;
	static const char *const names[] = { ".wh...", ".wh..", ".wh.", "a/.wh..." };
	works(s, LAYER_FIRST, (struct tar_entry[]){ { "a/x", '0', "x" }, { 0 } });
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		assert_int_equal(
			apply(s, LAYER_UPPER, (struct tar_entry[]){ { names[i], '0', "" }, { 0 } }),
			-EPERM);
		assert_text(s, "a/x", "x");
	}
}

static void absolute_names_stay_inside(void **state)
{
	struct scene *s = *state;
	CLEANUP_FREE char *absolute = xasprintf("%s/outside/new", s->place->path);
	works(s, LAYER_FIRST, (struct tar_entry[]){ { absolute, '0', "x" }, { 0 } });
	assert_text(s, absolute + 1, "x");
	assert_outside_kept(s);
}

static void nothing_is_written_through_a_link(void **state)
{
	struct scene *s = *state;
	CLEANUP_FREE char *outside = xasprintf("%s/outside", s->place->path);
	CLEANUP_FREE char *kept = xasprintf("%s/outside/kept", s->place->path);
	/* Control: the links do lead there for whoever follows them. */
	works(s, LAYER_FIRST,
	      (struct tar_entry[]){ { "up", '2', .link = "../outside" },
				    { "kept", '2', .link = "../outside/kept" },
				    { "absolute", '2', .link = kept },
				    { "dir", '2', .link = outside },
				    { 0 } });
	assert_int_equal(faccessat(s->root_fd, "up/kept", F_OK, 0), 0);
	assert_int_equal(faccessat(s->root_fd, "dir/kept", F_OK, 0), 0);
	/* A file takes the place of the link. */
	works(s, LAYER_UPPER,
	      (struct tar_entry[]){ { "kept", '0', "mine" }, { "absolute", '0', "mine" }, { 0 } });
	assert_text(s, "kept", "mine");
	assert_text(s, "absolute", "mine");
	/* A directory below the root, not the one outside: up leads to /outside of the root, which is not there. */
	assert_int_equal(
		apply(s, LAYER_UPPER, (struct tar_entry[]){ { "up/new", '0', "x" }, { 0 } }),
		-EPERM);
	assert_int_equal(
		apply(s, LAYER_UPPER, (struct tar_entry[]){ { "dir/new", '0', "x" }, { 0 } }),
		-EPERM);
	works(s, LAYER_UPPER,
	      (struct tar_entry[]){ { "outside/", '5' }, { "up/new", '0', "x" }, { 0 } });
	assert_text(s, "outside/new", "x");
	/* Nor is anything hidden through one. */
	works(s, LAYER_UPPER,
	      (struct tar_entry[]){
		      { "dir/.wh.kept", '0', "" }, { "dir/.wh..wh..opq", '0', "" }, { 0 } });
	/* A directory replaces a link, instead of changing what it leads to. */
	works(s, LAYER_UPPER,
	      (struct tar_entry[]){ { "dir/", '5' }, { "dir/new", '0', "x" }, { 0 } });
	assert_true(S_ISDIR(look(s, "dir").st_mode));
	assert_outside_kept(s);
}

static void hard_links_stay_inside(void **state)
{
	struct scene *s = *state;
	CLEANUP_FREE char *kept = xasprintf("%s/outside/kept", s->place->path);
	refused(s, (struct tar_entry[]){ { "l", '1', .link = kept }, { 0 } }, EPERM);
	refused(s, (struct tar_entry[]){ { "l", '1', .link = "../outside/kept" }, { 0 } }, EPERM);
	refused(s, (struct tar_entry[]){ { "l", '1', .link = "/" }, { 0 } }, EPERM);
	refused(s,
		(struct tar_entry[]){ { "up", '2', .link = "../outside" },
				      { "l", '1', .link = "up/kept" },
				      { 0 } },
		EPERM);
	refused(s, (struct tar_entry[]){ { "d/", '5' }, { "l", '1', .link = "d" }, { 0 } }, EPERM);
	/* A link to itself keeps the file; writing one name leaves the other as it was. */
	works(s, LAYER_FIRST,
	      (struct tar_entry[]){ { "f", '0', "one" },
				    { "f", '1', .link = "f" },
				    { "g", '1', .link = "f" },
				    { "g", '0', "two" },
				    { 0 } });
	assert_text(s, "f", "one");
	assert_text(s, "g", "two");
	assert_outside_kept(s);
}

static void devices_set_id_bits_and_odd_names_are_left_out(void **state)
{
	struct scene *s = *state;
	works(s, LAYER_FIRST,
	      (struct tar_entry[]){ { "dev/null", '3', .mode = 0666 },
				    { "dev/disk", '4', .mode = 0666 },
				    { "pipe", '6' },
				    { "su", '0', "x", .mode = 06755 },
				    { "open", '0', "x", .mode = 0666 },
				    { "sticky/", '5', .mode = 03777 },
				    { "new\nline", '0', "x" },
				    { "esc\033/file", '0', "x" },
				    { "caf\xc3\xa9", '0', "x" },
				    { "latin\xe9", '0', "x" },
				    { 0 } });
	assert_false(is_there(s, "dev/null"));
	assert_false(is_there(s, "pipe"));
	assert_int_equal(look(s, "su").st_mode, S_IFREG | 0755);
	assert_int_equal(look(s, "open").st_mode, S_IFREG | 0644);
	assert_int_equal(look(s, "sticky").st_mode, S_IFDIR | 0755);
	assert_false(is_there(s, "new\nline"));
	assert_false(is_there(s, "esc\033"));
	assert_text(s, "caf\xc3\xa9", "x");
	assert_text(s, "latin\xe9", "x");
	assert_int_equal(s->counts.devices, 3);
	assert_int_equal(s->counts.odd_names, 2);
	assert_int_equal(s->counts.set_id, 2);
}

static void the_last_of_a_name_counts(void **state)
{
	struct scene *s = *state;
	works(s, LAYER_FIRST,
	      (struct tar_entry[]){ { "f", '0', "first" },
				    { "f", '0', "second" },
				    { "./f", '0', "third" },
				    { "d/in", '0', "x" },
				    { "d", '2', .link = "elsewhere" },
				    { 0 } });
	assert_text(s, "f", "third");
	assert_true(S_ISLNK(look(s, "d").st_mode));
}

static void caps_are_kept(void **state)
{
	struct scene *s = *state;
	const struct tar_entry *three = (struct tar_entry[]){
		{ "a", '0', "12345" }, { "b", '0', "12345" }, { "c", '0', "12345" }, { 0 }
	};
	CLEANUP_STR struct str tar = { 0 }, deep = { 0 };
	struct layer_caps caps = layer_caps_default;
	tar_make(&tar, three);
	caps.entries = 2;
	assert_int_equal(apply_bytes(s, LAYER_FIRST, &caps, &tar), -E2BIG);
	s->counts = (struct layer_counts){ 0 };
	caps.entries = 3;
	assert_int_equal(apply_bytes(s, LAYER_FIRST, &caps, &tar), 0); /* control */
	/* Of all layers together. */
	assert_int_equal(apply_bytes(s, LAYER_UPPER, &caps, &tar), -E2BIG);
	s->counts = (struct layer_counts){ 0 };
	caps.bytes = tar.length - 1; /* of the stream */
	assert_int_equal(apply_bytes(s, LAYER_FIRST, &caps, &tar), -E2BIG);
	caps = layer_caps_default;
	caps.depth = 3;
	tar_make(&deep, (struct tar_entry[]){ { "1/2/3/4", '0', "x" }, { 0 } });
	assert_int_equal(apply_bytes(s, LAYER_FIRST, &caps, &deep), -EPERM);
	caps.depth = 4;
	assert_int_equal(apply_bytes(s, LAYER_FIRST, &caps, &deep), 0);
	caps.ratio_from = 100;
	caps.ratio = 1; /* nothing is packed here, so that is what it is */
	assert_int_equal(apply_bytes(s, LAYER_FIRST, &caps, &deep), 0);
}

/* GNU's old form: a TiB said, nothing stored. */
static void holes_count_as_what_they_would_cost(void **state)
{
	struct scene *s = *state;
	refused(s, (struct tar_entry[]){ { "huge", '0', "x", .claims = 1ULL << 32 }, { 0 } },
		EBADMSG);
	CLEANUP_STR struct str tar = { 0 };
	struct layer_caps caps = layer_caps_default;
	struct tar_entry e = { "sparse", 'S', NULL };
	tar_add(&tar, &e);
	char *head = tar.text;
	memcpy(head + 257, "ustar  ", 8);
	(void)snprintf(head + 483, 12, "%011llo", 1ULL << 32); /* realsize */
	unsigned sum = 0;
	memset(head + 148, ' ', 8);
	for (size_t i = 0; i < 512; i++)
		sum += (unsigned char)head[i];
	(void)snprintf(head + 148, 8, "%06o", sum);
	tar_end(&tar);
	assert_int_equal(apply_bytes(s, LAYER_FIRST, &caps, &tar),
			 0); /* control: it is a sparse file */
	assert_int_equal(look(s, "sparse").st_size, 1LL << 32);
	assert_int_equal(look(s, "sparse").st_blocks, 0);
	caps.bytes = (1ULL << 32) - 1;
	s->counts = (struct layer_counts){ 0 };
	assert_int_equal(apply_bytes(s, LAYER_FIRST, &caps, &tar), -E2BIG);
}

static void broken_streams_are_refused(void **state)
{
	struct scene *s = *state;
	CLEANUP_STR struct str tar = { 0 }, cut = { 0 }, text = { 0 }, nothing = { 0 };
	tar_make(&tar, (struct tar_entry[]){ { "f", '0', "0123456789" }, { 0 } });
	str_add_n(&cut, tar.text, 515);
	assert_int_equal(apply_bytes(s, LAYER_FIRST, &layer_caps_default, &cut), -EBADMSG);
	for (int i = 0; i < 100; i++)
		str_add(&text, "this is no archive at all\n");
	assert_int_equal(apply_bytes(s, LAYER_FIRST, &layer_caps_default, &text), -EBADMSG);
	tar.text[0] ^= 1; /* against the header's sum */
	assert_int_equal(apply_bytes(s, LAYER_FIRST, &layer_caps_default, &tar), -EBADMSG);
	assert_int_equal(apply_bytes(s, LAYER_FIRST, &layer_caps_default, &nothing), 0);
	refused(s, (struct tar_entry[]){ { ".", '0', "x" }, { 0 } }, EPERM);
	refused(s, (struct tar_entry[]){ { "l", '2', .link = "" }, { 0 } }, EBADMSG);
	refused(s, (struct tar_entry[]){ { "f", '0', "x" }, { "f/below", '0', "x" }, { 0 } },
		EPERM);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(files_directories_and_links_are_made),
		TEST(upper_layers_replace_and_hide),
		TEST(a_plain_archive_has_no_whiteouts),
		TEST(names_that_lead_up_are_refused),
		TEST(whiteouts_never_lead_up),
		TEST(absolute_names_stay_inside),
		TEST(nothing_is_written_through_a_link),
		TEST(hard_links_stay_inside),
		TEST(devices_set_id_bits_and_odd_names_are_left_out),
		TEST(the_last_of_a_name_counts),
		TEST(caps_are_kept),
		TEST(holes_count_as_what_they_would_cost),
		TEST(broken_streams_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Images: which one of a layout is meant, what damage is found, and that a tree is unpacked once and whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/json.h"
#include "place.h"
#include "runtime/oci.h"
#include "runtime/oci_parts.h"
#include "tar.h"

#define MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define INDEX    "application/vnd.oci.image.index.v1+json"
#define LAYER    "application/vnd.oci.image.layer.v1.tar"

/* PLACE/layout and PLACE/home. */
struct scene {
	struct place *place;
	struct config config;
	char layout[64];
	char home[64];
	struct err err;
};

static int scene_set_up(void **state)
{
	static struct scene s;

	s = (struct scene){ 0 };
	if (place_set_up((void **)&s.place) < 0)
		return -1;
	(void)snprintf(s.layout, sizeof(s.layout), "%s/layout", s.place->path);
	(void)snprintf(s.home, sizeof(s.home), "%s/home", s.place->path);
	s.config.home = s.home;
	*state = &s;
	return mkdirat(s.place->fd, "layout", 0755) < 0 ||
			       mkdirat(s.place->fd, "layout/blobs", 0755) < 0 ||
			       mkdirat(s.place->fd, "layout/blobs/sha256", 0755) < 0
		       ? -1
		       : 0;
}

static int scene_tear_down(void **state)
{
	return place_tear_down((void **)&((struct scene *)*state)->place);
}

static void put(struct scene *s, const char *name, const void *bytes, size_t length)
{
	CLEANUP_FREE char *path = xasprintf("layout/%s", name);

	if (fs_write_atomic(s->place->fd, path, bytes, length, 0644, &s->err) < 0)
		fail_msg("%s", s->err.text);
}

/* The descriptor of a blob that is now there. */
static json_t *put_blob(struct scene *s, const char *type, const void *bytes, size_t length)
{
	char hex[HASH_HEX];
	hash_bytes(bytes, length, hex);
	CLEANUP_FREE char *path = xasprintf("blobs/sha256/%s", hex);
	CLEANUP_FREE char *digest = xasprintf("sha256:%s", hex);
	put(s, path, bytes, length);
	return json_pack("{s:s,s:s,s:i}", "mediaType", type, "digest", digest, "size", (int)length);
}

static json_t *put_json(struct scene *s, const char *type, json_t *owned)
{
	CLEANUP_JSON json_t *value = owned;
	CLEANUP_FREE char *text = json_dumps(value, JSON_COMPACT);
	return put_blob(s, type, text, strlen(text));
}

/* An image of one file, f, that holds `text`; *ret_layer (or NULL) gets its layer's digest. Its manifest's descriptor. */
static json_t *put_image(struct scene *s, const char *architecture, const char *text,
			 char ret_layer[HASH_HEX])
{
	CLEANUP_STR struct str tar = { 0 };
	char hex[HASH_HEX];
	tar_make(&tar, (struct tar_entry[]){ { "usr/f", '0', text }, { 0 } });
	hash_bytes(tar.text, tar.length, hex);
	if (ret_layer)
		memcpy(ret_layer, hex, sizeof(hex));
	CLEANUP_FREE char *diff_id = xasprintf("sha256:%s", hex);
	json_t *config = json_pack("{s:s,s:s,s:{s:[s,s,s,s],s:s,s:s},s:{s:s,s:[s]}}", "os", "linux",
				   "architecture", architecture, "config", "Env",
				   "PATH=/opt/bin:/usr/bin", "A=b=c", "CUPEL_X=1", "=odd",
				   "WorkingDir", "/srv", "User", "1000", "rootfs", "type", "layers",
				   "diff_ids", diff_id);
	return put_json(s, MANIFEST,
			json_pack("{s:i,s:o,s:[o]}", "schemaVersion", 2, "config",
				  put_json(s, "application/vnd.oci.image.config.v1+json", config),
				  "layers", put_blob(s, LAYER, tar.text, tar.length)));
}

static void finish(struct scene *s, json_t *owned_manifests)
{
	CLEANUP_JSON json_t *index =
		json_pack("{s:i,s:o}", "schemaVersion", 2, "manifests", owned_manifests);
	CLEANUP_FREE char *text = json_dumps(index, 0);
	put(s, "index.json", text, strlen(text));
	put(s, "oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}", 30);
}

static int unpack(struct scene *s, char **ret_root, char ret_digest[HASH_HEX])
{
	s->err = (struct err){ 0 };
	return oci_unpacked(&s->config, s->layout, ret_root, ret_digest, &s->err);
}

static void assert_holds(struct scene *s, const char *text)
{
	CLEANUP_FREE char *root = NULL, *found = NULL;
	char digest[HASH_HEX];
	if (unpack(s, &root, digest) < 0)
		fail_msg("%s", s->err.text);
	CLEANUP_FREE char *file = xasprintf("%s/usr/f", root);
	assert_int_equal(fs_read_capped(AT_FDCWD, file, 1000, &found, NULL, NULL), 0);
	assert_string_equal(found, text);
}

static void assert_refused(struct scene *s, int code, const char *words)
{
	CLEANUP_FREE char *root = NULL;
	CLEANUP_FREE char *images = xasprintf("%s/cache/images", s->home);
	char digest[HASH_HEX] = "untouched";
	assert_int_equal(unpack(s, &root, digest), -code);
	assert_int_equal(s->err.kind, ERR_CALLER);
	if (!strstr(s->err.text, words))
		fail_msg("'%s' does not say '%s'", s->err.text, words);
	assert_null(root);
	assert_string_equal(digest, "untouched");
	CLEANUP_DIR DIR *dir = opendir(images);
	for (const struct dirent *e; dir && (e = readdir(dir));)
		if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, "..") &&
		    !str_eq(e->d_name, "lock"))
			fail_msg("%s is left over", e->d_name);
}

static void an_image_is_unpacked_once(void **state)
{
	struct scene *s = *state;
	CLEANUP_FREE char *root = NULL, *again = NULL;
	char digest[HASH_HEX], second[HASH_HEX];
	struct stat before = { 0 }, after = { 0 };
	finish(s, json_pack("[o]", put_image(s, oci_architecture(), "hello", NULL)));
	assert_int_equal(unpack(s, &root, digest), 0);
	CLEANUP_FREE char *expected = xasprintf("%s/cache/images/sha256-%s/root", s->home, digest);
	assert_string_equal(root, expected);
	assert_int_equal(stat(root, &before), 0);
	assert_int_equal(unpack(s, &again, second), 0);
	assert_int_equal(stat(again, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_string_equal(digest, second);

	CLEANUP(pairs_release) struct pairs env = { 0 };
	CLEANUP_JSON json_t *told = NULL;
	assert_int_equal(oci_config_env(&s->config, digest, &env, &s->err), 0);
	assert_int_equal(env.n, 2);
	assert_string_equal(pairs_get(&env, "PATH"), "/opt/bin:/usr/bin");
	assert_string_equal(pairs_get(&env, "A"), "b=c");
	assert_int_equal(oci_config_json(&s->config, digest, &told, &s->err), 0);
	assert_string_equal(json_string_value(json_object_get(told, "work_dir")), "/srv");
	assert_string_equal(json_string_value(json_object_get(told, "user")), "1000");
}

static void the_image_for_this_host_is_chosen(void **state)
{
	struct scene *s = *state;
	json_t *mine = put_image(s, oci_architecture(), "mine", NULL);
	json_t *other = put_image(s, "other", "other", NULL);
	json_object_set_new(
		mine, "platform",
		json_pack("{s:s,s:s}", "os", "linux", "architecture", oci_architecture()));
	json_object_set_new(other, "platform",
			    json_pack("{s:s,s:s}", "os", "linux", "architecture", "other"));
	json_t *attestation = json_deep_copy(other);
	json_object_set_new(attestation, "mediaType", json_string("application/vnd.in-toto+json"));
	/* Both in an index of their own, as multi-platform images come. */
	json_t *nested = put_json(s, INDEX,
				  json_pack("{s:i,s:[o,o,o]}", "schemaVersion", 2, "manifests",
					    other, attestation, mine));
	finish(s, json_pack("[o]", nested));
	assert_holds(s, "mine");
}

static void without_a_platform_the_configuration_tells(void **state)
{
	struct scene *s = *state;
	json_t *mine = put_image(s, oci_architecture(), "mine", NULL);
	json_t *twice = json_deep_copy(mine);
	finish(s, json_pack("[o,o,o]", put_image(s, "other", "other", NULL), mine, twice));
	assert_holds(s, "mine");
}

static void no_image_or_several_are_refused(void **state)
{
	struct scene *s = *state;
	finish(s, json_array());
	assert_refused(s, ENOENT, "no image for linux/");
	finish(s, json_pack("[o]", put_image(s, "other", "x", NULL)));
	assert_refused(s, ENOENT, "linux/other");
	json_t *one = put_image(s, oci_architecture(), "one", NULL);
	json_object_set_new(one, "annotations",
			    json_pack("{s:s}", "org.opencontainers.image.ref.name", "v1"));
	finish(s, json_pack("[o,o]", one, put_image(s, oci_architecture(), "two", NULL)));
	assert_refused(s, EINVAL, "several images");
	assert_non_null(strstr(s->err.text, "v1"));
}

static void damage_is_found(void **state)
{
	struct scene *s = *state;
	char layer[HASH_HEX];
	CLEANUP_JSON json_t *manifest = put_image(s, oci_architecture(), "right", layer);
	CLEANUP_FREE char *path = xasprintf("layout/blobs/sha256/%s", layer);
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	finish(s, json_pack("[O]", manifest));
	assert_int_equal(fs_read_capped(s->place->fd, path, 1 << 20, &text, &length, NULL), 0);

	text[600] ^= 1; /* one bit of the layer */
	put(s, path + strlen("layout/"), text, length);
	assert_refused(s, EBADMSG, "another content");
	put(s, path + strlen("layout/"), text, length - 512);
	assert_refused(s, EBADMSG, "bytes");
	assert_int_equal(unlinkat(s->place->fd, path, 0), 0);
	assert_refused(s, ENOENT, "not whole");
	assert_int_equal(symlinkat("/etc/passwd", s->place->fd, path), 0);
	assert_refused(s, ELOOP, "blobs/sha256");
	assert_int_equal(unlinkat(s->place->fd, path, 0), 0);
	text[600] ^= 1;
	put(s, path + strlen("layout/"), text, length);
	assert_holds(s, "right"); /* control */
}

static void a_wrong_diff_id_is_found(void **state)
{
	struct scene *s = *state;
	CLEANUP_STR struct str tar = { 0 };
	tar_make(&tar, (struct tar_entry[]){ { "usr/f", '0', "x" }, { 0 } });
	json_t *config = json_pack(
		"{s:s,s:s,s:{s:[s]}}", "os", "linux", "architecture", oci_architecture(), "rootfs",
		"diff_ids",
		"sha256:0000000000000000000000000000000000000000000000000000000000000000");
	finish(s, json_pack("[o]", put_json(s, MANIFEST,
					    json_pack("{s:i,s:o,s:[o]}", "schemaVersion", 2,
						      "config", put_json(s, "c", config), "layers",
						      put_blob(s, LAYER, tar.text, tar.length)))));
	assert_refused(s, EBADMSG, "diff id");
}

static void what_is_no_layout_is_refused(void **state)
{
	struct scene *s = *state;
	assert_refused(s, ENOENT, "not an OCI image layout");
	put(s, "oci-layout", "{\"imageLayoutVersion\":\"2.0.0\"}", 30);
	assert_refused(s, EINVAL, "imageLayoutVersion");
	finish(s, json_array());
	put(s, "index.json", "{]", 2);
	assert_refused(s, EINVAL, "index.json:1:");
	(void)snprintf(s->layout, sizeof(s->layout), "%s/absent", s->place->path);
	assert_refused(s, ENOENT, "absent");
}

static void an_archive_is_known_again_until_it_changes(void **state)
{
	struct scene *s = *state;
	CLEANUP_STR struct str tar = { 0 };
	CLEANUP_FREE char *root = NULL, *again = NULL;
	char digest[HASH_HEX] = "", second[HASH_HEX] = "";
	/* docker's older form, which has no digests at all but the diff ids. */
	CLEANUP_STR struct str layer = { 0 };
	char hex[HASH_HEX];
	tar_make(&layer, (struct tar_entry[]){ { "usr/f", '0', "docker" }, { 0 } });
	hash_bytes(layer.text, layer.length, hex);
	CLEANUP_FREE char *config = xasprintf(
		"{\"os\":\"linux\",\"architecture\":\"%s\",\"rootfs\":{\"diff_ids\":[\"sha256:%s\"]}}",
		oci_architecture(), hex);
	tar_add(&tar,
		&(struct tar_entry){ "manifest.json", '0',
				     "[{\"Config\":\"c.json\",\"Layers\":[\"l/layer.tar\"]}]" });
	tar_add(&tar, &(struct tar_entry){ "c.json", '0', config });
	tar_add(&tar, &(struct tar_entry){ "l/layer.tar", '0', NULL, .claims = layer.length });
	str_add_n(&tar, layer.text, layer.length);
	tar_end(&tar);
	(void)snprintf(s->layout, sizeof(s->layout), "%s/image.tar", s->place->path);
	assert_int_equal(
		fs_write_atomic(s->place->fd, "image.tar", tar.text, tar.length, 0644, NULL), 0);
	if (unpack(s, &root, digest) < 0)
		fail_msg("%s", s->err.text);
	assert_holds(s, "docker");
	assert_int_equal(unpack(s, &again, second), 0);
	assert_string_equal(digest, second);
	/* Another content under the same name is another image, or none. */
	assert_int_equal(fs_write_atomic(s->place->fd, "image.tar", tar.text, 512, 0644, NULL), 0);
	cleanup_free(&again);
	assert_true(unpack(s, &again, second) < 0);
	assert_null(again);
}

static void what_a_crash_left_is_cleared(void **state)
{
	struct scene *s = *state;
	CLEANUP_FREE char *left = xasprintf("%s/cache/images/.new-tree/root/usr", s->home);
	assert_int_equal(fs_make_dirs(left, 0755, NULL), 0);
	oci_sweep(s->home);
	assert_int_equal(access(left, F_OK), -1);
	assert_int_equal(fs_make_dirs(left, 0755, NULL), 0);
	finish(s, json_pack("[o]", put_image(s, oci_architecture(), "whole", NULL)));
	assert_holds(s, "whole");
	assert_int_equal(access(left, F_OK), -1);
}

static void many_at_once_unpack_one_tree(void **state)
{
	struct scene *s = *state;
	pid_t children[8];
	int start[2], status = 0;
	finish(s, json_pack("[o]", put_image(s, oci_architecture(), "one", NULL)));
	assert_int_equal(pipe2(start, O_CLOEXEC), 0);
	for (int i = 0; i < 8; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			CLEANUP_FREE char *root = NULL;
			char digest[HASH_HEX], byte;
			(void)close(start[1]);
			(void)!read(start[0], &byte, 1); /* all at once, when it is closed */
			_exit(unpack(s, &root, digest) < 0);
		}
	}
	(void)close(start[0]);
	(void)close(start[1]);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(status, 0);
	}
	assert_holds(s, "one");
}

static void a_copy_is_a_layout_of_one_image(void **state)
{
	struct scene *s = *state;
	char digest[HASH_HEX], again[HASH_HEX];
	CLEANUP_FREE char *to = xasprintf("%s/copy", s->place->path);
	CLEANUP_FREE char *root = NULL;
	finish(s, json_pack("[o,o]", put_image(s, "other", "other", NULL),
			    put_image(s, oci_architecture(), "mine", NULL)));
	assert_int_equal(oci_copy(s->layout, to, digest, &s->err), 0);
	assert_int_equal(fs_remove_tree(s->place->fd, "layout", NULL, NULL), 0);
	(void)snprintf(s->layout, sizeof(s->layout), "%s", to);
	assert_holds(s, "mine");
	assert_int_equal(unpack(s, &root, again), 0);
	assert_string_equal(digest, again);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_image_is_unpacked_once),
		TEST(the_image_for_this_host_is_chosen),
		TEST(without_a_platform_the_configuration_tells),
		TEST(no_image_or_several_are_refused),
		TEST(damage_is_found),
		TEST(a_wrong_diff_id_is_found),
		TEST(what_is_no_layout_is_refused),
		TEST(an_archive_is_known_again_until_it_changes),
		TEST(what_a_crash_left_is_cleared),
		TEST(many_at_once_unpack_one_tree),
		TEST(a_copy_is_a_layout_of_one_image),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Results by key: found while the run has exactly what it had, and never otherwise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/json.h"
#include "base/path.h"
#include "collect/keyed.h"
#include "flow/finished.h"
#include "flow/key.h"
#include "place.h"
#include "spec/spec_json.h"

#define KEY   "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define OTHER "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define ODD   "out/\xff\n"

struct world {
	struct place place;
	struct config config;
	struct err err;
};

static void put(const struct world *w, const char *path, const char *text)
{
	CLEANUP_FREE char *whole = path_join(w->place.path, path);
	CLEANUP_FREE char *parent = path_parent(whole);
	assert_int_equal(fs_make_dirs(parent, 0700, NULL), 0);
	CLEANUP_FD int fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(fs_write_all(fd, text, strlen(text)), 0);
}

static void put_json(const struct world *w, const char *path, json_t *value)
{
	assert_int_equal(json_write_file(w->place.fd, path, value, NULL), 0);
	json_decref(value);
}

static json_t *file_json(const char *path, const char *text)
{
	char hex[HASH_HEX];
	hash_bytes(text, strlen(text), hex);
	json_t *o = json_pack("{s:o,s:I,s:s,s:s,s:b}", "path", json_text(path), "size",
			      (json_int_t)strlen(text), "sha256", hex, "media_type", "text/plain",
			      "stored", 1);
	if (str_eq(path, ODD))
		json_object_set_new(o, "path_hex", json_string("6f75742fff0a"));
	return o;
}

/* As the run has it in its record: one input, whose digest is in the key. */
static json_t *analysis_of(const struct world *w, const char *key, const char *content)
{
	CLEANUP_ANALYSIS struct analysis a = { 0 };
	struct input input = { .path = xstrdup("/in/reads"),
			       .name = xstrdup("reads"),
			       .origin = xstrdup("test") };
	char keyed[HASH_HEX], part[HASH_HEX];
	hash_bytes("ACGT", 4, keyed);
	hash_bytes(content, strlen(content), input.contents.sha256);
	input.contents.kind = CONTENTS_FILE;
	const struct key_shown s = { .what = "input",
				     .name = "reads",
				     .kind = CONTENTS_FILE,
				     .executable = true,
				     .sha256 = keyed };
	key_shown_part(&s, part);
	CLEANUP_FREE char *name = key_shown_name(&s);
	analysis_add_input(&a, &input);
	memcpy(a.key.sha256, key, HASH_HEX);
	pairs_set(&a.key.parts, name, part);
	assert_int_equal(key_runtime_now(&w->config, "sc", NULL, part, NULL), 0);
	pairs_set(&a.key.parts, "runtime sc", part);
	json_t *o = analysis_json(&a);
	json_object_set_new(o, "runtime", json_pack("{s:s}", "name", "sc"));
	return o;
}

static json_t *manifest_of(int n, ...)
{
	json_t *files = json_array();
	va_list args;
	va_start(args, n);
	for (int i = 0; i < n; i++) {
		const char *path = va_arg(args, const char *);
		json_array_append_new(files, file_json(path, va_arg(args, const char *)));
	}
	va_end(args);
	return json_pack("{s:o,s:b}", "files", files, "partial", 0);
}

static int set_up(void **state)
{
	static struct world w;
	void *place = NULL;
	if (place_set_up(&place) < 0)
		return -1;
	w = (struct world){ .place = *(struct place *)place };
	w.config.home = xstrdup(w.place.path);
	strv_take(&w.config.runtime_dirs, path_join(w.place.path, "runtimes.d"));
	put(&w, "runtimes.d/sc.yaml", "name: sc\nversion: 1\nkind: rootfs\nroot: ../tree\n");
	put(&w, "tree/usr/lib/os-release", "NAME=x\n");
	put(&w, "cache/none", "");
	put(&w, "runs/r1/outputs/out/x", "result\n");
	put(&w, "runs/r1/outputs/out/deep/y", "");
	put(&w, "runs/r1/outputs/" ODD, "odd\n");
	put_json(&w, "runs/r1/outputs.json",
		 manifest_of(3, ODD, "odd\n", "out/deep/y", "", "out/x", "result\n"));
	put_json(&w, "runs/r1/analysis.json", analysis_of(&w, KEY, "ACGT"));
	put_json(&w, "runs/r1/verdict.json", json_pack("{s:s}", "cause", "ok"));
	*state = &w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;
	void *place = &w->place;
	config_release(&w->config);
	return place_tear_down(&place);
}

static void finish(struct world *w)
{
	if (finished_put(&w->config, KEY, "r1", &w->err) < 0)
		fail_msg("%s", w->err.text);
}

static int find(struct world *w, const char *key, struct finished *ret, char why[200])
{
	CLEANUP_FINISHED_READER struct finished_reader r = FINISHED_READER_INIT;
	finished_reader_open(&w->config, &r);
	return finished_find(&r, key, ret, why, 200, &w->err);
}

static bool has_entry(const struct world *w)
{
	CLEANUP_FREE char *path = xasprintf("%s/keys/00/%s", w->place.path, &KEY[2]);
	return access(path, F_OK) == 0;
}

static void assert_found(struct world *w)
{
	CLEANUP_FINISHED struct finished f = { 0 };
	char why[200];
	int r = find(w, KEY, &f, why);
	if (r != 1)
		fail_msg("not found: %s%s", why, w->err.text);
	assert_string_equal(why, "");
}

/* Found to be of no use, and then gone. */
static void assert_dropped(struct world *w, const char *words)
{
	CLEANUP_FINISHED struct finished f = { 0 };
	char why[200];
	assert_true(has_entry(w));
	assert_int_equal(find(w, KEY, &f, why), 0);
	if (!strstr(why, words))
		fail_msg("'%s' lacks '%s'", why, words);
	assert_false(has_entry(w));
	assert_int_equal(find(w, KEY, &f, why), 0);
	assert_string_equal(why, "");
}

static void put_and_found(void **state)
{
	struct world *w = *state;
	CLEANUP_FINISHED struct finished f = { 0 };
	struct stat st = { 0 };
	char why[200];
	assert_int_equal(find(w, KEY, &f, why), 0);
	assert_string_equal(why, "");
	finish(w);
	assert_int_equal(find(w, KEY, &f, why), 1);
	assert_string_equal(f.run, "r1");
	assert_int_equal(f.n_outputs, 3);
	assert_string_equal(f.outputs[0].path, "out/deep/y");
	assert_string_equal(f.outputs[1].path, "out/x");
	assert_int_equal(f.outputs[1].size, 7);
	assert_string_equal(f.outputs[1].media_type, "text/plain");
	assert_string_equal(f.outputs[2].path, ODD);
	assert_int_equal(strlen(f.time), 24);
	finished_release(&f);
	assert_int_equal(find(w, OTHER, &f, why), 0);
	assert_int_equal(find(w, "no key", &f, why), 0);
	assert_int_equal(fstatat(w->place.fd, "keys", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(fstatat(w->place.fd, "keys/00", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	CLEANUP_FREE char *path = xasprintf("keys/00/%s", &KEY[2]);
	assert_int_equal(fstatat(w->place.fd, path, &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void a_run_without_outputs(void **state)
{
	struct world *w = *state;
	assert_int_equal(fs_remove_tree(w->place.fd, "runs/r1/outputs", NULL, NULL), 0);
	put_json(w, "runs/r1/outputs.json", manifest_of(0));
	finish(w);
	assert_found(w);
	put(w, "runs/r1/outputs/late", "");
	assert_dropped(w, "output late was not there");
}

static void assert_refused(struct world *w, const char *words)
{
	assert_int_equal(finished_put(&w->config, KEY, "r1", &w->err), -EINVAL);
	if (!strstr(w->err.text, words))
		fail_msg("'%s' lacks '%s'", w->err.text, words);
	assert_false(has_entry(w));
}

static void only_what_stands_for_the_key_is_put(void **state)
{
	struct world *w = *state;
	put_json(w, "runs/r1/analysis.json", analysis_of(w, OTHER, "ACGT"));
	assert_refused(w, "another key");
	put_json(w, "runs/r1/analysis.json", analysis_of(w, KEY, "ACGA"));
	assert_refused(w, "an input is not what the key was made from");
	put_json(w, "runs/r1/analysis.json", analysis_of(w, KEY, "ACGT"));
	put_json(w, "runs/r1/verdict.json", json_pack("{s:s}", "cause", "exit"));
	assert_refused(w, "not ok");
	assert_int_equal(unlinkat(w->place.fd, "runs/r1/verdict.json", 0), 0);
	assert_refused(w, "no verdict");
	put_json(w, "runs/r1/verdict.json", json_pack("{s:s}", "cause", "ok"));
	put_json(w, "runs/r1/outputs.json", json_pack("{s:[],s:b}", "files", "partial", 1));
	assert_refused(w, "partial");
	assert_int_equal(unlinkat(w->place.fd, "runs/r1/outputs.json", 0), 0);
	assert_refused(w, "nothing was collected");
	put_json(w, "runs/r1/outputs.json", manifest_of(1, "out/x", "result\n"));
	put(w, "runtimes.d/sc.yaml",
	    "name: sc\nversion: 1\nkind: rootfs\nroot: ../tree\nenv: {A: b}\n");
	assert_refused(w, "its runtime is not what the key was made from");
	put(w, "runtimes.d/sc.yaml", "name: sc\nversion: 1\nkind: rootfs\nroot: ../tree\n");
	assert_int_equal(finished_put(&w->config, KEY, "r2", &w->err), -EINVAL);
	assert_int_equal(finished_put(&w->config, KEY, "../r1", &w->err), -EINVAL);
	assert_int_equal(finished_put(&w->config, "../../../../x", "r1", &w->err), -EINVAL);
	assert_int_equal(finished_put(&w->config, KEY, "r1", &w->err), 0); /* the control */
}

static void flip(const struct world *w)
{
	struct stat st = { 0 };
	assert_int_equal(fstatat(w->place.fd, "runs/r1/outputs/out/x", &st, 0), 0);
	put(w, "runs/r1/outputs/out/x", "Result\n");
	const struct timespec times[2] = { st.st_atim, st.st_mtim };
	assert_int_equal(utimensat(w->place.fd, "runs/r1/outputs/out/x", times, 0), 0);
}
static void cut(const struct world *w)
{
	put(w, "runs/r1/outputs/out/x", "resul");
}
static void lose(const struct world *w)
{
	assert_int_equal(unlinkat(w->place.fd, "runs/r1/outputs/out/x", 0), 0);
}
static void lose_all(const struct world *w)
{
	assert_int_equal(fs_remove_tree(w->place.fd, "runs/r1/outputs", NULL, NULL), 0);
}
static void add(const struct world *w)
{
	put(w, "runs/r1/outputs/out/z", "");
}
static void link_file(const struct world *w)
{
	put(w, "same", "result\n");
	lose(w);
	assert_int_equal(symlinkat("../../../../same", w->place.fd, "runs/r1/outputs/out/x"), 0);
}
static void link_directory(const struct world *w)
{
	assert_int_equal(renameat(w->place.fd, "runs/r1/outputs/out", w->place.fd, "moved"), 0);
	assert_int_equal(symlinkat("../../../moved", w->place.fd, "runs/r1/outputs/out"), 0);
}
static void make_directory(const struct world *w)
{
	lose(w);
	assert_int_equal(mkdirat(w->place.fd, "runs/r1/outputs/out/x", 0700), 0);
}
static void make_pipe(const struct world *w)
{
	lose(w);
	assert_int_equal(mkfifoat(w->place.fd, "runs/r1/outputs/out/x", 0600), 0);
}
static void damage_odd(const struct world *w)
{
	put(w, "runs/r1/outputs/" ODD, "ODD\n");
}
static void remove_run(const struct world *w)
{
	assert_int_equal(fs_remove_tree(w->place.fd, "runs/r1", NULL, NULL), 0);
}
static void remove_verdict(const struct world *w)
{
	assert_int_equal(unlinkat(w->place.fd, "runs/r1/verdict.json", 0), 0);
}

static void what_is_not_what_it_was_is_dropped(void **state)
{
	static const struct {
		void (*harm)(const struct world *w);
		const char *words;
	} all[] = {
		{ flip, "output out/x is damaged" },
		{ cut, "output out/x is damaged" },
		{ lose, "output out/x is gone" },
		{ lose_all, "its directory outputs/ can't be read" },
		{ add, "output out/z was not there when the run ended" },
		{ link_file, "output out/x is no file" },
		{ link_directory, "output out was not there when the run ended" },
		{ make_directory, "output out/x is gone" },
		{ make_pipe, "output out/x is no file" },
		{ damage_odd, "output out/?? is damaged" },
		{ remove_run, "run r1 was removed" },
		{ remove_verdict, "run r1 was removed" },
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct world *w = *state;
		finish(w);
		assert_found(w);
		all[i].harm(w);
		assert_dropped(w, all[i].words);
		assert_int_equal(tear_down(state), 0);
		assert_int_equal(set_up(state), 0);
	}
}

/* The tuple of a file that was just made proves nothing, however often it was read. */
static void edits_at_once_are_seen(void **state)
{
	struct world *w = *state;
	for (int i = 0; i < 20; i++) {
		finish(w);
		assert_found(w);
		put(w, "runs/r1/outputs/out/x", "Result\n");
		assert_dropped(w, "damaged");
		put(w, "runs/r1/outputs/out/x", "result\n");
	}
}

static void a_torn_entry_is_none(void **state)
{
	struct world *w = *state;
	CLEANUP_FREE char *path = xasprintf("keys/00/%s", &KEY[2]);
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	finish(w);
	assert_int_equal(fs_read_capped(w->place.fd, path, 1 << 20, &text, &length, NULL), 0);
	for (size_t i = 0; i < length; i += 7) {
		CLEANUP_FREE char *torn = xstrndup(text, i);
		put(w, path, torn);
		assert_dropped(w, "its entry is damaged");
	}
	for (size_t i = 0; i < length; i += 7) {
		CLEANUP_FREE char *flipped = xstrdup(text);
		flipped[i] ^= 1;
		put(w, path, flipped);
		assert_dropped(w, "its entry is damaged");
	}
	put(w, path, text);
	assert_found(w); /* the control */
	CLEANUP_FREE char *foreign = xasprintf("keys/ff/%s", &OTHER[2]);
	CLEANUP_FINISHED struct finished f = { 0 };
	char why[200];
	put(w, foreign, text);
	assert_int_equal(find(w, OTHER, &f, why), 0);
	assert_string_equal(why, "its entry is damaged");
}

/* Two that put at once, and one that asks all the while. */
static void writers_at_once(void **state)
{
	struct world *w = *state;
	pid_t pids[2];
	finish(w);
	for (int i = 0; i < 2; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		for (int n = 0; pids[i] == 0 && n < 20; n++)
			if (finished_put(&w->config, KEY, "r1", NULL) < 0)
				_exit(1);
		if (pids[i] == 0)
			_exit(0);
	}
	for (int n = 0; n < 200; n++)
		assert_found(w);
	for (int i = 0; i < 2; i++) {
		int status = -1;
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	assert_found(w);
}

static uint64_t prune(const struct world *w, enum store_prune act)
{
	uint64_t n = 99;
	assert_int_equal(keyed_prune(w->place.fd, act, &n, NULL), 0);
	return n;
}

static void entries_without_a_run_are_pruned(void **state)
{
	struct world *w = *state;
	assert_int_equal(prune(w, STORE_REMOVE), 0);
	finish(w);
	CLEANUP_FREE char *torn = xasprintf("keys/ff/%s", &OTHER[2]);
	put(w, "keys/ff/README", "somebody's");
	assert_int_equal(prune(w, STORE_REMOVE), 0);
	put(w, torn, "cupel-finished 1 ");
	assert_int_equal(prune(w, STORE_COUNT), 1);
	assert_int_equal(prune(w, STORE_REMOVE), 1);
	assert_found(w);
	remove_run(w);
	assert_int_equal(prune(w, STORE_COUNT), 1);
	assert_true(has_entry(w));
	assert_int_equal(prune(w, STORE_REMOVE), 1);
	assert_false(has_entry(w));
	assert_int_equal(faccessat(w->place.fd, "keys/ff/README", F_OK, 0), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(put_and_found),
		TEST(a_run_without_outputs),
		TEST(only_what_stands_for_the_key_is_put),
		TEST(what_is_not_what_it_was_is_dropped),
		TEST(edits_at_once_are_seen),
		TEST(a_torn_entry_is_none),
		TEST(writers_at_once),
		TEST(entries_without_a_run_are_pruned),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The catalog: an entry in full, every mistake with its place, which directory counts, and what is known of a runtime. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/stat.h>

#include "base/path.h"
#include "place.h"
#include "runtime/catalog.h"
#include "runtime/rootfs.h"
#include "runtime/state.h"

static int parse(const char *text, struct runtime *ret, struct err *err)
{
	return runtime_parse("/r/d/x.yaml", text, strlen(text), ret, err);
}

static void an_entry_in_full(void **state)
{
	static const char text[] =
		"name: x\nversion: 1\nkind: conda\nsummary: what it is\nprefix: ../../envs/x\n"
		"path: [/opt/tools/bin, /usr/bin]\n"
		"interpreters: {.py: [python, -I], r: Rscript, .ipynb: [nb, run]}\n"
		"env: {A: \"1\", B: ''}\nlimits: {memory: 4G}\nread_only: [/srv/references]\n"
		"devices: [/dev/nvidia0]\nprovides: [numpy, samtools]\n"
		"checks:\n  - import: numpy.linalg\n  - import: {r: stats}\n"
		"  - version: {command: [samtools, --version], at_least: \"1.16\"}\n"
		"  - run: {name: sum, command: [python, -c, 'print(1)'], expect: \"1\\n\"}\n"
		"check_limits: {time: 10s}\nlock: locks/x.lock\n";
	CLEANUP_RUNTIME struct runtime r = { 0 };
	struct err err = { 0 };
	if (parse(text, &r, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(r.version, "1");
	assert_int_equal(r.kind, RUNTIME_CONDA);
	assert_string_equal(r.prefix, "/envs/x");
	assert_string_equal(r.path, "/opt/tools/bin:/usr/bin");
	assert_int_equal(r.n_interpreters, 4); /* r has two endings */
	assert_string_equal(r.interpreters[0].argv.v[1], "-I");
	assert_string_equal(r.interpreters[0].language, "python");
	assert_string_equal(r.interpreters[1].extension, ".R");
	assert_string_equal(r.interpreters[3].extension, ".ipynb");
	assert_null(r.interpreters[3].language);
	assert_string_equal(pairs_get(&r.env, "B"), "");
	assert_string_equal(pairs_get(&r.env, "PYTHONUNBUFFERED"), "1");
	assert_string_equal(r.limits.at[LIMIT_MEMORY].origin, "/r/d/x.yaml:9");
	assert_string_equal(r.read_only.v[0], "/srv/references");
	assert_int_equal(r.n_checks, 4);
	assert_int_equal(r.checks[0].kind, CHECK_IMPORT);
	assert_string_equal(r.checks[0].command.v[0], "python");
	assert_string_equal(r.checks[1].command.v[0], "r");
	assert_string_equal(r.checks[2].expect, "1.16");
	assert_string_equal(r.checks[3].name, "sum");
	assert_int_equal(r.check_limits.at[LIMIT_TIME].value, 10000000000ULL);
	assert_int_equal(r.check_limits.at[LIMIT_MEMORY].value, 1ULL << 30);
	assert_string_equal(r.lock, "/r/d/locks/x.lock");
	assert_string_equal(r.origin, "/r/d/x.yaml:1");
	assert_false(r.from_project);
}

#define K "name: x\nkind: system\n"
#define C "name: x\nkind: conda\nprefix: /p\n"

static const struct {
	const char *text, *place, *words;
} mistakes[] = {
	{ "", "", "is empty" },
	{ "- a\n", ":1:1: ", "expected a map" },
	{ "kind: system\n", ":1:1: ", "needs 'name: NAME'" },
	{ "name: x\n", ":1:1: ", "needs 'kind: KIND'" },
	{ "name: y\nkind: system\n", ":1:7: ", "rename the file to y.yaml" },
	{ "name: ../x\nkind: system\n", ":1:7: ", "not a name for a runtime" },
	{ "name: [x]\n", ":1:7: ", "found a list" },
	{ "name: x\nkind: docker\n", ":2:7: ", "system, conda, venv, rootfs, image" },
	{ "name: x\nkind: cnda\n", ":2:7: ", "did you mean 'conda'?" },
	{ K "verson: 1\n", ":3:1: ", "did you mean 'version'?" },
	{ K "version: \"a\\nb\"\n", ":3:10: ", "control characters" },
	{ K "version: {a: b}\n", ":3:10: ", "found a map" },
	{ K "summary:\n", ":3:1: ", "is empty" },
	{ K "summary: \"\\e[0m\"\n", ":3:10: ", "control characters" },
	{ K "prefix: /p\n", ":3:9: ", "kind system has no 'prefix'" },
	{ K "root: /p\n", ":3:7: ", "kind system has no 'root'" },
	{ "name: x\nkind: conda\n", ":1:1: ", "kind conda needs 'prefix: PATH'" },
	{ "name: x\nkind: venv\nroot: /p\n", ":3:7: ", "say it as 'prefix'" },
	{ "name: x\nkind: rootfs\n", ":1:1: ", "kind rootfs needs 'root: PATH'" },
	{ "name: x\nkind: image\nprefix: /p\n", ":3:9: ", "say it as 'root'" },
	{ C "packages: [a]\n", ":4:11: ", "only a runtime of kind system" },
	{ "name: x\nkind: conda\nprefix: ../../../../p\n", ":3:9: ", "not a usable path" },
	{ "name: x\nkind: conda\nprefix: ''\n", ":3:9: ", "not a usable path" },
	{ K "path: /usr/bin\n", ":3:7: ", "expected a list" },
	{ K "path: [/a, b]\n", ":3:12: ", "not an absolute directory" },
	{ K "path: ['/a:/b']\n", ":3:8: ", "without ':'" },
	{ K "interpreters: [a]\n", ":3:15: ", "expected a map" },
	{ K "interpreters: {py: a}\n", ":3:16: ", "neither an ending" },
	{ K "interpreters: {.a/b: a}\n", ":3:16: ", "neither an ending" },
	{ K "interpreters: {.py: []}\n", ":3:21: ", "list is empty" },
	{ K "interpreters: {.py: ''}\n", ":3:21: ", "is empty" },
	{ K "interpreters: {.py: {a: b}}\n", ":3:21: ", "found a map" },
	{ K "env: [a]\n", ":3:6: ", "expected a map" },
	{ K "env: {A=B: c}\n", ":3:7: ", "not the name of a variable" },
	{ K "env: {CUPEL_X: c}\n", ":3:7: ", "reserved" },
	{ K "env: {PATH: /x}\n", ":3:7: ", "path: [...]" },
	{ K "env: {A: [b]}\n", ":3:10: ", "found a list" },
	{ K "limits: {memroy: 1G}\n", ":3:10: ", "did you mean 'memory'?" },
	{ K "limits: {memory: -1}\n", ":3:18: ", "memory" },
	{ K "check_limits: 5\n", ":3:15: ", "map of limits" },
	{ K "read_only: /srv\n", ":3:12: ", "expected a list" },
	{ K "read_only: [\"/a\\nb\"]\n", ":3:13: ", "not a usable path" },
	{ K "devices: [/etc/passwd]\n", ":3:11: ", "not below /dev" },
	{ K "packages: numpy\n", ":3:11: ", "expected a list" },
	{ K "provides: {a: b}\n", ":3:11: ", "expected a list" },
	{ K "checks: {import: a}\n", ":3:9: ", "expected a list of checks" },
	{ K "checks: [numpy]\n", ":3:10: ", "a check is one of" },
	{ K "checks: [{import: a, run: b}]\n", ":3:10: ", "a check is one of" },
	{ K "checks: [{improt: a}]\n", ":3:11: ", "did you mean 'import'?" },
	{ K "checks: [{import: 'os; evil()'}]\n", ":3:19: ", "letters, digits" },
	{ K "checks: [{import: {perl: a}}]\n", ":3:19: ", "{r: PACKAGE}" },
	{ K "checks: [{version: {command: [a]}}]\n", ":3:20: ", "needs 'at_least" },
	{ K "checks: [{version: {command: [a], at_least: v1}}]\n",
	  ":3:45: ", "begins with a digit" },
	{ K "checks: [{version: {comand: [a]}}]\n", ":3:21: ", "did you mean 'command'?" },
	{ K "checks: [{run: {name: n}}]\n", ":3:16: ", "needs 'command" },
	{ K "checks: [{run: {command: [a], expect: 'sha256:12'}}]\n", ":3:39: ", "64 digits" },
	{ K "lock: [a]\n", ":3:7: ", "found a list" },
};

static void every_mistake_has_its_place(void **state)
{
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		struct runtime r = { .n_checks = 77 };
		struct err err = { 0 };
		assert_int_equal(parse(mistakes[i].text, &r, &err), -EINVAL);
		assert_int_equal(err.kind, ERR_CALLER);
		assert_int_equal(r.n_checks, 77);
		CLEANUP_FREE char *place = xasprintf("/r/d/x.yaml%s", mistakes[i].place);
		if (!str_starts(err.text, place) || !strstr(err.text, mistakes[i].words))
			fail_msg("'%s' is told as '%s', not %s %s", mistakes[i].text, err.text,
				 mistakes[i].place, mistakes[i].words);
	}
}

/* Three directories as beside three configuration files. */
static struct config catalog_of(const struct place *p, bool has_project)
{
	static const char *const names[] = { "system/runtimes.d", "user/runtimes.d",
					     "project/runtimes.d" };
	struct config c = { .home = path_join(p->path, "home"),
			    .has_project_runtimes = has_project };
	for (size_t i = 0; i < (has_project ? 3 : 2); i++) {
		char *directory = path_join(p->path, names[i]);
		assert_int_equal(fs_make_dirs(directory, 0755, NULL), 0);
		strv_take(&c.runtime_dirs, directory);
	}
	return c;
}

static void put(const struct place *p, const char *name, const char *text)
{
	assert_int_equal(fs_write_atomic(p->fd, name, text, strlen(text), 0644, NULL), 0);
}

static void the_nearest_directory_counts(void **state)
{
	struct place *p = *state;
	CLEANUP_CONFIG struct config c = catalog_of(p, true);
	CLEANUP_CATALOG struct catalog all = { 0 };
	struct err err = { 0 };
	put(p, "system/runtimes.d/a.yaml", "name: a\nkind: system\nsummary: of the system\n");
	put(p, "user/runtimes.d/a.yaml", "name: a\nkind: system\nversion: 2\n");
	put(p, "user/runtimes.d/bad.yaml", "name: bad\nkind: nothing\n");
	put(p, "user/runtimes.d/notes.txt", "not an entry");
	put(p, "project/runtimes.d/own.yaml", "name: own\nkind: venv\nprefix: ../venv\n");
	CLEANUP_RUNTIME struct runtime a = { 0 };
	assert_int_equal(catalog_find(&c, "a", &a, &err), 0);
	assert_string_equal(a.version, "2");
	assert_null(a.summary); /* as a whole */
	CLEANUP_RUNTIME struct runtime base = { 0 };
	assert_int_equal(catalog_find(&c, "base", &base, &err), 0);
	assert_string_equal(base.origin, "built-in");

	assert_int_equal(catalog_read(&c, &all, &err), 0);
	assert_int_equal(all.n, 3);
	assert_string_equal(all.v[0].name, "a");
	assert_string_equal(all.v[1].name, "base");
	assert_string_equal(all.v[2].name, "own");
	assert_true(all.v[2].from_project);
	assert_int_equal(all.n_faults, 1);
	assert_string_equal(all.faults[0].name, "bad");
	assert_non_null(strstr(all.faults[0].err.text, "user/runtimes.d/bad.yaml:2:7"));
}

static void names_that_are_not_there(void **state)
{
	CLEANUP_CONFIG struct config c = catalog_of(*state, false);
	struct runtime r = { .n_checks = 77 };
	struct err err = { 0 };
	put(*state, "user/runtimes.d/single-cell.yaml", "name: single-cell\nkind: system\n");
	assert_int_equal(catalog_find(&c, "single-sell", &r, &err), -ENOENT);
	assert_int_equal(err.kind, ERR_CALLER);
	assert_non_null(strstr(err.text, "did you mean 'single-cell'?"));
	assert_int_equal(catalog_find(&c, "zzz", &r, &err), -ENOENT);
	assert_non_null(strstr(err.text, "base, single-cell"));
	assert_int_equal(catalog_find(&c, "../user/runtimes.d/single-cell", &r, &err), -ENOENT);
	assert_int_equal(r.n_checks, 77);
}

static void a_project_stays_within_itself(void **state)
{
	static const char *const bodies[] = {
		"kind: conda\nprefix: /opt/conda",          "kind: rootfs\nroot: ../../x",
		"kind: system\nread_only: [/srv]",          "kind: system\ndevices: [/dev/kvm]",
		"kind: system\nlock: /etc/cupel/base.lock",
	};
	struct place *p = *state;
	CLEANUP_CONFIG struct config c = catalog_of(p, true);
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		CLEANUP_FREE char *text = xasprintf("name: x\n%s\n", bodies[i]);
		CLEANUP_RUNTIME struct runtime r = { 0 };
		struct err err = { 0 };
		put(p, "project/runtimes.d/x.yaml", text);
		assert_int_equal(catalog_find(&c, "x", &r, &err), -EINVAL);
		assert_non_null(strstr(err.text, "outside the project"));
		/* The user himself may. */
		assert_int_equal(renameat(p->fd, "project/runtimes.d/x.yaml", p->fd,
					  "user/runtimes.d/x.yaml"),
				 0);
		assert_int_equal(catalog_find(&c, "x", &r, &err), 0);
	}
}

static void files_of_others_are_not_obeyed(void **state)
{
	struct place *p = *state;
	CLEANUP_CONFIG struct config c = catalog_of(p, true);
	struct runtime r = { 0 };
	struct err err = { 0 };
	put(p, "user/runtimes.d/x.yaml", "name: x\nkind: system\n");
	assert_int_equal(fchmodat(p->fd, "user/runtimes.d/x.yaml", 0666, 0), 0);
	assert_true(catalog_find(&c, "x", &r, &err) < 0);
	assert_non_null(strstr(err.text, "others may write it"));
	assert_int_equal(
		symlinkat("../../user/runtimes.d/x.yaml", p->fd, "project/runtimes.d/x.yaml"), 0);
	assert_true(catalog_find(&c, "x", &r, &err) < 0);
	assert_non_null(strstr(err.text, "symbolic link"));
}

static void states_are_kept(void **state)
{
	CLEANUP_CONFIG struct config c = catalog_of(*state, false);
	CLEANUP_RUNTIME_STATE struct runtime_state none = { 0 }, back = { 0 };
	struct err err = { 0 };
	assert_int_equal(state_read(&c, "x", &none, &err), 0);
	assert_int_equal(none.health, HEALTH_UNKNOWN);
	CLEANUP_JSON json_t *drift = json_pack("[s]", "lib/a.so");
	struct runtime_state said = { .health = HEALTH_DEGRADED,
				      .reason = (char *)"one byte",
				      .verified_depth = DEPTH_CONTENT,
				      .drift = drift,
				      .fingerprint = { .files = 7, .bytes = 8 } };
	hash_bytes("x", 1, said.fingerprint.hex[DEPTH_CONTENT]);
	assert_int_equal(state_write(&c, "x", &said, &err), 0);
	assert_int_equal(state_read(&c, "x", &back, &err), 0);
	assert_int_equal(back.health, HEALTH_DEGRADED);
	assert_string_equal(back.reason, "one byte");
	assert_int_equal(back.verified_depth, DEPTH_CONTENT);
	assert_string_equal(back.fingerprint.hex[DEPTH_CONTENT],
			    said.fingerprint.hex[DEPTH_CONTENT]);
	assert_string_equal(back.fingerprint.hex[DEPTH_IDENTITY], "");
	assert_int_equal(back.fingerprint.files, 7);
	assert_true(json_equal(back.drift, drift));
	put(*state, "home/runtimes/x/state.json", "{\"health\": \"splendid\"}");
	assert_int_equal(state_read(&c, "x", &none, &err), -EBADMSG);
	put(*state, "home/runtimes/x/state.json", "{");
	assert_true(state_read(&c, "x", &none, &err) < 0);
}

static void trees_are_read_without_following(void **state)
{
	struct place *p = *state;
	struct rootfs *tree = NULL;
	struct err err = { 0 };
	CLEANUP_FREE char *etc = path_join(p->path, "etc/deep");
	CLEANUP_FREE char *usr = path_join(p->path, "usr/bin");
	assert_int_equal(fs_make_dirs(etc, 0755, NULL), 0);
	assert_int_equal(fs_make_dirs(usr, 0755, NULL), 0);
	assert_int_equal(symlinkat("usr/bin", p->fd, "bin"), 0);
	assert_int_equal(symlinkat("/etc/passwd", p->fd, "etc/passwd"), 0);
	assert_int_equal(mkfifoat(p->fd, "fifo", 0600), 0);
	put(p, "usr/bin/tool", "x");
	assert_int_equal(fchmodat(p->fd, "usr/bin/tool", 0755, 0), 0);
	assert_int_equal(symlinkat("/usr/bin/tool", p->fd, "usr/bin/absolute"), 0);
	assert_int_equal(symlinkat("../../../../../../bin/sh", p->fd, "usr/bin/climbs"), 0);
	int fd = openat(p->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(rootfs_read(fd, p->path, false, &tree, &err), 0);
	assert_int_equal(tree->top.n, 3);
	assert_string_equal(tree->top.v[0].name, "bin");
	assert_string_equal(tree->top.v[0].target, "usr/bin");
	assert_null(tree->top.v[1].target);
	assert_int_equal(tree->etc.n, 2);
	assert_string_equal(tree->etc.v[1].target, "/etc/passwd");
	assert_int_equal(tree->var.n, 0);
	assert_true(rootfs_has_program(tree, "/bin/tool"));
	assert_true(rootfs_has_program(tree, "/usr/bin/absolute"));
	assert_false(rootfs_has_program(tree, "/usr/bin/climbs")); /* the host has a /bin/sh */
	assert_false(rootfs_has_program(tree, "/usr/bin"));
	rootfs_free(tree);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, place_set_up, place_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_entry_in_full),
		cmocka_unit_test(every_mistake_has_its_place),
		ROW(the_nearest_directory_counts),
		ROW(names_that_are_not_there),
		ROW(a_project_stays_within_itself),
		ROW(files_of_others_are_not_obeyed),
		ROW(states_are_kept),
		ROW(trees_are_read_without_following),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

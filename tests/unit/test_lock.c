/* Lock and drift: each change is made in a prefix that was locked before, and must be found at the right depth, by name. */
#include "prefix.h"

struct wanted {
	enum drift_kind kind;
	const char *what, *detail, *owner;
};

static void locked(const struct runtime *r)
{
	struct fingerprint f = { 0 };
	struct err err = { 0 };

	if (lock_write(r, NULL, &f, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(f.hex[DEPTH_IDENTITY][0] && f.hex[DEPTH_STAT][0] && f.hex[DEPTH_CONTENT][0]);
}

static struct drifts compared(const struct runtime *r, enum depth depth)
{
	struct drifts d = { 0 };
	struct fingerprint now = { 0 };
	struct err err = { 0 };

	if (lock_compare(r, depth, NULL, &d, &now, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(now.hex[depth][0]);
	return d;
}

static void assert_drifts(const struct runtime *r, enum depth depth, uint64_t n)
{
	CLEANUP_DRIFTS struct drifts d = compared(r, depth);

	for (size_t i = 0; i < d.n && d.n_all != n; i++)
		print_message("%s: %s\n", d.v[i].what, d.v[i].detail ? d.v[i].detail : "-");
	assert_int_equal(d.n_all, n);
}

/* The only difference there is. */
static void assert_one(const struct runtime *r, enum depth depth, const struct wanted *wanted)
{
	CLEANUP_DRIFTS struct drifts d = compared(r, depth);

	assert_int_equal(d.n_all, 1);
	assert_int_equal(d.n, 1);
	assert_int_equal(d.v[0].kind, wanted->kind);
	assert_string_equal(d.v[0].what, wanted->what);
	if (wanted->detail)
		assert_non_null(strstr(d.v[0].detail, wanted->detail));
	if (wanted->owner)
		assert_string_equal(d.v[0].owner, wanted->owner);
	else
		assert_null(d.v[0].owner);
}

static void nothing_changed(void **state)
{
	struct made *m = *state;

	locked(&m->r);
	for (int depth = 0; depth < DEPTH_COUNT_; depth++)
		assert_drifts(&m->r, (enum depth)depth, 0);
}

/* One byte of a library, with the size that it had and its mtime put back. */
static void one_byte(void **state)
{
	struct made *m = *state;

	locked(&m->r);
	forge(m->prefix, "lib/libblas.so.3", "a_library\n");
	assert_drifts(&m->r, DEPTH_IDENTITY, 0);
	assert_one(&m->r, DEPTH_STAT,
		   &(struct wanted){ DRIFT_CHANGED, "lib/libblas.so.3",
				     "content, and the mtime put back", "libblas" });
	assert_one(&m->r, DEPTH_CONTENT,
		   &(struct wanted){ DRIFT_CHANGED, "lib/libblas.so.3", "content", "libblas" });
	put(m->prefix, "lib/libblas.so.3", BLAS);
	assert_drifts(&m->r, DEPTH_CONTENT, 0); /* the same bytes again are the same content */
}

static void only_touched(void **state)
{
	struct made *m = *state;
	CLEANUP_FREE char *path = path_join(m->prefix, "lib/libblas.so.3");

	locked(&m->r);
	assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[2]){ { 1, 0 }, { -5, 7 } }, 0),
			 0);
	assert_one(&m->r, DEPTH_STAT,
		   &(struct wanted){ DRIFT_CHANGED, "lib/libblas.so.3", "mtime", "libblas" });
	assert_drifts(&m->r, DEPTH_CONTENT, 0);
	locked(&m->r); /* a time before 1970 is written and read */
	assert_drifts(&m->r, DEPTH_STAT, 0);
	put(m->prefix, "bin/other", "");
	assert_drifts(&m->r, DEPTH_STAT, 1);
}

/* conda links the files of its package cache into each environment: the next environment changes their ctimes. */
static void linked_elsewhere(void **state)
{
	struct made *m = *state;
	CLEANUP_FREE char *path = path_join(m->prefix, "lib/libblas.so.3");
	CLEANUP_FREE char *other = path_join(m->place.path, "other");

	locked(&m->r);
	struct fingerprint a = taken(&m->r, DEPTH_STAT);
	assert_int_equal(link(path, other), 0);
	struct fingerprint b = taken(&m->r, DEPTH_STAT);
	assert_string_not_equal(a.hex[DEPTH_STAT], b.hex[DEPTH_STAT]); /* the control: it is seen */
	assert_drifts(&m->r, DEPTH_STAT, 0);
	forge(m->place.path, "other",
	      "a_library\n"); /* and so is a change through the other name */
	assert_drifts(&m->r, DEPTH_STAT, 1);
}

/* A lock that was made to fit what is there now, without its manifest. */
static void lock_not_of_its_manifest(void **state)
{
	struct made *m = *state;
	CLEANUP_JSON json_t *lock = NULL;
	CLEANUP_DRIFTS struct drifts d = { 0 };
	struct fingerprint now = { 0 };
	struct err err = { 0 };

	locked(&m->r);
	assert_int_equal(json_read_file(AT_FDCWD, m->lock, 65536, &lock, NULL), 0);
	json_object_set(lock, "stat", json_object_get(lock, "content"));
	assert_int_equal(json_write_file(AT_FDCWD, m->lock, lock, NULL), 0);
	assert_int_equal(lock_compare(&m->r, DEPTH_STAT, NULL, &d, &now, &err), -EINVAL);
	assert_non_null(strstr(err.text, "not those of its manifest"));
}

static void size_and_mode(void **state)
{
	struct made *m = *state;
	CLEANUP_FREE char *path = path_join(m->prefix, "bin/f2py");

	locked(&m->r);
	assert_int_equal(chmod(path, 0755), 0);
	struct wanted mode = { DRIFT_CHANGED, "bin/f2py", "mode 0644 -> 0755", "extra" };
	assert_one(&m->r, DEPTH_STAT, &mode);
	assert_one(&m->r, DEPTH_CONTENT, &mode);
	locked(&m->r);
	put(m->prefix, "bin/f2py", F2PY "#\n");
	assert_one(&m->r, DEPTH_STAT,
		   &(struct wanted){ DRIFT_CHANGED, "bin/f2py", "size 9 -> 11", "extra" });
}

static void missing_and_added(void **state)
{
	struct made *m = *state;

	locked(&m->r);
	drop(m->prefix, SITE "/numpy/core.py");
	for (int depth = DEPTH_STAT; depth < DEPTH_COUNT_; depth++)
		assert_one(&m->r, (enum depth)depth,
			   &(struct wanted){ DRIFT_MISSING, SITE "/numpy/core.py", NULL, "numpy" });
	locked(&m->r);
	put(m->prefix, SITE "/sitecustomize.py", "import os\n");
	assert_drifts(&m->r, DEPTH_IDENTITY, 0);
	for (int depth = DEPTH_STAT; depth < DEPTH_COUNT_; depth++)
		assert_one(&m->r, (enum depth)depth,
			   &(struct wanted){ DRIFT_ADDED, SITE "/sitecustomize.py", NULL, NULL });
}

static void links(void **state)
{
	struct made *m = *state;

	locked(&m->r);
	put_link(m->prefix, "lib/libblas.so", "/tmp/evil.so");
	for (int depth = DEPTH_STAT; depth < DEPTH_COUNT_; depth++)
		assert_one(&m->r, (enum depth)depth,
			   &(struct wanted){ DRIFT_CHANGED, "lib/libblas.so",
					     "link libblas.so.3 -> /tmp/evil.so", NULL });
	locked(&m->r);
	drop(m->prefix, "lib/libblas.so");
	put(m->prefix, "lib/libblas.so", "x");
	assert_one(
		&m->r, DEPTH_CONTENT,
		&(struct wanted){ DRIFT_CHANGED, "lib/libblas.so", "was a link, is a file", NULL });
}

static void bytecode_is_left_out(void **state)
{
	struct made *m = *state;

	locked(&m->r);
	put(m->prefix, SITE "/numpy/__pycache__/core.cpython-311.pyc", "x");
	put(m->prefix, SITE "/numpy/__pycache__/deep/any", "x");
	put(m->prefix, SITE "/legacy.pyc", "x");
	for (int depth = 0; depth < DEPTH_COUNT_; depth++)
		assert_drifts(&m->r, (enum depth)depth, 0);
	put(m->prefix, SITE "/my__pycache__", "x");
	assert_drifts(&m->r, DEPTH_STAT, 1);
}

static void odd_names(void **state)
{
	struct made *m = *state;
	const char *name = "share/a\nb\t\\ \xff\x1b\xc3\xa9";

	put(m->prefix, name, "1");
	put_link(m->prefix, "share/l\n", "t\n\xfe");
	locked(&m->r);
	assert_drifts(&m->r, DEPTH_CONTENT, 0);
	put(m->prefix, name, "2");
	assert_one(&m->r, DEPTH_CONTENT,
		   &(struct wanted){ DRIFT_CHANGED, "share/a\\nb\\t\\\\ \\xff\\x1b\xc3\xa9",
				     "content", NULL });
}

static void packages(void **state)
{
	struct made *m = *state;

	locked(&m->r);
	put_package(m->prefix, "pandas", "2.2.0", "lib/p", "");
	assert_one(
		&m->r, DEPTH_IDENTITY,
		&(struct wanted){ DRIFT_PACKAGE, "pandas 2.2.0 0", "conda package added", NULL });
	drop(m->prefix, "conda-meta/pandas-2.2.0-0.json");
	assert_drifts(&m->r, DEPTH_IDENTITY, 0);
	drop(m->prefix, "conda-meta/numpy-1.26.4-0.json");
	assert_one(
		&m->r, DEPTH_IDENTITY,
		&(struct wanted){ DRIFT_PACKAGE, "numpy 1.26.4 0", "conda package removed", NULL });
	put_package(m->prefix, "numpy", "1.27.0", SITE "/numpy/core.py", CORE);
	assert_one(&m->r, DEPTH_IDENTITY,
		   &(struct wanted){ DRIFT_PACKAGE, "numpy 1.26.4 0 -> 1.27.0 0", "another version",
				     NULL });
}

static void packages_by_pip(void **state)
{
	struct made *m = *state;

	locked(&m->r);
	put(m->prefix, SITE "/seaborn-0.13.dist-info/RECORD", "seaborn.py,,\n");
	assert_one(&m->r, DEPTH_IDENTITY,
		   &(struct wanted){ DRIFT_PACKAGE, "seaborn 0.13", "python package added", NULL });
	locked(&m->r);
	put(m->prefix, SITE "/seaborn-0.13.dist-info/direct_url.json", "{}");
	assert_one(&m->r, DEPTH_IDENTITY,
		   &(struct wanted){ DRIFT_PACKAGE, "seaborn 0.13", "installed anew", NULL });
	locked(&m->r);
	put(m->prefix, SITE "/evil.pth", "import evil\n");
	assert_one(&m->r, DEPTH_IDENTITY,
		   &(struct wanted){ DRIFT_ADDED, SITE "/evil.pth", "content", NULL });
	assert_one(&m->r, DEPTH_CONTENT, /* and not once more as a file */
		   &(struct wanted){ DRIFT_ADDED, SITE "/evil.pth", "content", NULL });
}

static void what_activation_reads(void **state)
{
	struct made *m = *state;

	locked(&m->r);
	put(m->prefix, "etc/conda/activate.d/one.sh", "export B=3\n");
	assert_one(
		&m->r, DEPTH_IDENTITY,
		&(struct wanted){ DRIFT_CHANGED, "etc/conda/activate.d/one.sh", "content", NULL });
	locked(&m->r);
	put(m->prefix, "etc/conda/env_vars.d/x.json", "{}");
	assert_drifts(&m->r, DEPTH_IDENTITY, 1);
	locked(&m->r);
	put(m->prefix, "conda-meta/state", "{}");
	assert_drifts(&m->r, DEPTH_IDENTITY, 1);
	locked(&m->r);
	put(m->prefix, "conda-meta/history", "more\n"); /* changes nothing that runs */
	assert_drifts(&m->r, DEPTH_IDENTITY, 0);
}

static void many(void **state)
{
	struct made *m = *state;

	locked(&m->r);
	for (int i = 0; i < DRIFT_MAX + 500; i++) {
		CLEANUP_FREE char *name = xasprintf("many/%04d", i);
		put(m->prefix, name, "");
	}
	CLEANUP_DRIFTS struct drifts d = compared(&m->r, DEPTH_STAT);
	assert_int_equal(d.n, DRIFT_MAX);
	assert_int_equal(d.n_all, DRIFT_MAX + 501); /* with the directory */
	CLEANUP_JSON json_t *json = drifts_json(&d);
	assert_int_equal(json_array_size(json_object_get(json, "drifts")), DRIFT_MAX);
	assert_int_equal(json_integer_value(json_object_get(json, "count")), DRIFT_MAX + 501);
}

static void no_lock(void **state)
{
	struct made *m = *state;
	CLEANUP_LOCK struct lock l = { 0 };
	struct err err = { 0 };

	assert_int_equal(lock_read(&m->r, &l, &err), 0);
	assert_false(l.exists);
	assert_drifts(&m->r, DEPTH_IDENTITY, 0);
	assert_drifts(&m->r, DEPTH_STAT, 0);
	locked(&m->r);
	assert_int_equal(lock_read(&m->r, &l, &err), 0);
	assert_true(l.exists && l.time && l.manifest);
	assert_int_equal(access(l.manifest, R_OK), 0);
}

/* Whatever part of it a crash or a disk has left, a lock is whole or an error. */
static void damaged_lock(void **state)
{
	struct made *m = *state;
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;

	locked(&m->r);
	assert_int_equal(fs_read_capped(AT_FDCWD, m->lock, 65536, &text, &length, NULL), 0);
	for (size_t n = 0; n < length - 2; n += 7) {
		CLEANUP_LOCK struct lock l = { 0 };
		struct err err = { 0 };
		CLEANUP_FREE char *part = xstrndup(text, n);
		put(m->place.path, "locks/sc.lock", part);
		assert_int_equal(lock_read(&m->r, &l, &err), -EINVAL);
		assert_non_null(strstr(err.text, "sc.lock"));
		assert_false(l.exists);
	}
	locked(&m->r); /* the remedy */
	assert_drifts(&m->r, DEPTH_CONTENT, 0);
}

static void refused(const struct runtime *r, const char *words)
{
	struct drifts d = { 0 };
	struct fingerprint now = { 0 };
	struct err err = { 0 };

	assert_int_equal(lock_compare(r, DEPTH_STAT, NULL, &d, &now, &err), -EINVAL);
	if (!strstr(err.text, words))
		fail_msg("'%s' is not in: %s", words, err.text);
	assert_null(d.v);
}

static void lock_of_another(void **state)
{
	struct made *m = *state;
	CLEANUP_FREE char *elsewhere = path_join(m->place.path, "elsewhere");

	locked(&m->r);
	struct runtime other = m->r;
	char name[] = "other";
	other.name = name;
	refused(&other, "of runtime 'sc', not of 'other'");
	other = m->r;
	other.prefix = elsewhere;
	make_conda(elsewhere);
	refused(&other, "now at");
}

static void manifest_changed(void **state)
{
	struct made *m = *state;
	CLEANUP_LOCK struct lock l = { 0 };
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;

	locked(&m->r);
	put(m->prefix, "bin/evil", "x");
	assert_drifts(&m->r, DEPTH_STAT, 1);
	assert_int_equal(lock_read(&m->r, &l, NULL), 0);
	assert_int_equal(fs_read_capped(AT_FDCWD, l.manifest, 1 << 20, &text, &length, NULL), 0);
	text[length / 2] ^= 1;
	put("/", l.manifest + 1, text);
	refused(&m->r, "not the manifest that was locked");
	text[length / 2] ^= 1;
	put("/", l.manifest + 1, text);
	assert_drifts(&m->r, DEPTH_STAT, 1);
}

static void manifest_gone(void **state)
{
	struct made *m = *state;
	CLEANUP_LOCK struct lock l = { 0 };
	struct drifts d = { 0 };
	struct fingerprint now = { 0 };
	struct err err = { 0 };

	locked(&m->r);
	put(m->prefix, "bin/evil", "x");
	assert_int_equal(lock_read(&m->r, &l, NULL), 0);
	assert_int_equal(unlink(l.manifest), 0);
	assert_int_equal(lock_compare(&m->r, DEPTH_STAT, NULL, &d, &now, &err), -ENOENT);
	assert_non_null(strstr(err.text, "lock the runtime again"));
}

/* A name that leads elsewhere is not followed. */
static void manifest_elsewhere(void **state)
{
	struct made *m = *state;
	CLEANUP_JSON json_t *lock = NULL;

	locked(&m->r);
	put(m->prefix, "bin/evil", "x");
	assert_int_equal(json_read_file(AT_FDCWD, m->lock, 65536, &lock, NULL), 0);
	json_object_set_new(lock, "manifest", json_string("../prefix/bin/evil"));
	assert_int_equal(json_write_file(AT_FDCWD, m->lock, lock, NULL), 0);
	refused(&m->r, "manifest's name is wrong");
}

static void locked_again(void **state)
{
	struct made *m = *state;
	CLEANUP_LOCK struct lock first = { 0 }, second = { 0 };

	locked(&m->r);
	assert_int_equal(lock_read(&m->r, &first, NULL), 0);
	put(m->prefix, "bin/more", "x");
	locked(&m->r);
	assert_int_equal(lock_read(&m->r, &second, NULL), 0);
	assert_string_not_equal(first.manifest, second.manifest);
	assert_int_equal(access(first.manifest, F_OK), -1); /* nothing is left behind */
	assert_int_equal(access(second.manifest, F_OK), 0);
	assert_drifts(&m->r, DEPTH_CONTENT, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, made_set_up, made_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_changed),
		TEST(one_byte),
		TEST(only_touched),
		TEST(linked_elsewhere),
		TEST(size_and_mode),
		TEST(missing_and_added),
		TEST(links),
		TEST(bytecode_is_left_out),
		TEST(odd_names),
		TEST(packages),
		TEST(packages_by_pip),
		TEST(what_activation_reads),
		TEST(many),
		TEST(no_lock),
		TEST(damaged_lock),
		TEST(lock_of_another),
		TEST(manifest_changed),
		TEST(manifest_gone),
		TEST(manifest_elsewhere),
		TEST(lock_not_of_its_manifest),
		TEST(locked_again),
	};

	return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}

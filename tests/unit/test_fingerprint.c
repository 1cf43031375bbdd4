/* Fingerprints of every kind of runtime: what changes them, what does not, and what cannot be read. */
#include "prefix.h"
#include "runtime/key_items.h"

#include <sys/wait.h>

#define NOBODY 65534

static void assert_same(const struct fingerprint *a, const struct fingerprint *b, enum depth depth)
{
	assert_string_equal(a->hex[depth], b->hex[depth]);
	assert_int_equal(strlen(a->hex[depth]), HASH_HEX - 1);
}

static void assert_other(const struct fingerprint *a, const struct fingerprint *b, enum depth depth)
{
	assert_string_not_equal(a->hex[depth], b->hex[depth]);
}

static void assert_fails(const struct runtime *r, enum depth depth, int code, const char *words)
{
	struct fingerprint f = { .files = 77 };
	struct err err = { 0 };

	assert_int_equal(fingerprint_take(r, depth, NULL, &f, &err), -code);
	if (!strstr(err.text, words))
		fail_msg("'%s' is not in: %s", words, err.text);
	assert_int_equal(f.files, 77);
}

static void depths(void **state)
{
	struct made *m = *state;
	struct fingerprint f = taken(&m->r, DEPTH_IDENTITY);

	assert_string_equal(f.hex[DEPTH_STAT], "");
	f = taken(&m->r, DEPTH_STAT);
	assert_string_equal(f.hex[DEPTH_CONTENT], "");
	assert_int_equal(f.files, 12);
	f = taken(&m->r, DEPTH_CONTENT);
	assert_true(f.hex[DEPTH_IDENTITY][0] && f.hex[DEPTH_STAT][0] && f.hex[DEPTH_CONTENT][0]);
}

/* Identity and content go with a copy; the stat tuples are the host's. */
static void a_copy(void **state)
{
	struct made *m = *state;
	CLEANUP_FREE char *copy = path_join(m->place.path, "copy");
	struct runtime other = m->r;

	make_conda(copy);
	other.prefix = copy;
	struct fingerprint a = taken(&m->r, DEPTH_CONTENT), b = taken(&other, DEPTH_CONTENT);
	assert_same(&a, &b, DEPTH_IDENTITY);
	assert_same(&a, &b, DEPTH_CONTENT);
	assert_other(&a, &b, DEPTH_STAT);
	assert_int_equal(a.files, b.files);
	assert_int_equal(a.bytes, b.bytes);
}

static void links_are_not_followed(void **state)
{
	struct made *m = *state;

	put(m->place.path, "outside/file", "1");
	put_link(m->prefix, "lib/out", "../../outside");
	put_link(m->prefix, "lib/loop", "loop");
	put_link(m->prefix, "lib/up", "..");
	struct fingerprint a = taken(&m->r, DEPTH_CONTENT);
	put(m->place.path, "outside/file", "2");
	put(m->place.path, "outside/more", "2");
	struct fingerprint b = taken(&m->r, DEPTH_CONTENT);
	assert_same(&a, &b, DEPTH_STAT);
	assert_same(&a, &b, DEPTH_CONTENT);
	put(m->prefix, "lib/libblas.so.3",
	    "3"); /* the control: what a link leads to inside counts */
	b = taken(&m->r, DEPTH_CONTENT);
	assert_other(&a, &b, DEPTH_CONTENT);
}

static void special_files(void **state)
{
	struct made *m = *state;
	CLEANUP_FREE char *fifo = path_join(m->prefix, "lib/fifo");

	struct fingerprint a = taken(&m->r, DEPTH_CONTENT);
	assert_int_equal(mkfifo(fifo, 0644), 0);
	struct fingerprint b = taken(&m->r, DEPTH_CONTENT); /* and does not wait for a writer */
	assert_other(&a, &b, DEPTH_STAT);
	assert_other(&a, &b, DEPTH_CONTENT);
	CLEANUP_FREE char *script = path_join(m->prefix, "etc/conda/activate.d/pipe.sh");
	assert_int_equal(mkfifo(script, 0644), 0);
	assert_fails(&m->r, DEPTH_IDENTITY, EINVAL, "etc/conda/activate.d/pipe.sh");
}

static void many_files(void **state)
{
	struct made *m = *state;
	struct fingerprint before = taken(&m->r, DEPTH_STAT);

	for (int i = 0; i < 5000; i++) {
		CLEANUP_FREE char *name = xasprintf("share/%d/a-rather-long-name-%d", i % 3, i);
		put(m->prefix, name, "x");
	}
	struct fingerprint a = taken(&m->r, DEPTH_CONTENT), b = taken(&m->r, DEPTH_CONTENT);
	assert_int_equal(a.files, before.files + 5000);
	assert_int_equal(a.bytes, before.bytes + 5000);
	assert_same(&a, &b, DEPTH_STAT);
	assert_same(&a, &b, DEPTH_CONTENT);
	drop(m->prefix, "share/2/a-rather-long-name-4673");
	b = taken(&m->r, DEPTH_STAT);
	assert_other(&a, &b, DEPTH_STAT);
}

/* A file of several reads, against the digest of the same bytes at once. */
static void large_file(void **state)
{
	struct made *m = *state;
	CLEANUP(tree_release) struct tree t = TREE_INIT;
	size_t size = (9 << 20) + 17;
	CLEANUP_FREE char *text = xmalloc(size + 1);
	char hex[HASH_HEX];

	for (size_t i = 0; i < size; i++)
		text[i] = (char)('a' + i % 23);
	text[size] = '\0';
	put(m->place.path, "large/file", text);
	hash_bytes(text, size, hex);
	CLEANUP_FREE char *path = path_join(m->place.path, "large");
	t.root_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(tree_walk(&t, NULL, NULL), 0);
	assert_int_equal(tree_hash(&t, TREE_ALL_MD5, NULL, NULL), 0);
	assert_int_equal(t.n, 1);
	assert_string_equal(t.v[0].sha256, hex);
	CLEANUP_HASH_MD5 struct hash_md5 *md5 = hash_md5_new();
	hash_md5_add(md5, text, size);
	hash_md5_end(md5, hex);
	assert_string_equal(t.md5[0], hex);
}

static void deep_tree(void **state)
{
	struct made *m = *state;
	CLEANUP_STR struct str path = { 0 };

	for (int i = 0; i < 300; i++)
		str_add(&path, "deep/");
	str_add(&path, "file");
	put(m->prefix, path.text, "x");
	struct fingerprint a = taken(&m->r, DEPTH_CONTENT);
	put(m->prefix, path.text, "y");
	struct fingerprint b = taken(&m->r, DEPTH_CONTENT);
	assert_other(&a, &b, DEPTH_CONTENT);
}

/* Deeper than any path may be. */
static void too_deep(void **state)
{
	struct made *m = *state;
	char name[201];
	CLEANUP_FD int fd = open(m->prefix, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	memset(name, 'd', 200);
	name[200] = '\0';
	for (int i = 0; i < 25; i++) {
		assert_int_equal(mkdirat(fd, name, 0755), 0);
		int next_fd = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next_fd >= 0);
		(void)close(fd);
		fd = next_fd;
	}
	assert_fails(&m->r, DEPTH_STAT, ENAMETOOLONG, "dddd");
}

/* Between stat and content, as another process would do it. */
static void vanished_and_changed(void **state)
{
	struct made *m = *state;

	for (int turn = 0; turn < 3; turn++) {
		CLEANUP(tree_release) struct tree t = TREE_INIT;
		struct err err = { 0 };
		t.root_fd = open(m->prefix, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_int_equal(tree_walk(&t, NULL, &err), 0);
		if (turn == 1)
			forge(m->prefix, "lib/libblas.so.3", "a_library\n");
		if (turn == 2)
			drop(m->prefix, "lib/libblas.so.3");
		int r = tree_hash(&t, TREE_ALL, NULL, &err);
		assert_int_equal(r, turn == 0 ? 0 : turn == 1 ? -ESTALE : -ENOENT);
		if (turn > 0)
			assert_non_null(strstr(err.text, turn == 1
								 ? "'lib/libblas.so.3' was changed"
								 : "'lib/libblas.so.3' vanished"));
	}
}

/* In a child that is an ordinary user; root may read everything. */
static void unreadable(void **state)
{
	struct made *m = *state;
	CLEANUP_FREE char *path = path_join(m->prefix, "lib/libblas.so.3");
	int status = 0;

	assert_int_equal(chmod(m->place.path, 0755), 0);
	assert_int_equal(chmod(path, 0), 0);
	pid_t child = fork();
	if (child == 0) {
		struct fingerprint f = { 0 };
		struct err err = { 0 };
		if (geteuid() == 0 && (setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
			_exit(2);
		if (fingerprint_take(&m->r, DEPTH_STAT, NULL, &f, &err) < 0)
			_exit(3); /* the control: its tuple may be seen */
		int r = fingerprint_take(&m->r, DEPTH_CONTENT, NULL, &f, &err);
		_exit(r == -EACCES && strstr(err.text, "'lib/libblas.so.3'") ? 0 : 4);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void not_there(void **state)
{
	struct made *m = *state;
	CLEANUP_FREE char *nowhere = path_join(m->place.path, "nowhere");
	struct runtime r = m->r;

	r.prefix = nowhere;
	assert_fails(&r, DEPTH_IDENTITY, ENOENT, "nowhere' is not there");
	r.prefix = m->place.path;
	assert_fails(&r, DEPTH_IDENTITY, ENOENT, "no conda-meta");
	r.kind = RUNTIME_VENV;
	assert_fails(&r, DEPTH_IDENTITY, ENOENT, "no virtual environment");
	r.kind = RUNTIME_IMAGE;
	assert_fails(&r, DEPTH_IDENTITY, ENOENT, "not been unpacked");
}

static void make_venv(struct made *m)
{
	CLEANUP_FREE char *base = path_join(m->place.path, "base/bin/python3.11");
	CLEANUP_FREE char *config =
		xasprintf("home = %s/base/bin\n"
			  "include-system-site-packages = false\nversion = 3.11.2\n",
			  m->place.path);

	m->r.kind = RUNTIME_VENV;
	(void)snprintf(m->prefix, sizeof(m->prefix), "%s/venv", m->place.path);
	put(m->place.path, "base/bin/python3.11", "elf\n");
	put(m->place.path, "base/lib/python3/dist-packages/sys-1.dist-info/RECORD", "");
	put(m->prefix, "pyvenv.cfg", config);
	put(m->prefix, SITE "/extra-2.0.dist-info/RECORD", "extra.py,,\n");
	put(m->prefix, "bin/activate", "");
	put_link(m->prefix, "bin/python", base);
}

static void virtual_environment(void **state)
{
	struct made *m = *state;

	make_venv(m);
	struct fingerprint a = taken(&m->r, DEPTH_CONTENT), b = taken(&m->r, DEPTH_CONTENT);
	assert_same(&a, &b, DEPTH_IDENTITY);
	forge(m->place.path, "base/bin/python3.11", "ELF\n"); /* the interpreter outside of it */
	b = taken(&m->r, DEPTH_CONTENT);
	assert_same(&a, &b, DEPTH_IDENTITY);
	assert_other(&a, &b, DEPTH_STAT);
	assert_other(&a, &b, DEPTH_CONTENT);
	put(m->place.path, "base/bin/python3.11", "upgraded\n");
	b = taken(&m->r, DEPTH_CONTENT);
	assert_other(&a, &b, DEPTH_IDENTITY);
	assert_other(&a, &b, DEPTH_STAT);
	assert_other(&a, &b, DEPTH_CONTENT);
	put(m->place.path, "base/lib/python3/dist-packages/sys-2.dist-info/RECORD", "");
	a = taken(&m->r, DEPTH_IDENTITY);
	assert_same(&a, &b, DEPTH_IDENTITY);
	CLEANUP_FREE char *config = xasprintf(
		"home = %s/base/bin\ninclude-system-site-packages = true\n", m->place.path);
	put(m->prefix, "pyvenv.cfg", config);
	a = taken(&m->r, DEPTH_IDENTITY);
	put(m->place.path, "base/lib/python3/dist-packages/sys-3.dist-info/RECORD", "");
	b = taken(&m->r, DEPTH_IDENTITY);
	assert_other(&a, &b, DEPTH_IDENTITY);
	drop(m->place.path, "base/bin/python3.11");
	assert_fails(&m->r, DEPTH_IDENTITY, ENOENT, "make the virtual environment again");
}

#define STANZA(name, version, more)                                                                \
	"Package: " name "\nStatus: install ok installed\nArchitecture: amd64\nVersion: " version  \
	"\n" more "Description: x\n Version: 9\n\n"
#define NUMPY_STANZA                                                                               \
	STANZA("python3-numpy", "1.24",                                                            \
	       "Depends: python3 (>= 3.11), libblas.so.3 | libatlas, gone:any (<< 2)\n")

/* The host, in another place: numpy needs what blis provides, and nothing of vim. */
static void put_status(const struct made *m, const char *blis, const char *vim)
{
	CLEANUP_FREE char *text =
		xasprintf("%sPackage: libblis4\nStatus: install ok installed\nVersion: %s\n"
			  "Provides: x (= 1), libblas.so.3 (= 3)\n\n%s"
			  "Package: vim\nStatus: install ok installed\nVersion: %s\n\n"
			  "Package: libatlas\nStatus: deinstall ok config-files\nVersion: 1\n",
			  NUMPY_STANZA, blis, STANZA("python3", "3.11", ""), vim);
	put(m->prefix, "var/lib/dpkg/status", text);
}

static void make_system(struct made *m, struct interpreter *python)
{
	(void)snprintf(m->prefix, sizeof(m->prefix), "%s/host", m->place.path);
	put_status(m, "0.9", "9");
	put(m->prefix, "usr/lib/os-release", "ID=debian\n");
	put(m->prefix, "usr/lib/libblis.so.4", "blis\n");
	put(m->prefix, "usr/bin/vim", "vim\n");
	put(m->prefix, "usr/bin/python3.11", "elf\n");
	put_link(m->prefix, "usr/bin/python3", "/usr/bin/python3.11");
	put(m->prefix, "var/lib/dpkg/info/libblis4.list",
	    "/.\n/usr\n/usr/lib\n/usr/lib/libblis.so.4\n");
	put(m->prefix, "var/lib/dpkg/info/python3:amd64.list",
	    "/usr/bin/python3\n/etc/python3/x\n");
	put(m->prefix, "var/lib/dpkg/info/vim.list", "/usr/bin/vim\n");
	m->r = (struct runtime){ .name = m->name,
				 .kind = RUNTIME_SYSTEM,
				 .root = m->prefix,
				 .lock = m->lock,
				 .interpreters = python,
				 .n_interpreters = 1 };
}

static void the_host(void **state)
{
	struct made *m = *state;
	struct interpreter python = { 0 };
	char path[] = "/nowhere:/usr/bin";
	CLEANUP_STRV struct strv argv = { 0 }, packages = { 0 };

	make_system(m, &python);
	strv_add(&argv, "python3");
	strv_add(&packages, "python3-numpy");
	python.argv = argv;
	m->r.path = path;
	m->r.packages = packages;
	struct fingerprint a = taken(&m->r, DEPTH_CONTENT);
	assert_int_equal(a.files, 2);
	put_status(m, "0.9", "10");
	put(m->prefix, "usr/bin/vim", "other\n");
	struct fingerprint b = taken(&m->r, DEPTH_CONTENT);
	for (int depth = 0; depth < DEPTH_COUNT_; depth++)
		assert_same(&a, &b, (enum depth)depth); /* nothing that it needs */
	put_status(m, "1.0", "10");
	b = taken(&m->r, DEPTH_IDENTITY);
	assert_other(&a, &b, DEPTH_IDENTITY);
	put_status(m, "0.9", "10");
	put(m->prefix, "usr/bin/python3.11", "elf2\n"); /* the interpreter, through its link */
	b = taken(&m->r, DEPTH_IDENTITY);
	assert_other(&a, &b, DEPTH_IDENTITY);
	a = b;
	put(m->prefix, "usr/local/lib/python3.11/dist-packages/p-1.dist-info/RECORD", "");
	b = taken(&m->r, DEPTH_IDENTITY);
	assert_other(&a, &b, DEPTH_IDENTITY);
	m->r.packages = (struct strv){ 0 }; /* none named: any package counts */
	a = taken(&m->r, DEPTH_IDENTITY);
	put_status(m, "0.9", "11");
	b = taken(&m->r, DEPTH_IDENTITY);
	assert_other(&a, &b, DEPTH_IDENTITY);
}

/* Another BLAS, installed beside the first and then chosen. */
static void another_library(void **state)
{
	struct made *m = *state;
	struct interpreter python = { 0 };
	CLEANUP_STRV struct strv packages = { 0 };

	make_system(m, &python);
	put(m->prefix, "etc/alternatives/README", "");
	put_link(m->prefix, "etc/alternatives/libblas.so.3", "/usr/lib/blis/libblas.so.3");
	strv_add(&packages, "python3-numpy");
	m->r.packages = packages;
	struct fingerprint a = taken(&m->r, DEPTH_IDENTITY);
	put_link(m->prefix, "etc/alternatives/editor", "/usr/bin/vim");
	struct fingerprint b = taken(&m->r, DEPTH_IDENTITY);
	assert_same(&a, &b, DEPTH_IDENTITY);
	put_link(m->prefix, "etc/alternatives/libblas.so.3", "/usr/lib/openblas/libblas.so.3");
	b = taken(&m->r, DEPTH_IDENTITY);
	assert_other(&a, &b, DEPTH_IDENTITY);
	put(m->prefix, "var/lib/dpkg/status",
	    NUMPY_STANZA STANZA("zblas", "1", "Provides: libblas.so.3\n"));
	a = taken(&m->r, DEPTH_IDENTITY);
	put(m->prefix, "var/lib/dpkg/status",
	    NUMPY_STANZA STANZA("zblas", "1", "Provides: libblas.so.3\n")
		    STANZA("ablas", "1", "Provides: libblas.so.3\n"));
	b = taken(&m->r, DEPTH_IDENTITY);
	assert_other(&a, &b, DEPTH_IDENTITY);
}

static void key_of(const struct made *m, const struct config *c, char ret_hex[HASH_HEX])
{
	struct fingerprint f = taken(&m->r, DEPTH_IDENTITY);
	assert_int_equal(key_identity(c, &m->r, f.hex[DEPTH_IDENTITY], ret_hex, NULL), 0);
}

/* A runtime that lists packages depends on these and on what they need; one that lists none, on all. */
static void what_a_key_covers(void **state)
{
	struct made *m = *state;
	struct interpreter python = { .by_default = true };
	struct config c = { .home = m->place.path };
	CLEANUP_STRV struct strv packages = { 0 };
	char then[HASH_HEX], now[HASH_HEX], all[HASH_HEX];

	make_system(m, &python);
	put(m->place.path, "cache/identity/x", "");
	put(m->prefix, "etc/alternatives/README", "");
	put_link(m->prefix, "etc/alternatives/libblas.so.3", "/usr/lib/libblis.so.4");
	key_of(m, &c, all); /* of all packages */
	strv_add(&packages, "python3-numpy");
	m->r.packages = packages;
	key_of(m, &c, then);
	key_items_keep(&c, &m->r, then);
	put_status(m, "0.9", "10"); /* vim */
	put(m->prefix, "usr/lib/os-release", "ID=debian\nVERSION=2\n");
	put_link(m->prefix, "etc/alternatives/libvim.so", "/usr/lib/libvim.so.1");
	put(m->prefix, "usr/bin/python3.11", "another\n"); /* the entry does not name it */
	key_of(m, &c, now);
	assert_string_equal(then, now);
	put_link(m->prefix, "etc/alternatives/libblas.so.3", "/usr/lib/other.so");
	key_of(m, &c, now);
	assert_string_not_equal(then, now);
	put_link(m->prefix, "etc/alternatives/libblas.so.3", "/usr/lib/libblis.so.4");
	put(m->prefix, "usr/local/lib/python3.11/dist-packages/p-1.dist-info/RECORD", "");
	key_of(m, &c, now);
	assert_string_not_equal(then, now);
	drop(m->prefix, "usr/local/lib/python3.11/dist-packages/p-1.dist-info/RECORD");
	CLEANUP_FREE char *site =
		path_join(m->prefix, "usr/local/lib/python3.11/dist-packages/p-1.dist-info");
	assert_int_equal(rmdir(site), 0);
	key_of(m, &c, now);
	assert_string_equal(then, now);
	put_status(m, "1.0", "10"); /* numpy needs it */
	key_of(m, &c, now);
	assert_string_not_equal(then, now);
	key_items_keep(&c, &m->r, now);
	CLEANUP_FREE char *why = key_items_difference(&c, m->r.name, then, now);
	assert_string_equal(why, "libblis4 0.9 -> 1.0: dpkg package of another version");
	assert_null(key_items_difference(&c, m->r.name, then, then));
	assert_null(key_items_difference(&c, m->r.name, then, all)); /* nobody kept that */
	assert_null(key_items_difference(&c, "../x", then, now));
	m->r.packages = (struct strv){ 0 };
	key_of(m, &c, now);
	assert_string_not_equal(all, now); /* vim */
}

static void absent_package(void **state)
{
	struct made *m = *state;
	struct interpreter python = { 0 };
	CLEANUP_STRV struct strv packages = { 0 };

	make_system(m, &python);
	strv_add(&packages, "libatlas"); /* only its configuration is left */
	m->r.packages = packages;
	struct fingerprint a = taken(&m->r, DEPTH_IDENTITY);
	put(m->prefix, "var/lib/dpkg/status", STANZA("libatlas", "1", ""));
	struct fingerprint b = taken(&m->r, DEPTH_IDENTITY);
	assert_other(&a, &b, DEPTH_IDENTITY);
}

static void root_directory(void **state)
{
	struct made *m = *state;
	struct interpreter python = { 0 };

	make_system(m, &python);
	m->r.kind = RUNTIME_ROOTFS;
	m->r.prefix = m->prefix;
	m->r.root = NULL;
	struct fingerprint a = taken(&m->r, DEPTH_CONTENT);
	put_status(m, "0.9", "10");
	struct fingerprint b = taken(&m->r, DEPTH_CONTENT);
	assert_other(&a, &b, DEPTH_IDENTITY);
	assert_other(&a, &b, DEPTH_CONTENT);
	put(m->prefix, "at-the-top", "");
	a = taken(&m->r, DEPTH_IDENTITY);
	assert_other(&a, &b, DEPTH_IDENTITY);
	put(m->prefix, "usr/lib/os-release", "ID=other\n");
	b = taken(&m->r, DEPTH_IDENTITY);
	assert_other(&a, &b, DEPTH_IDENTITY);
}

/* A root whose links lead to the host's files, by name and by "..", is read within itself. */
static void hostile_root(void **state)
{
	struct made *m = *state;
	struct interpreter python = { 0 };
	CLEANUP_FREE char *secret = path_join(m->place.path, "secret");

	make_system(m, &python);
	m->r.kind = RUNTIME_ROOTFS;
	m->r.prefix = m->prefix;
	m->r.root = NULL;
	put(m->place.path, "secret", "1");
	put_link(m->prefix, "usr/lib/os-release", secret);
	put_link(m->prefix, "usr/bin/python3", "../../../secret");
	struct fingerprint a = taken(&m->r, DEPTH_CONTENT);
	put(m->place.path, "secret", "22");
	struct fingerprint b = taken(&m->r, DEPTH_CONTENT);
	assert_same(&a, &b, DEPTH_IDENTITY);
	assert_same(&a, &b, DEPTH_CONTENT);
}

static void squashfs_file(void **state)
{
	struct made *m = *state;
	char block[200];
	CLEANUP_FREE char *path = path_join(m->place.path, "root.squashfs");

	memset(block, 'x', sizeof(block));
	memcpy(block, "hsqs", 4);
	block[199] = '\0';
	put(m->place.path, "root.squashfs", block);
	m->r.kind = RUNTIME_ROOTFS;
	m->r.prefix = path;
	struct fingerprint a = taken(&m->r, DEPTH_CONTENT);
	assert_int_equal(a.files, 1);
	assert_int_equal(a.bytes, 199);
	block[150] = 'y';
	forge(m->place.path, "root.squashfs", block);
	struct fingerprint b = taken(&m->r, DEPTH_CONTENT);
	assert_other(&a, &b, DEPTH_IDENTITY);
	assert_other(&a, &b, DEPTH_CONTENT);
	block[0] = 'X';
	put(m->place.path, "root.squashfs", block);
	assert_fails(&m->r, DEPTH_IDENTITY, EINVAL, "neither a directory nor a squashfs file");
}

static void unpacked_image(void **state)
{
	struct made *m = *state;
	CLEANUP_FREE char *root = xasprintf(
		"%s/sha256-ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
		m->place.path);

	put(root, "bin/sh", "sh\n");
	m->r.kind = RUNTIME_IMAGE;
	m->r.root = root;
	struct fingerprint a = taken(&m->r, DEPTH_CONTENT);
	put(root, "bin/sh", "s2\n");
	struct fingerprint b = taken(&m->r, DEPTH_CONTENT);
	assert_same(&a, &b, DEPTH_IDENTITY);
	assert_other(&a, &b, DEPTH_CONTENT);
}

static struct fingerprint cached(const struct made *m, const char *cache)
{
	struct fingerprint f = { 0 }, whole = taken(&m->r, DEPTH_IDENTITY);
	struct err err = { 0 };

	if (fingerprint_identity(&m->r, cache, &f, &err) < 0)
		fail_msg("%s", err.text);
	assert_same(&f, &whole, DEPTH_IDENTITY);
	return f;
}

static char *cache_file(const char *cache)
{
	CLEANUP_DIR DIR *dir = opendir(cache);
	const struct dirent *entry = NULL;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			return path_join(cache, entry->d_name);
	return NULL;
}

/* What is younger than the clock's step is read anew each time; after that the cache answers, until anything changes. */
static void cache_of_identities(void **state)
{
	struct made *m = *state;
	CLEANUP_FREE char *parent = path_join(m->place.path, "cache");
	CLEANUP_FREE char *cache = path_join(parent, "identity");

	(void)cached(m, cache);
	assert_int_equal(access(parent, F_OK), -1); /* who only asks makes no home */
	assert_int_equal(mkdir(parent, 0700), 0);
	struct fingerprint a = cached(m, cache);
	assert_null(cache_file(cache));
	CLEANUP_FREE char *file = NULL;
	for (int tries = 0; !file && tries < 1200; tries++) { /* a minute */
		(void)usleep(50000);
		(void)cached(m, cache);
		file = cache_file(cache);
	}
	assert_non_null(file);
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	assert_int_equal(fs_read_capped(AT_FDCWD, file, 4096, &text, &length, NULL), 0);
	/* That it is used: what it says is believed. */
	char first = text[HASH_HEX];
	text[HASH_HEX] = first == '0' ? '1' : '0';
	put("/", file + 1, text);
	struct fingerprint f = { 0 };
	assert_int_equal(fingerprint_identity(&m->r, cache, &f, NULL), 0);
	assert_int_equal(f.hex[DEPTH_IDENTITY][0], text[HASH_HEX]);
	text[length - 5] = 'Z'; /* but not when it is damaged */
	put("/", file + 1, text);
	(void)cached(m, cache);
	forge(m->prefix, "conda-meta/state", "{\"env_vars\": {\"A\": \"2\"}}");
	struct fingerprint b = cached(m, cache);
	assert_other(&a, &b, DEPTH_IDENTITY);
	drop(m->prefix, "conda-meta/state");
	a = cached(m, cache);
	assert_other(&a, &b, DEPTH_IDENTITY);
}

static void tell(void *data, uint64_t files, uint64_t bytes)
{
	uint64_t *last = data;

	last[0] = files;
	last[1] = bytes;
}

static void progress(void **state)
{
	struct made *m = *state;
	uint64_t last[2] = { 0 };
	struct fingerprint_progress p = { .data = last, .tell = tell };
	struct fingerprint f = { 0 };

	assert_int_equal(fingerprint_take(&m->r, DEPTH_CONTENT, &p, &f, NULL), 0);
	assert_int_equal(last[0], f.files - 1); /* all but the link */
	assert_int_equal(last[1], f.bytes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, made_set_up, made_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(depths),         TEST(a_copy),          TEST(links_are_not_followed),
		TEST(special_files),  TEST(many_files),      TEST(large_file),
		TEST(deep_tree),      TEST(too_deep),        TEST(vanished_and_changed),
		TEST(unreadable),     TEST(not_there),       TEST(virtual_environment),
		TEST(the_host),       TEST(another_library), TEST(what_a_key_covers),
		TEST(absent_package), TEST(root_directory),  TEST(hostile_root),
		TEST(squashfs_file),  TEST(unpacked_image),  TEST(cache_of_identities),
		TEST(progress),
	};

	return cmocka_run_group_tests_name("fingerprint", tests, NULL, NULL);
}

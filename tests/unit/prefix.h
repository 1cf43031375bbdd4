/* Prefixes as package managers leave them, made by hand in a test's own directory. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/path.h"
#include "place.h"
#include "runtime/fingerprint.h"
#include "runtime/fingerprint_parts.h"

#define SITE  "lib/python3.11/site-packages"
#define NUMPY SITE "/numpy-1.26.4.dist-info"

/* Writes a file below the directory, and the directories on the way. */
static inline void put(const char *below, const char *path, const char *text)
{
	CLEANUP_FREE char *whole = path_join(below, path);
	CLEANUP_FREE char *parent = path_parent(whole);
	CLEANUP_FD int fd = -1;

	assert_int_equal(fs_make_dirs(parent, 0755, NULL), 0);
	fd = open(whole, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(fs_write_all(fd, text, strlen(text)), 0);
}

static inline void put_link(const char *below, const char *path, const char *target)
{
	CLEANUP_FREE char *whole = path_join(below, path);

	(void)unlink(whole);
	assert_int_equal(symlink(target, whole), 0);
}

static inline void drop(const char *below, const char *path)
{
	CLEANUP_FREE char *whole = path_join(below, path);

	assert_int_equal(unlink(whole), 0);
}

static inline void sum_hex(const char *text, char hex[HASH_HEX])
{
	hash_bytes(text, strlen(text), hex);
}

/* As RECORD has it: urlsafe base64 without padding. */
static inline void sum_base64(const char *text, char out[44])
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	char hex[HASH_HEX];
	unsigned char bytes[HASH_SIZE + 1] = { 0 };

	sum_hex(text, hex);
	for (size_t i = 0; i < HASH_SIZE; i++) {
		unsigned value = 0;
		assert_int_equal(sscanf(hex + 2 * i, "%2x", &value), 1);
		bytes[i] = (unsigned char)value;
	}
	for (size_t i = 0; i < 43; i++) {
		size_t bit = 6 * i, at = bit / 8;
		unsigned two = (unsigned)bytes[at] << 8 | (at + 1 < HASH_SIZE ? bytes[at + 1] : 0);
		out[i] = letters[two >> (10 - bit % 8) & 63];
	}
	out[43] = '\0';
}

static inline void put_package(const char *prefix, const char *name, const char *version,
			       const char *path, const char *content)
{
	CLEANUP_FREE char *file = xasprintf("conda-meta/%s-%s-0.json", name, version);
	char hex[HASH_HEX];

	sum_hex(content, hex);
	CLEANUP_FREE char *text = xasprintf(
		"{\"name\": \"%s\", \"version\": \"%s\", \"build\": \"0\", \"sha256\": \"ab%s\","
		" \"url\": \"https://example.org/%s-%s-0.conda\", \"files\": [\"%s\"], \"paths_data\":"
		" {\"paths_version\": 1, \"paths\": [{\"_path\": \"%s\", \"path_type\": \"hardlink\","
		" \"sha256\": \"00\", \"sha256_in_prefix\": \"%s\"}]}}",
		name, version, version, name, version, path, path, hex);
	put(prefix, file, text);
}

#define CORE   "value = 1\n"
#define BLAS   "a library\n"
#define F2PY   "#!python\n"
#define BY_PIP "by pip\n"

/* conda: numpy, blas; pip: extra, with a script in bin. */
static inline void make_conda(const char *prefix)
{
	char core[44], script[44];

	put(prefix, SITE "/numpy/core.py", CORE);
	put(prefix, "lib/libblas.so.3", BLAS);
	put(prefix, "bin/f2py", F2PY);
	put(prefix, "bin/python", "an interpreter\n");
	put_link(prefix, "lib/libblas.so", "libblas.so.3");
	put_package(prefix, "numpy", "1.26.4", SITE "/numpy/core.py", CORE);
	put_package(prefix, "libblas", "3.9.0", "lib/libblas.so.3", BLAS);
	put(prefix, "conda-meta/history", "==> 2026-01-01 <==\n");
	put(prefix, "conda-meta/state", "{\"env_vars\": {\"A\": \"1\"}}");
	put(prefix, "etc/conda/activate.d/one.sh", "export B=2\n");
	put(prefix, SITE "/extra.py", BY_PIP);
	sum_base64(BY_PIP, core);
	sum_base64(F2PY, script);
	CLEANUP_FREE char *record =
		xasprintf("extra.py,sha256=%s,7\n../../../bin/f2py,sha256=%s,9\n"
			  "__pycache__/extra.cpython-311.pyc,,\n"
			  "extra-2.0.dist-info/RECORD,,\n",
			  core, script);
	put(prefix, SITE "/extra-2.0.dist-info/RECORD", record);
}

/* A runtime as the catalog gives it; what it points to is borrowed. */
struct made {
	struct place place;
	char name[8], prefix[64], lock[64];
	struct runtime r;
};

static inline int made_set_up(void **state)
{
	static struct made m;
	void *place = NULL;

	if (place_set_up(&place) < 0)
		return -1;
	m.place = *(struct place *)place;
	(void)snprintf(m.prefix, sizeof(m.prefix), "%s/prefix", m.place.path);
	(void)snprintf(m.lock, sizeof(m.lock), "%s/locks/sc.lock", m.place.path);
	m.r = (struct runtime){
		.name = m.name, .kind = RUNTIME_CONDA, .prefix = m.prefix, .lock = m.lock
	};
	memcpy(m.name, "sc", 3);
	make_conda(m.prefix);
	*state = &m;
	return 0;
}

static inline int made_tear_down(void **state)
{
	void *place = &((struct made *)*state)->place;

	return place_tear_down(&place);
}

static inline struct fingerprint taken(const struct runtime *r, enum depth depth)
{
	struct fingerprint f = { 0 };
	struct err err = { 0 };

	if (fingerprint_take(r, depth, NULL, &f, &err) < 0)
		fail_msg("%s", err.text);
	return f;
}

/* Gives a file that much other content of the same length, and the times that it had. */
static inline void forge(const char *below, const char *path, const char *text)
{
	CLEANUP_FREE char *whole = path_join(below, path);
	struct stat st = { 0 };

	assert_int_equal(stat(whole, &st), 0);
	assert_int_equal(st.st_size, strlen(text));
	put(below, path, text);
	const struct timespec times[2] = { st.st_atim, st.st_mtim };
	assert_int_equal(utimensat(AT_FDCWD, whole, times, 0), 0);
}

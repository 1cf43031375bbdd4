/* Identity of a runtime, and reading its lock. */
#include "runtime/fingerprint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/path.h"

const char *const depth_names[] = {
	[DEPTH_IDENTITY] = "identity", [DEPTH_STAT] = "stat", [DEPTH_CONTENT] = "content"
};

static void add_stat(struct hash *h, const char *path)
{
	struct stat st = { 0 };
	if (stat(path, &st) < 0)
		return;
	CLEANUP_FREE char *text = xasprintf("%s %lld %lld.%09ld\n", path, (long long)st.st_size,
					    (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	hash_add(h, text, strlen(text));
}

static void add_file(struct hash *h, const char *path)
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	if (fs_read_capped(AT_FDCWD, path, 1 << 20, &text, &length, NULL) >= 0)
		hash_add(h, text, length);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_directory(struct hash *h, const char *path)
{
	CLEANUP_STRV struct strv names = { 0 };
	CLEANUP_DIR DIR *dir = opendir(path);
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (entry->d_name[0] != '.')
			strv_take(&names, path_join(path, entry->d_name));
	if (names.n)
		qsort(names.v, names.n, sizeof *names.v, by_text);
	for (size_t i = 0; i < names.n; i++)
		add_stat(h, names.v[i]);
}

int fingerprint_take(const struct runtime *r, enum depth depth,
		     const struct fingerprint_progress *progress, struct fingerprint *ret,
		     struct err *err)
{
	CLEANUP_HASH struct hash *h = hash_new();
	struct fingerprint f = { 0 };
	if (depth != DEPTH_IDENTITY)
		return err_set(err, ERR_HOST, EOPNOTSUPP, "only the identity can be taken");
	hash_add(h, "cupel", 6);
	if (r->kind == RUNTIME_SYSTEM) {
		add_stat(h, "/var/lib/dpkg/status");
		add_file(h, "/usr/lib/os-release");
	} else {
		CLEANUP_FREE char *meta = path_join(r->prefix, "conda-meta");
		CLEANUP_FREE char *cfg = path_join(r->prefix, "pyvenv.cfg");
		add_directory(h, meta);
		add_file(h, cfg);
		add_stat(h, r->prefix);
		if (r->digest)
			hash_add(h, r->digest, strlen(r->digest));
	}
	hash_end(h, f.hex[DEPTH_IDENTITY]);
	*ret = f;
	return 0;
}

void lock_release(struct lock *l)
{
	free(l->time);
	free(l->manifest);
	*l = (struct lock){ 0 };
}

int lock_read(const struct runtime *r, struct lock *ret, struct err *err)
{
	CLEANUP_JSON json_t *o = NULL;
	struct lock l = { 0 };
	int e = json_read_file(AT_FDCWD, r->lock, 1 << 20, &o, err);
	if (e < 0 && e != -ENOENT)
		return e;
	const char *hex =
		json_string_value(json_object_get(json_object_get(o, "fingerprint"), "identity"));
	l.exists = hex && strlen(hex) == HASH_HEX - 1;
	if (l.exists)
		memcpy(l.fingerprint.hex[DEPTH_IDENTITY], hex, HASH_HEX);
	*ret = l;
	return 0;
}

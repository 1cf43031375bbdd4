/* A tree as a value: single files, the files of Debian packages, and the digests. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/path.h"
#include "runtime/fingerprint_parts.h"

void tree_release(struct tree *t)
{
	cleanup_fd(&t->root_fd);
	cleanup_free(&t->v);
	cleanup_free(&t->md5);
	arena_release(&t->arena);
	t->n = 0;
}

static int by_order(const void *a, const void *b)
{
	return entry_order(a, b);
}

/* lstat by descriptor: what is opened is what the link's text belongs to. 0: nothing is there. */
static int look(struct tree *t, int dir_fd, const char *path, struct entry *ret)
{
	struct stat st = { 0 };
	char target[PATH_MAX];
	struct entry e = { 0 };

	CLEANUP_FD int fd = fs_open_resolve(dir_fd, path, O_PATH | O_NOFOLLOW, 0, t->resolve);
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? 0 : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	entry_fill(&e, &st);
	if (e.kind == 'l') {
		ssize_t n = readlinkat(fd, "", target, sizeof(target));
		if (n < 0)
			return -errno;
		e.target = arena_bytes(&t->arena, target, (size_t)n);
	}
	*ret = e;
	return 1;
}

int tree_add(struct tree *t, const char *path, struct err *err)
{
	struct entry e = { 0 };
	int r = look(t, AT_FDCWD, path, &e);

	if (r <= 0) {
		int code = r < 0 ? -r : ENOENT;
		return err_set(err, ERR_HOST, code, "look at '%s': %s", path,
			       strerrordesc_np(code));
	}
	e.path = arena_text(&t->arena, "", path);
	t->v = xreallocarray(t->v, t->n + 1, sizeof(*t->v));
	size_t at = t->n++;
	for (; at > 0 && entry_order(&t->v[at - 1], &e) > 0; at--)
		t->v[at] = t->v[at - 1];
	t->v[at] = e;
	return 0;
}

/* Configuration and data change in use, and a box is not shown them. */
static bool looked_at(const char *path)
{
	return *path && !str_eq(path, ".") && !str_starts(path, "etc/") &&
	       !str_starts(path, "var/") && !path_left_out(path);
}

static int add_listed(struct tree *t, size_t *room, const char *path, struct err *err)
{
	struct entry e = { 0 };
	int r = look(t, t->root_fd, path, &e);

	if (r < 0)
		return err_set(err, ERR_HOST, -r, "look at '/%s': %s", path, strerrordesc_np(-r));
	if (r == 0 || e.kind == 'd')
		return 0;
	e.path = arena_text(&t->arena, "", path);
	if (t->n == *room) {
		*room = *room ? 2 * *room : 4096;
		t->v = xreallocarray(t->v, *room, sizeof(*t->v));
	}
	t->v[t->n++] = e;
	return 0;
}

static int add_package(struct tree *t, size_t *room, const struct dpkg_package *p,
		       const struct dpkg_paths *paths, struct err *err)
{
	CLEANUP_FREE char *list = NULL;
	char *rest = NULL;
	int r = dpkg_info(t->root_fd, p, "list", &list, err);

	for (char *line = list ? strtok_r(list, "\n", &rest) : NULL; r >= 0 && line;
	     line = strtok_r(NULL, "\n", &rest)) {
		CLEANUP_FREE char *path = dpkg_path(paths, line + strspn(line, "/"), p->name);
		if (looked_at(path))
			r = add_listed(t, room, path, err);
	}
	return r;
}

int tree_dpkg(struct tree *t, const struct dpkg *d, struct err *err)
{
	CLEANUP(dpkg_paths_release) struct dpkg_paths paths = { 0 };
	size_t room = 0, n = 0;

	dpkg_paths_read(t->root_fd, &paths);
	for (size_t i = 0; i < d->n; i++) {
		int r = d->v[i].wanted ? add_package(t, &room, &d->v[i], &paths, err) : 0;
		if (r < 0)
			return r;
	}
	if (t->n > 1)
		qsort(t->v, t->n, sizeof(*t->v), by_order);
	for (size_t i = 0; i < t->n; i++)
		if (n == 0 || !str_eq(t->v[n - 1].path, t->v[i].path))
			t->v[n++] = t->v[i];
	t->n = n;
	return 0;
}

/* Fixed width and NUL-terminated texts: no two trees have the same bytes. */
static void add_number(struct hash *h, uint64_t value)
{
	unsigned char bytes[8];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)(value >> (8 * i));
	hash_add(h, bytes, sizeof(bytes));
}

static void add_text(struct hash *h, const char *text)
{
	hash_add(h, text, strlen(text) + 1);
}

static void add_common(struct hash *h, const struct entry *e)
{
	add_text(h, e->path);
	hash_add(h, &e->kind, 1);
	add_number(h, e->mode);
	add_text(h, e->target ? e->target : "");
}

/* The ctime catches what had its mtime put back, and changes when a prefix is copied: a lock is of one host. The owner is left out;
 * a change of it shows in the ctime, and who owns a file is not what an analysis computes with. */
void tree_digest_stat(const struct tree *t, char ret_hex[HASH_HEX])
{
	CLEANUP_HASH struct hash *h = hash_new();

	add_text(h, "cupel-stat-1");
	for (size_t i = 0; i < t->n; i++) {
		add_common(h, &t->v[i]);
		add_number(h, t->v[i].size);
		add_number(h, (uint64_t)t->v[i].mtime_ns);
		add_number(h, (uint64_t)t->v[i].ctime_ns);
	}
	hash_end(h, ret_hex);
}

void tree_digest_content(const struct tree *t, char ret_hex[HASH_HEX])
{
	CLEANUP_HASH struct hash *h = hash_new();

	add_text(h, "cupel-content-1");
	for (size_t i = 0; i < t->n; i++) {
		add_common(h, &t->v[i]);
		add_text(h, t->v[i].sha256);
	}
	hash_end(h, ret_hex);
}

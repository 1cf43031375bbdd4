/* SHA-256 of every file of a tree, all cpus at once. Large files come first, so that no thread begins one when the others are done;
 * the rest in the order of their paths, which is about where a disk has them. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "runtime/fingerprint_parts.h"

#define BUFFER_SIZE (256 * 1024)
#define LARGE_SIZE  (8 << 20)

struct content {
	struct tree *tree;
	const struct fingerprint_progress *progress;
	size_t *files; /* owned; which entries, in the order they are taken */
	size_t n;
	atomic_size_t next;
	atomic_uint_fast64_t files_done, bytes_done;
	atomic_bool stop;
	pthread_mutex_t lock; /* of the two below */
	int failed;
	struct err err;
};

/* What a thread needs for any file. */
struct reader {
	char *buffer;         /* owned */
	struct hash *sha256;  /* owned */
	struct hash_md5 *md5; /* owned or NULL */
};

static void reader_release(struct reader *r)
{
	cleanup_free(&r->buffer);
	hash_freep(&r->sha256);
	hash_md5_freep(&r->md5);
}

static void content_release(struct content *c)
{
	cleanup_free(&c->files);
	(void)pthread_mutex_destroy(&c->lock);
}

static int open_entry(const struct tree *t, const struct entry *e)
{
	const uint64_t flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	uint64_t resolve = t->resolve ? t->resolve : RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;

	if (e->path[0] == '/')
		return fs_open_resolve(AT_FDCWD, e->path, flags, 0, 0);
	return fs_open_resolve(t->root_fd, e->path, flags, 0, resolve | RESOLVE_NO_MAGICLINKS);
}

/* As many bytes as it had when it was looked at; fewer is a change, which the tuple shows too. */
static int read_bytes(struct content *c, struct reader *reader, int fd, uint64_t left)
{
	while (left > 0 && !atomic_load_explicit(&c->stop, memory_order_relaxed)) {
		ssize_t n = read(fd, reader->buffer, left < BUFFER_SIZE ? left : BUFFER_SIZE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -ESTALE;
		hash_add(reader->sha256, reader->buffer, (size_t)n);
		if (reader->md5)
			hash_md5_add(reader->md5, reader->buffer, (size_t)n);
		left -= (uint64_t)n;
		atomic_fetch_add_explicit(&c->bytes_done, (uint64_t)n, memory_order_relaxed);
	}
	return 0;
}

static bool unchanged(int fd, const struct entry *e)
{
	struct stat st = { 0 };
	struct entry now = { 0 };

	if (fstat(fd, &st) < 0)
		return false;
	entry_fill(&now, &st);
	return now.kind == e->kind && now.size == e->size && now.mtime_ns == e->mtime_ns &&
	       now.ctime_ns == e->ctime_ns;
}

static int hash_entry(struct content *c, struct reader *reader, size_t i)
{
	struct entry *e = &c->tree->v[i];

	CLEANUP_FD int fd = open_entry(c->tree, e);
	if (fd < 0)
		return fd;
	hash_restart(reader->sha256);
	int r = read_bytes(c, reader, fd, e->size);
	if (r < 0)
		return r;
	if (!unchanged(fd, e))
		return -ESTALE;
	hash_end(reader->sha256, e->sha256);
	if (reader->md5)
		hash_md5_end(reader->md5, c->tree->md5[i]);
	atomic_fetch_add_explicit(&c->files_done, 1, memory_order_relaxed);
	return 0;
}

static int fault(struct err *err, const char *path, int code)
{
	CLEANUP_STR struct str shown = { 0 };

	text_escape(&shown, path);
	if (code == ENOENT)
		return err_set(err, ERR_HOST, code, "'%s' vanished while it was looked at",
			       str_text(&shown));
	if (code == ESTALE)
		return err_set(err, ERR_HOST, code, "'%s' was changed while it was read",
			       str_text(&shown));
	return err_set(err, ERR_HOST, code, "read '%s': %s", str_text(&shown),
		       strerrordesc_np(code));
}

static void content_work(void *data)
{
	struct content *c = data;
	CLEANUP(reader_release)
	struct reader reader = {
		.buffer = xmalloc(BUFFER_SIZE),
		.sha256 = hash_new(),
		.md5 = c->tree->md5 ? hash_md5_new() : NULL,
	};

	while (!atomic_load(&c->stop)) {
		size_t at = atomic_fetch_add(&c->next, 1);
		int r = at < c->n ? hash_entry(c, &reader, c->files[at]) : 0;
		if (at >= c->n)
			return;
		if (r >= 0)
			continue;
		(void)pthread_mutex_lock(&c->lock);
		if (c->failed == 0)
			c->failed = fault(&c->err, c->tree->v[c->files[at]].path, -r);
		(void)pthread_mutex_unlock(&c->lock);
		atomic_store(&c->stop, true);
	}
}

static void content_tick(void *data)
{
	struct content *c = data;

	if (c->progress && c->progress->tell)
		c->progress->tell(c->progress->data, atomic_load(&c->files_done),
				  atomic_load(&c->bytes_done));
}

static int by_size(const void *left, const void *right, void *data)
{
	const struct tree *t = data;
	uint64_t a = t->v[*(const size_t *)left].size, b = t->v[*(const size_t *)right].size;

	return (a < b) - (a > b);
}

static bool is_wanted(const struct entry *e, enum tree_part part)
{
	return e->kind == 'f' && (part != TREE_SUSPECTS || e->suspect);
}

static void put_in_order(struct content *c, enum tree_part part)
{
	const struct tree *t = c->tree;

	c->files = xcalloc(t->n + 1, sizeof(*c->files));
	for (size_t i = 0; i < t->n; i++)
		if (is_wanted(&t->v[i], part) && t->v[i].size >= LARGE_SIZE)
			c->files[c->n++] = i;
	if (c->n > 1)
		qsort_r(c->files, c->n, sizeof(*c->files), by_size, c->tree);
	for (size_t i = 0; i < t->n; i++)
		if (is_wanted(&t->v[i], part) && t->v[i].size < LARGE_SIZE)
			c->files[c->n++] = i;
}

int tree_hash(struct tree *t, enum tree_part part, const struct fingerprint_progress *progress,
	      struct err *err)
{
	CLEANUP(content_release)
	struct content c = {
		.tree = t,
		.progress = progress,
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};

	if (part == TREE_ALL_MD5)
		t->md5 = xcalloc(t->n + 1, sizeof(*t->md5));
	put_in_order(&c, part);
	parallel_run(content_work, content_tick, &c);
	content_tick(&c);
	if (c.failed < 0 && err)
		*err = c.err;
	return c.failed;
}

/* The files of a runtime by lstat, all cpus at once: a queue of directories, each read whole by one thread. Directories are opened
 * by their path from the root without following any link, so that depth costs no descriptors and a path has at most PATH_MAX. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/path.h"
#include "runtime/fingerprint_parts.h"

#define LIST_SIZE   (64 * 1024)
#define ENTRIES_MAX 50000000

struct dirent64_head {
	uint64_t ino;
	int64_t off;
	unsigned short length;
	unsigned char type;
	char name[];
};

/* What one directory holds; sorted by name. */
struct chunk {
	const char *directory; /* borrowed from an arena */
	struct entry *v;       /* owned */
	size_t n, room;
};

struct walk {
	struct tree *tree;
	const struct fingerprint_progress *progress;
	dev_t dev;
	pthread_mutex_t lock; /* of all below but the counter */
	pthread_cond_t more;
	const char **queue; /* owned; directories that nobody has read yet */
	size_t n_queue, room_queue;
	struct chunk *chunks; /* owned */
	size_t n_chunks, room_chunks;
	size_t busy;
	size_t n_entries;
	struct arena arena;
	struct err err;
	int failed;
	atomic_uint_fast64_t seen;
};

static void walk_release(struct walk *w)
{
	for (size_t i = 0; i < w->n_chunks; i++)
		free(w->chunks[i].v);
	free(w->chunks);
	free(w->queue);
	arena_release(&w->arena);
	(void)pthread_mutex_destroy(&w->lock);
	(void)pthread_cond_destroy(&w->more);
}

static void chunk_release(struct chunk *c)
{
	cleanup_free(&c->v);
}

bool path_left_out(const char *path)
{
	if (str_ends(path, ".pyc"))
		return true;
	for (const char *at = strstr(path, "__pycache__"); at; at = strstr(at + 1, "__pycache__"))
		if ((at == path || at[-1] == '/') && (at[11] == '/' || at[11] == '\0'))
			return true;
	return false;
}

int entry_order(const struct entry *a, const struct entry *b)
{
	const char *left = strrchr(a->path, '/'), *right = strrchr(b->path, '/');
	size_t n_left = left ? (size_t)(left - a->path) : 0,
	       n_right = right ? (size_t)(right - b->path) : 0;
	int c = memcmp(a->path, b->path, n_left < n_right ? n_left : n_right);

	if (c == 0)
		c = (n_left > n_right) - (n_left < n_right);
	if (c == 0)
		c = strcmp(left ? left : a->path, right ? right : b->path);
	return c ? c : strcmp(a->path, b->path);
}

static int64_t timestamp(const struct timespec *t)
{
	return (int64_t)t->tv_sec * (int64_t)NS_PER_SEC + t->tv_nsec;
}

void entry_fill(struct entry *e, const struct stat *st)
{
	e->kind = (char)(S_ISREG(st->st_mode)   ? 'f'
			 : S_ISDIR(st->st_mode) ? 'd'
			 : S_ISLNK(st->st_mode) ? 'l'
						: 'o');
	e->mode = st->st_mode & 07777;
	if (e->kind == 'd')
		return; /* its size and times change when Python caches what it compiled */
	e->size = e->kind == 'o' ? (uint64_t)st->st_rdev : (uint64_t)st->st_size;
	e->mtime_ns = timestamp(&st->st_mtim);
	e->ctime_ns = timestamp(&st->st_ctim);
}

/* Names with what they mean go into err: a path is seen as text_escape writes it. */
static int entry_fault(struct err *err, int code, const char *act, const char *directory,
		       const char *name)
{
	CLEANUP_STR struct str shown = { 0 };

	text_escape(&shown, directory);
	if (*directory && *name)
		str_add(&shown, "/");
	text_escape(&shown, name);
	const char *path = shown.length ? shown.text : ".";
	if (code == ENOENT)
		return err_set(err, ERR_HOST, ENOENT, "'%s' vanished while it was looked at", path);
	return err_set(err, ERR_HOST, code, "%s '%s': %s", act, path, strerrordesc_np(code));
}

static int add_entry(struct walk *w, struct chunk *c, struct arena *arena, int dir_fd,
		     const char *name, struct err *err)
{
	struct stat st = { 0 };
	struct entry e = { 0 };
	char target[PATH_MAX];

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
		return entry_fault(err, errno, "look at", c->directory, name);
	entry_fill(&e, &st);
	if (e.kind == 'd' && st.st_dev != w->dev)
		e.kind = 'm';
	if (e.kind == 'l') {
		ssize_t n = readlinkat(dir_fd, name, target, sizeof(target));
		if (n < 0)
			return entry_fault(err, errno, "read link", c->directory, name);
		e.target = arena_bytes(arena, target, (size_t)n);
	}
	if (strlen(c->directory) + strlen(name) + 2 > PATH_MAX)
		return entry_fault(err, ENAMETOOLONG, "look at", c->directory, "...");
	e.path = arena_text(arena, c->directory, name);
	if (c->n == c->room) {
		c->room = c->room ? 2 * c->room : 16;
		c->v = xreallocarray(c->v, c->room, sizeof(*c->v));
	}
	c->v[c->n++] = e;
	return 0;
}

static bool skipped(const struct tree *t, const char *name)
{
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return true;
	return !t->is_whole && (strcmp(name, "__pycache__") == 0 || str_ends(name, ".pyc"));
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->path, ((const struct entry *)b)->path);
}

static int read_directory(struct walk *w, struct chunk *c, struct arena *arena, char *list,
			  struct err *err)
{
	CLEANUP_FD int fd = fs_open_resolve(w->tree->root_fd, *c->directory ? c->directory : ".",
					    O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
					    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
						    RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV);

	if (fd < 0)
		return entry_fault(err, -fd, "open", c->directory, "");
	for (;;) {
		long n = syscall(SYS_getdents64, fd, list, LIST_SIZE);
		if (n < 0)
			return entry_fault(err, errno, "list", c->directory, "");
		if (n == 0)
			break;
		for (long at = 0; at < n;) {
			const struct dirent64_head *d = (const void *)(list + at);
			const char *name = d->name;
			int r = skipped(w->tree, name) ? 0 : add_entry(w, c, arena, fd, name, err);
			if (r < 0)
				return r;
			at += d->length;
		}
	}
	atomic_fetch_add(&w->seen, c->n);
	if (c->n > 1)
		qsort(c->v, c->n, sizeof(*c->v), by_path);
	return 0;
}

static void queue_add(struct walk *w, const char *directory)
{
	if (w->n_queue == w->room_queue) {
		w->room_queue = w->room_queue ? 2 * w->room_queue : 256;
		w->queue = xreallocarray(w->queue, w->room_queue, sizeof(*w->queue));
	}
	w->queue[w->n_queue++] = directory;
}

/* With the lock held. */
static void keep_chunk(struct walk *w, struct chunk *c)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].kind == 'd' && !str_eq(w->tree->skip, c->v[i].path))
			queue_add(w, c->v[i].path);
	if (w->n_chunks == w->room_chunks) {
		w->room_chunks = w->room_chunks ? 2 * w->room_chunks : 256;
		w->chunks = xreallocarray(w->chunks, w->room_chunks, sizeof(*w->chunks));
	}
	w->n_entries += c->n;
	size_t max = w->tree->max ? w->tree->max : ENTRIES_MAX;
	if (w->n_entries > max && w->failed == 0)
		w->failed = err_set(&w->err, ERR_CALLER, E2BIG, "more than %zu files", max);
	w->chunks[w->n_chunks++] = *c;
	c->v = NULL;
}

/* With the lock held; NULL when there is nothing left to do. */
static const char *next_directory(struct walk *w)
{
	while (w->n_queue == 0 && w->busy > 0 && w->failed == 0)
		(void)pthread_cond_wait(&w->more, &w->lock);
	if (w->n_queue == 0 || w->failed < 0)
		return NULL;
	w->busy++;
	return w->queue[--w->n_queue];
}

static void walk_work(void *data)
{
	struct walk *w = data;
	CLEANUP(arena_release) struct arena arena = { 0 };
	CLEANUP_FREE char *list = xmalloc(LIST_SIZE);

	(void)pthread_mutex_lock(&w->lock);
	for (const char *directory = next_directory(w); directory; directory = next_directory(w)) {
		(void)pthread_mutex_unlock(&w->lock);
		CLEANUP(chunk_release) struct chunk c = { .directory = directory };
		struct err err = { 0 };
		int r = read_directory(w, &c, &arena, list, &err);
		(void)pthread_mutex_lock(&w->lock);
		if (r >= 0) {
			keep_chunk(w, &c);
		} else if (w->failed == 0) {
			w->failed = r;
			w->err = err;
		}
		w->busy--;
		(void)pthread_cond_broadcast(&w->more);
	}
	arena_join(&w->arena, &arena);
	(void)pthread_mutex_unlock(&w->lock);
}

static void walk_tick(void *data)
{
	struct walk *w = data;

	if (w->progress && w->progress->tell)
		w->progress->tell(w->progress->data, atomic_load(&w->seen), 0);
}

static int by_directory(const void *a, const void *b)
{
	return strcmp(((const struct chunk *)a)->directory, ((const struct chunk *)b)->directory);
}

static void gather(struct walk *w)
{
	struct tree *t = w->tree;

	if (w->n_chunks > 1)
		qsort(w->chunks, w->n_chunks, sizeof(*w->chunks), by_directory);
	t->v = xcalloc(w->n_entries + 1, sizeof(*t->v));
	for (size_t i = 0; i < w->n_chunks; i++) {
		if (w->chunks[i].n > 0)
			memcpy(t->v + t->n, w->chunks[i].v, w->chunks[i].n * sizeof(*t->v));
		t->n += w->chunks[i].n;
	}
	arena_join(&t->arena, &w->arena);
}

int tree_walk(struct tree *t, const struct fingerprint_progress *progress, struct err *err)
{
	struct stat st = { 0 };
	CLEANUP(walk_release)
	struct walk w = {
		.tree = t,
		.progress = progress,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.more = PTHREAD_COND_INITIALIZER,
	};

	if (fstat(t->root_fd, &st) < 0)
		return err_errno(err, "look at the runtime's directory");
	w.dev = st.st_dev;
	queue_add(&w, "");
	parallel_run(walk_work, walk_tick, &w);
	if (w.failed < 0) {
		if (err)
			*err = w.err;
		return w.failed;
	}
	gather(&w);
	return 0;
}

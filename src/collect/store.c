/* The store: link in what is new, verify and share what is not. */
#include "collect/store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/str.h"
#include "collect/many.h"
#include "collect/place.h"

#define STORE_PATH "store/sha256"
/* So many directories are synced one by one. */
#define SYNCED_MAX 32
#define SHARE_TEMP FS_TEMP_PREFIX "store-"
/* A keeper of another run may add, and a gc remove, what was just looked for. */
#define ATTEMPTS 8

struct storing {
	int root_fd;                /* owned; store/sha256 */
	int run_fd;                 /* borrowed */
	int outputs_fd;             /* owned */
	struct manifest *manifest;  /* borrowed; each thread its own files */
	struct store_report report; /* under `lock` */
	pthread_mutex_t lock;
	int result; /* under `lock`; the first failure of a sync */
};

static void storing_release(struct storing *s)
{
	cleanup_fd(&s->root_fd);
	cleanup_fd(&s->outputs_fd);
}

/* One file: where it is, and where it is to be. */
struct object {
	int dir_fd;         /* owned; its directory below outputs/ */
	const char *name;   /* borrowed from its path */
	int shelf_fd;       /* owned; the directory of the first two digits */
	const char *digits; /* borrowed; the rest of the digest */
	size_t number;
};

static void object_release(struct object *o)
{
	cleanup_fd(&o->dir_fd);
	cleanup_fd(&o->shelf_fd);
}

static int shelf_open(int root_fd, const char *sha256)
{
	const char name[] = { sha256[0], sha256[1], '\0' };
	if (mkdirat(root_fd, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	int fd = openat(root_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static bool is_whole(const struct object *o, const struct collected *file)
{
	char hex[HASH_HEX];
	struct stat st = { 0 };
	CLEANUP_FD int fd = openat(o->shelf_fd, o->digits, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       (uint64_t)st.st_size == file->size && hash_file(fd, hex) == 0 &&
	       str_eq(hex, file->sha256);
}

static bool same_file(const struct object *o)
{
	struct stat a = { 0 }, b = { 0 };
	return fstatat(o->dir_fd, o->name, &a, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstatat(o->shelf_fd, o->digits, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

/* The run's name for the store's file, in one step. */
static int share(const struct storing *s, const struct object *o)
{
	CLEANUP_FREE char *temp = xasprintf(SHARE_TEMP "%zu", o->number);
	if (linkat(o->shelf_fd, o->digits, s->run_fd, temp, 0) < 0)
		return -errno;
	FAULT_PHASE("store-linked");
	if (renameat(s->run_fd, temp, o->dir_fd, o->name) == 0)
		return 0;
	int r = -errno;
	(void)unlinkat(s->run_fd, temp, 0);
	return r;
}

enum put { PUT_ADDED, PUT_SHARED, PUT_DAMAGED };

/* An enum put, or negative errno: the copy stays as it is. */
static int put(const struct storing *s, const struct object *o, const struct collected *file)
{
	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		if (linkat(o->dir_fd, o->name, o->shelf_fd, o->digits, 0) == 0)
			return PUT_ADDED;
		if (errno != EEXIST)
			return -errno;
		if (same_file(o))
			return PUT_SHARED;
		int r = is_whole(o, file) ? share(s, o) : PUT_DAMAGED;
		if (r == 0)
			return PUT_SHARED;
		if (r != -ENOENT && r != PUT_DAMAGED)
			return r;
		if (r == PUT_DAMAGED &&
		    faccessat(o->shelf_fd, o->digits, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return r;
	}
	return -EAGAIN;
}

static void count(struct storing *s, struct collected *file, int how)
{
	(void)pthread_mutex_lock(&s->lock);
	file->stored = how == PUT_ADDED || how == PUT_SHARED;
	s->report.added += how == PUT_ADDED;
	s->report.shared += how == PUT_SHARED;
	s->report.shared_bytes += how == PUT_SHARED ? file->size : 0;
	s->report.copied += !file->stored;
	if (how == PUT_DAMAGED)
		memcpy(s->report.damaged, file->sha256, HASH_HEX);
	(void)pthread_mutex_unlock(&s->lock);
}

static void fail(struct storing *s, int code)
{
	(void)pthread_mutex_lock(&s->lock);
	if (s->result == 0)
		s->result = code;
	(void)pthread_mutex_unlock(&s->lock);
}

static void store_one(struct storing *s, size_t number)
{
	struct collected *file = &s->manifest->files[number];
	CLEANUP(object_release)
	struct object o = { .dir_fd = -1,
			    .shelf_fd = shelf_open(s->root_fd, file->sha256),
			    .digits = file->sha256 + 2,
			    .number = number };
	int how = o.shelf_fd;
	if (how >= 0)
		how = o.dir_fd = place_parent(s->outputs_fd, file->path, &o.name);
	if (how >= 0)
		how = put(s, &o, file);
	FAULT_PHASE("store-put");
	/* A name that may be lost is no matter in the store, but is in the run. */
	bool alone = s->manifest->n_files <= SYNCED_MAX;
	if (alone && how == PUT_ADDED && fsync(o.shelf_fd) < 0)
		fail(s, -errno);
	if (alone && how == PUT_SHARED && fsync(o.dir_fd) < 0)
		fail(s, -errno);
	count(s, file, how);
}

static void work(void *argument)
{
	struct many *m = argument;
	for (size_t i; (i = many_next(m)) < m->n;)
		store_one(m->data, i);
}

static int store_open(int home_fd)
{
	if ((mkdirat(home_fd, "store", 0700) < 0 && errno != EEXIST) ||
	    (mkdirat(home_fd, STORE_PATH, 0700) < 0 && errno != EEXIST))
		return -errno;
	return fs_open_beneath(home_fd, STORE_PATH, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
}

int outputs_store(int home_fd, int run_fd, struct manifest *m, struct store_report *ret,
		  struct err *err)
{
	CLEANUP(storing_release)
	struct storing s = {
		.root_fd = store_open(home_fd),
		.run_fd = run_fd,
		.outputs_fd =
			fs_open_beneath(run_fd, "outputs", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0),
		.manifest = m,
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
	struct many many = { .data = &s, .n = m->n_files };
	/* Without a store the copies are as good as they are. */
	if (s.root_fd < 0 || s.outputs_fd < 0) {
		*ret = (struct store_report){ .copied = m->n_files };
		return 0;
	}
	FAULT_PHASE("store-open");
	many_run(&many, m->n_files < SYNCED_MAX ? 1 : SIZE_MAX, work);
	if (m->n_files > SYNCED_MAX && syncfs(s.root_fd) < 0)
		s.result = -errno;
	if (s.result == 0 && s.report.added && fsync(s.root_fd) < 0)
		s.result = -errno;
	FAULT_PHASE("store-synced");
	if (s.result < 0)
		return err_set(err, ERR_HOST, -s.result, "sync the store: %s",
			       strerrordesc_np(-s.result));
	*ret = s.report;
	return 0;
}

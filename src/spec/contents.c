#include "spec/contents.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/str.h"
#include "spec/contents_cache.h"

#define YOUNG_NS (2 * (int64_t)NS_PER_SEC)

static const char *const kind_names[] = {
	[CONTENTS_UNSEEN] = "unseen",
	[CONTENTS_FILE] = "file",
	[CONTENTS_DIRECTORY] = "directory",
	[CONTENTS_OTHER] = "other",
};

enum look { LOOK_TUPLES, LOOK_ALL };

struct walk {
	struct contents_reader *reader;
	enum look look;
	struct hash *tuples; /* owned */
	struct hash *sums;   /* owned; of a directory */
	int64_t now_ns;
	struct contents seen;
	uint64_t entries;
	bool unknown; /* the content of something was not read */
};

static void walk_release(struct walk *w)
{
	hash_free(w->tuples);
	hash_free(w->sums);
}

void contents_begin(struct contents_reader *r, const char *home)
{
	*r = (struct contents_reader){ .cache_fd = home ? contents_cache_open(home) : -1,
				       .bytes_left = CONTENTS_READ_MAX,
				       .entries_max = CONTENTS_ENTRIES_MAX };
}

static void unbound(struct contents_reader *r)
{
	r->bytes_left = UINT64_MAX;
	r->entries_max = UINT64_MAX;
}

void contents_begin_all(struct contents_reader *r, const char *home)
{
	contents_begin(r, home);
	unbound(r);
}

void contents_end(struct contents_reader *r)
{
	cleanup_fd(&r->cache_fd);
}

static int64_t newest_ns(const struct stat *st)
{
	const struct timespec *t = &st->st_mtim, *c = &st->st_ctim;
	bool later = c->tv_sec > t->tv_sec || (c->tv_sec == t->tv_sec && c->tv_nsec > t->tv_nsec);
	t = later ? c : t;
	return (int64_t)t->tv_sec * (int64_t)NS_PER_SEC + t->tv_nsec;
}

static bool is_young(const struct stat *st, int64_t now_ns)
{
	return newest_ns(st) > now_ns - YOUNG_NS;
}

static bool same_tuple(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static void add_tuple(struct walk *w, const char *path, const struct stat *st)
{
	char text[160];
	int n = snprintf(text, sizeof text, "%o %llx %llu %lld %lld.%09ld %lld.%09ld",
			 (unsigned)st->st_mode, (unsigned long long)st->st_dev,
			 (unsigned long long)st->st_ino, (long long)st->st_size,
			 (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
			 (long long)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
	hash_add(w->tuples, path, strlen(path) + 1);
	hash_add(w->tuples, text, (size_t)n + 1);
	w->seen.is_young |= is_young(st, w->now_ns);
}

/* Reads it, unless it is known. `st` is of the name; what is opened must be the same. `now_ns` is before the reading. */
static bool file_digest(struct contents_reader *r, int dir_fd, const char *name,
			const struct stat *st, int64_t now_ns, char ret_hex[HASH_HEX])
{
	static const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	struct stat before, after;
	CLEANUP_FD int fd = r->opens_first ? openat(dir_fd, name, flags) : -1;
	if (r->opens_first && fd < 0)
		return false;
	if (contents_cache_get(r->cache_fd, st, ret_hex))
		return true;
	if ((uint64_t)st->st_size > r->bytes_left)
		return false;
	if (fd < 0)
		fd = openat(dir_fd, name, flags);
	if (fd < 0 || fstat(fd, &before) < 0 || !same_tuple(&before, st))
		return false;
	r->bytes_left -= (uint64_t)st->st_size;
	r->bytes_read += (uint64_t)st->st_size;
	if (hash_file(fd, ret_hex) < 0 || fstat(fd, &after) < 0 || !same_tuple(&before, &after))
		return false;
	if (!is_young(st, now_ns))
		contents_cache_put(r->cache_fd, st, ret_hex);
	return true;
}

/* In the tuples too: a directory or a device has none of its own that would tell more. */
static void see_name(struct walk *w, char kind, const char *path)
{
	hash_add(w->tuples, &kind, 1);
	hash_add(w->tuples, path, strlen(path) + 1);
	hash_add(w->sums, &kind, 1);
	hash_add(w->sums, path, strlen(path) + 1);
}

static void add_sum(struct walk *w, char kind, const char *path, const char *content)
{
	hash_add(w->sums, &kind, 1);
	hash_add(w->sums, path, strlen(path) + 1);
	hash_add(w->sums, content, strlen(content) + 1);
}

static void see_file(struct walk *w, int dir_fd, const char *name, const char *path,
		     const struct stat *st)
{
	char hex[HASH_HEX] = "";
	w->seen.files++;
	w->seen.bytes += (uint64_t)st->st_size;
	add_tuple(w, path, st);
	if (w->look == LOOK_TUPLES || w->unknown)
		return;
	w->unknown = !file_digest(w->reader, dir_fd, name, st, w->now_ns, hex);
	if (w->sums)
		add_sum(w, st->st_mode & 0111 ? 'x' : 'f', path, hex);
	else
		memcpy(w->seen.sha256, hex, sizeof hex);
}

static void see_link(struct walk *w, int dir_fd, const char *name, const char *path,
		     const struct stat *st)
{
	char target[PATH_MAX] = "";
	ssize_t n = readlinkat(dir_fd, name, target, sizeof target - 1);
	target[n < 0 ? 0 : n] = 0;
	add_tuple(w, path, st);
	add_sum(w, 'l', path, target);
}

/* -E2BIG above the cap. */
static int list_names(struct walk *w, int fd, struct strv *ret)
{
	CLEANUP_FD int owned = fd;
	CLEANUP_DIR DIR *dir = fdopendir(owned);
	if (!dir)
		return -errno;
	(void)take_fd(&owned);
	errno = 0;
	for (struct dirent *entry; (entry = readdir(dir)); errno = 0) {
		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
			continue;
		if (++w->entries > w->reader->entries_max)
			return -E2BIG;
		strv_add(ret, entry->d_name);
	}
	if (errno)
		return -errno;
	strv_sort(ret);
	return 0;
}

static int see_directory(struct walk *w, int dir_fd, const char *name, const char *path, int depth);

static int see_entry(struct walk *w, int dir_fd, const char *name, const char *path, int depth)
{
	struct stat st;
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode)) {
		see_name(w, 'd', path);
		return see_directory(w, dir_fd, name, path, depth + 1);
	}
	if (S_ISREG(st.st_mode))
		see_file(w, dir_fd, name, path, &st);
	else if (S_ISLNK(st.st_mode))
		see_link(w, dir_fd, name, path, &st);
	else
		see_name(w, 'o', path);
	return 0;
}

/* The tuple of a directory changes when an entry is added, removed or renamed, which is all that can be seen of this one. */
static int see_unreadable(struct walk *w, int dir_fd, const char *name, const char *path)
{
	struct stat st;
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
		return -errno;
	add_tuple(w, path, &st);
	w->unknown = true;
	return 0;
}

static int see_directory(struct walk *w, int dir_fd, const char *name, const char *path, int depth)
{
	CLEANUP_STRV struct strv names = { 0 };
	if (depth > CONTENTS_DEPTH_MAX)
		return -E2BIG;
	int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (depth ? O_NOFOLLOW : 0);
	CLEANUP_FD int fd = openat(dir_fd, name, flags);
	CLEANUP_FD int list_fd = fd < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (list_fd < 0)
		return errno == EACCES ? see_unreadable(w, dir_fd, name, path) : -errno;
	int r = list_names(w, take_fd(&list_fd), &names);
	for (size_t i = 0; r >= 0 && i < names.n; i++) {
		CLEANUP_FREE char *below = xasprintf("%s%s%s", path, *path ? "/" : "", names.v[i]);
		r = see_entry(w, fd, names.v[i], below, depth);
	}
	return r;
}

static void finish(struct walk *w, int r, struct contents *ret)
{
	w->seen.sha256[0] = w->sums || w->unknown ? 0 : w->seen.sha256[0];
	if (r >= 0)
		hash_end(w->tuples, w->seen.stat);
	if (r >= 0 && w->sums && !w->unknown && w->look == LOOK_ALL)
		hash_end(w->sums, w->seen.sha256);
	*ret = w->seen;
}

static void look_known(struct contents_reader *reader, const char *path, const struct stat *st,
		       enum look how, struct contents *ret)
{
	CLEANUP(walk_release)
	struct walk w = { .reader = reader,
			  .look = how,
			  .tuples = hash_new(),
			  .now_ns = (int64_t)clock_real_ns() };
	int r = 0;
	if (S_ISREG(st->st_mode)) {
		w.seen.kind = CONTENTS_FILE;
		see_file(&w, AT_FDCWD, path, "", st);
	} else if (S_ISDIR(st->st_mode)) {
		w.seen.kind = CONTENTS_DIRECTORY;
		w.sums = hash_new();
		r = see_directory(&w, AT_FDCWD, path, "", 0);
	} else {
		w.seen.kind = CONTENTS_OTHER;
		w.unknown = true;
		add_tuple(&w, "", st);
	}
	/* A directory that is too large or changing is one of which nothing is known, not an error. */
	finish(&w, r, ret);
}

static int look(struct contents_reader *reader, const char *path, enum look how,
		struct contents *ret)
{
	struct stat st;
	if (stat(path, &st) < 0)
		return -errno;
	look_known(reader, path, &st, how, ret);
	return 0;
}

int contents_read(struct contents_reader *r, const char *path, struct contents *ret,
		  struct err *err)
{
	int e = look(r, path, LOOK_ALL, ret);
	return e < 0 ? err_set(err, ERR_HOST, -e, "read %s: %s", path, strerrordesc_np(-e)) : 0;
}

void contents_read_known(struct contents_reader *r, const char *path, const struct stat *st,
			 struct contents *ret)
{
	look_known(r, path, st, LOOK_ALL, ret);
}

int contents_file(struct contents_reader *r, int dir_fd, const char *name, struct stat *ret_st,
		  char ret_hex[HASH_HEX])
{
	int64_t now_ns = (int64_t)clock_real_ns();
	struct stat st = { 0 };
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (!file_digest(r, dir_fd, name, &st, now_ns, ret_hex))
		return -EBUSY;
	*ret_st = st;
	return 0;
}

/* What was read once may be read again, whatever the bounds of this reader. */
static bool holds(struct contents_reader *r, const char *path, const struct contents *then)
{
	struct contents now = { 0 };
	if (look(r, path, LOOK_TUPLES, &now) < 0 || now.kind != then->kind)
		return false;
	if (!then->stat[0] && !then->sha256[0]) /* too large: nothing is known that could differ */
		return true;
	if (then->stat[0] && str_eq(now.stat, then->stat) && !then->is_young)
		return true;
	if (!then->sha256[0]) /* tuples are all there is to go by */
		return str_eq(now.stat, then->stat);
	return look(r, path, LOOK_ALL, &now) >= 0 && str_eq(now.sha256, then->sha256);
}

bool contents_holds(struct contents_reader *r, const char *path, const struct contents *then)
{
	struct contents_reader again = *r;
	if (then->stat[0] || then->sha256[0])
		unbound(&again);
	return holds(&again, path, then);
}

static json_t *hex_json(const char *hex)
{
	return hex[0] ? json_string(hex) : json_null();
}

void contents_to_json(const struct contents *c, json_t *object)
{
	if (c->kind == CONTENTS_UNSEEN)
		return;
	json_object_set_new(object, "kind", json_string(kind_names[c->kind]));
	json_object_set_new(object, "files", json_u64(c->files));
	json_object_set_new(object, "bytes", json_u64(c->bytes));
	json_object_set_new(object, "sha256", hex_json(c->sha256));
	json_object_set_new(object, "stat", hex_json(c->stat));
}

static bool take_hex(const json_t *value, char ret[HASH_HEX])
{
	const char *hex = json_string_value(value);
	if (!value || json_is_null(value))
		return true;
	if (!hex || strlen(hex) != HASH_HEX - 1 || strspn(hex, "0123456789abcdef") != HASH_HEX - 1)
		return false;
	memcpy(ret, hex, HASH_HEX);
	return true;
}

int contents_from_json(const json_t *object, struct contents *ret)
{
	struct contents c = {
		.files = (uint64_t)json_integer_value(json_object_get(object, "files")),
		.bytes = (uint64_t)json_integer_value(json_object_get(object, "bytes"))
	};
	const char *kind = json_string_value(json_object_get(object, "kind"));
	for (int i = CONTENTS_UNSEEN; kind && i <= CONTENTS_OTHER; i++)
		if (str_eq(kind, kind_names[i]))
			c.kind = i;
	if ((kind && !c.kind) || !take_hex(json_object_get(object, "sha256"), c.sha256) ||
	    !take_hex(json_object_get(object, "stat"), c.stat))
		return -EINVAL;
	*ret = c;
	return 0;
}

/* How identity looks at files: by descriptor, capped, and each look goes into the key of the cache. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "runtime/fingerprint_parts.h"

#define FILE_MAX  (64 << 20)
#define NAMES_MAX 100000

void probe_release(struct probe *p)
{
	cleanup_fd(&p->root_fd);
}

static int open_in(const struct probe *p, const char *path, uint64_t flags)
{
	return fs_open_resolve(p->root_fd, path, flags, 0, p->resolve | RESOLVE_NO_MAGICLINKS);
}

int probe_open(const struct probe *p, const char *path)
{
	struct stat st = { 0 };

	/* O_NONBLOCK so that a FIFO does not hold us. */
	CLEANUP_FD int fd = open_in(p, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? take_fd(&fd) : -EINVAL;
}

/* A link that leads in a circle leads to nothing. */
static bool absent(int code)
{
	return code == ENOENT || code == ENOTDIR || code == ELOOP;
}

/* In a prefix one call is enough, for only a tuple is read; in another root an absolute link must not lead to the host's file. */
static int stat_in(const struct probe *p, const char *path, struct stat *ret)
{
	if (p->resolve != RESOLVE_IN_ROOT || p->is_host)
		return fstatat(p->root_fd, path, ret, AT_NO_AUTOMOUNT) < 0 ? -errno : 0;
	CLEANUP_FD int fd = open_in(p, path, O_PATH);
	if (fd < 0)
		return fd;
	return fstat(fd, ret) < 0 ? -errno : 0;
}

static int64_t timestamp(const struct timespec *t)
{
	return (int64_t)t->tv_sec * (int64_t)NS_PER_SEC + t->tv_nsec;
}

int probe_tuple(struct probe *p, const char *path, char ret[TUPLE_TEXT], struct err *err)
{
	struct stat st = { 0 };
	int r = stat_in(p, path, &st);

	ret[0] = '\0';
	if (r < 0 && !absent(-r))
		return err_set(err, ERR_HOST, -r, "look at '%s': %s", path, strerrordesc_np(-r));
	if (r == 0) {
		int64_t ctime_ns = timestamp(&st.st_ctim);
		(void)snprintf(ret, TUPLE_TEXT, "%o %lld %lld %lld", st.st_mode,
			       (long long)st.st_size, (long long)timestamp(&st.st_mtim),
			       (long long)ctime_ns);
		if (ctime_ns > p->newest_ctime_ns)
			p->newest_ctime_ns = ctime_ns;
	}
	hash_add(p->key, path, strlen(path) + 1);
	hash_add(p->key, ret, strlen(ret) + 1);
	return 0;
}

int probe_program(struct probe *p, const char *path, char ret[TUPLE_TEXT], struct err *err)
{
	int r = probe_tuple(p, path, ret, err);
	char *last = strrchr(ret, ' ');

	if (last)
		*last = '\0';
	return r;
}

/* A link that leads outside is not followed: what it says is its content. */
static int digest_link(const struct probe *p, const char *path, char ret_hex[HASH_HEX])
{
	char target[4096];
	ssize_t n = readlinkat(p->root_fd, path, target, sizeof(target));

	if (n < 0)
		return -EXDEV;
	hash_bytes(target, (size_t)n, ret_hex);
	return 0;
}

static int digest_file(const struct probe *p, const char *path, char ret_hex[HASH_HEX])
{
	struct stat st = { 0 };

	CLEANUP_FD int fd = probe_open(p, path);
	if (fd == -EXDEV)
		return digest_link(p, path, ret_hex);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	return st.st_size > FILE_MAX ? -EFBIG : hash_file(fd, ret_hex);
}

int probe_digest(struct probe *p, const char *path, char ret_hex[HASH_HEX], struct err *err)
{
	char tuple[TUPLE_TEXT];

	ret_hex[0] = '\0';
	int r = probe_tuple(p, path, tuple, err);
	if (r < 0 || !tuple[0])
		return r;
	if (!p->items) {
		memcpy(ret_hex, "?", 2);
		return 0;
	}
	r = digest_file(p, path, ret_hex);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "read '%s': %s", path, strerrordesc_np(-r));
	return 0;
}

int probe_file(struct probe *p, const char *path, struct err *err)
{
	char hex[HASH_HEX];
	int r = probe_digest(p, path, hex, err);

	if (r == 0 && hex[0] && p->items)
		items_add(p->items, "file", path, "", "", hex);
	return r;
}

static int list_names(DIR *dir, struct strv *ret)
{
	for (;;) {
		errno = 0;
		const struct dirent *entry = readdir(dir);
		if (!entry)
			return -errno;
		if (ret->n == NAMES_MAX)
			return -E2BIG;
		if (entry->d_name[0] != '.')
			strv_add(ret, entry->d_name);
	}
}

int probe_list(struct probe *p, const char *path, struct strv *ret, struct err *err)
{
	CLEANUP_FD int fd = open_in(p, path, O_RDONLY | O_DIRECTORY);

	hash_add(p->key, path, strlen(path) + 1);
	if (fd < 0 && absent(-fd))
		return 0;
	CLEANUP_DIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int r = fd < 0 ? fd : -errno;
	if (dir) {
		(void)take_fd(&fd);
		r = list_names(dir, ret);
	}
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "list '%s': %s", path, strerrordesc_np(-r));
	strv_sort(ret);
	return 0;
}

/* From the record to wherever they are wanted. */
#include "collect/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/str.h"
#include "collect/copy.h"
#include "collect/outputs.h"
#include "collect/place.h"

int fetch_manifest(int run_fd, json_t **ret, struct err *err)
{
	int r = json_read_file(run_fd, "outputs.json", MANIFEST_MAX, ret, err);
	if (r == -ENOENT)
		return err_set(err, ERR_CALLER, ENOENT,
			       "nothing was collected: the run has no outputs.json");
	/* A lost run's are set aside after they were listed. */
	if (r >= 0 && faccessat(run_fd, "outputs", F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
	    faccessat(run_fd, "partial", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		json_object_set_new(*ret, "partial", json_true());
	return r;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

char *fetch_bytes(const json_t *object, const char *name)
{
	CLEANUP_FREE char *exact = xasprintf("%s_hex", name);
	const char *hex = json_string_value(json_object_get(object, exact));
	const char *text = json_string_value(json_object_get(object, name));
	if (!hex)
		return text && text[0] ? xstrdup(text) : NULL;
	size_t n = strlen(hex) / 2;
	CLEANUP_FREE char *bytes = xcalloc(n + 1, 1);
	for (size_t i = 0; i < n; i++) {
		int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
		if (high < 0 || low < 0 || high + low == 0)
			return NULL;
		bytes[i] = (char)(high << 4 | low);
	}
	return take_ptr(bytes);
}

char *fetch_path(const json_t *file)
{
	return fetch_bytes(file, "path");
}

static int source_open(const struct fetch *f, const char *path, struct err *err)
{
	bool partial = json_is_true(json_object_get(f->manifest, "partial"));
	CLEANUP_FREE char *place = xasprintf("%s/%s", partial ? "partial" : "outputs", path);
	int fd = fs_open_beneath(f->run_fd, place, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
	if (fd < 0)
		return err_set(err, ERR_HOST, -fd, "open output '%.200s': %s", path,
			       strerrordesc_np(-fd));
	return fd;
}

static int compare(const json_t *file, const char *path, const char *hex, struct err *err)
{
	const char *expected = json_string_value(json_object_get(file, "sha256"));
	if (expected && str_eq(expected, hex))
		return 0;
	return err_set(err, ERR_HOST, EBADMSG,
		       "output '%.200s' is not what was collected: its sha256 is %s", path, hex);
}

int fetch_print(const struct fetch *f, const json_t *file, struct terminal_out *to, struct err *err)
{
	CLEANUP_FREE char *path = fetch_path(file);
	CLEANUP_FD int fd = path ? source_open(f, path, err)
				 : err_set(err, ERR_HOST, EBADMSG, "outputs.json is damaged");
	CLEANUP_FREE char *buffer = xmalloc(COPY_BUFFER_SIZE);
	CLEANUP_HASH struct hash *hash = hash_new();
	char hex[HASH_HEX];
	if (fd < 0)
		return fd;
	for (ssize_t n; (n = read(fd, buffer, COPY_BUFFER_SIZE)) != 0;) {
		if (n < 0)
			return err_errno(err, "read output '%.200s'", path);
		hash_add(hash, buffer, (size_t)n);
		if (terminal_out_write(to, buffer, (size_t)n) < 0)
			return err_errno(err, "write the output");
	}
	if (terminal_out_end(to) < 0)
		return err_errno(err, "write the output");
	hash_end(hash, hex);
	return compare(file, path, hex, err);
}

/* The directory of `path` below dest_fd, made as far as it is not there. */
static int make_parent(int dest_fd, const char *path, const char **ret_last, struct err *err)
{
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		CLEANUP_FREE char *part = xstrndup(path, (size_t)(slash - path));
		const char *last = NULL;
		CLEANUP_FD int fd = place_parent(dest_fd, part, &last);
		if (fd < 0)
			errno = -fd;
		if (fd < 0 || (mkdirat(fd, last, 0755) < 0 && errno != EEXIST))
			return err_errno(err, "make directory '%.200s'", part);
	}
	int fd = place_parent(dest_fd, path, ret_last);
	return fd < 0 ? err_set(err, ERR_HOST, -fd, "open the directory of '%.200s': %s", path,
				strerrordesc_np(-fd))
		      : fd;
}

static int copy_whole(const struct fetch *f, const json_t *file, const char *path, int to_fd,
		      struct err *err)
{
	CLEANUP_FD int fd = source_open(f, path, err);
	CLEANUP_FREE char *buffer = xmalloc(COPY_BUFFER_SIZE);
	CLEANUP_HASH struct hash *hash = hash_new();
	struct stat st = { 0 };
	const char *reason = NULL;
	char hex[HASH_HEX];
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return err_errno(err, "look at output '%.200s'", path);
	struct copy copy = { fd, to_fd, &st, buffer };
	int r = copy_hashed(&copy, hash, &reason);
	if (r < 0 || reason)
		return err_set(err, ERR_HOST, r < 0 ? -r : EIO, "copy output '%.200s': %s", path,
			       r < 0 ? strerrordesc_np(-r) : reason);
	hash_end(hash, hex);
	r = compare(file, path, hex, err);
	if (r >= 0 && fsync(to_fd) < 0)
		r = err_errno(err, "sync the copy of '%.200s'", path);
	return r;
}

int fetch_copy(const struct fetch *f, const json_t *file, int dest_fd, struct err *err)
{
	const char *last = NULL;
	uint64_t random = 0;
	char temp[sizeof FS_TEMP_PREFIX + 16];
	CLEANUP_FREE char *path = fetch_path(file);
	if (!path)
		return err_set(err, ERR_HOST, EBADMSG, "outputs.json is damaged");
	CLEANUP_FD int dir_fd = make_parent(dest_fd, path, &last, err);
	if (dir_fd < 0)
		return dir_fd;
	(void)!getrandom(&random, sizeof random, 0);
	(void)snprintf(temp, sizeof temp, FS_TEMP_PREFIX "%016llx", (unsigned long long)random);
	CLEANUP_FD int to_fd =
		openat(dir_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (to_fd < 0)
		return err_errno(err, "create a file beside '%.200s'", path);
	int r = copy_whole(f, file, path, to_fd, err);
	if (r >= 0 && renameat2(dir_fd, temp, dir_fd, last, RENAME_NOREPLACE) < 0)
		r = err_set(err, errno == EEXIST ? ERR_CALLER : ERR_HOST, errno,
			    "name the copy '%.200s': %s", path, strerrordesc_np(errno));
	if (r < 0)
		(void)unlinkat(dir_fd, temp, 0);
	return r;
}

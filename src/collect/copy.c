/* Copying by descriptor: never past the size seen first, so that a growing file cannot hold the reader. */
#include "collect/copy.h"

#include <errno.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/str.h"
#include "collect/beside.h"

static const char *const unreadable = "unreadable";
static const char *const changed = "changed while it was read";

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static const char *check_unchanged(const struct copy *c)
{
	struct stat after;
	if (fstat(c->from_fd, &after) < 0)
		return unreadable;
	bool same = after.st_size == c->before->st_size &&
		    same_time(after.st_mtim, c->before->st_mtim) &&
		    same_time(after.st_ctim, c->before->st_ctim);
	return same ? NULL : changed;
}

static ssize_t read_at(const struct copy *c, uint64_t offset, uint64_t wanted)
{
	size_t room = wanted < COPY_BUFFER_SIZE ? (size_t)wanted : COPY_BUFFER_SIZE;
	ssize_t n;
	do
		n = pread(c->from_fd, c->buffer, room, (off_t)offset);
	while (n < 0 && errno == EINTR);
	return n;
}

static bool is_zero(const char *bytes, size_t length)
{
	return length == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0);
}

/* Zeros become a hole: an output costs no more here than it cost there. */
static int write_or_skip(const struct copy *c, size_t length)
{
	if (!is_zero(c->buffer, length))
		return fs_write_all(c->to_fd, c->buffer, length);
	return lseek(c->to_fd, (off_t)length, SEEK_CUR) < 0 ? -errno : 0;
}

static int copy_small(const struct copy *c, struct hash *hash, const char **ret_reason)
{
	uint64_t size = (uint64_t)c->before->st_size;
	for (uint64_t done = 0; done < size;) {
		ssize_t n = read_at(c, done, size - done);
		if (n <= 0) {
			*ret_reason = n < 0 ? unreadable : changed;
			return 0;
		}
		hash_add(hash, c->buffer, (size_t)n);
		int r = write_or_skip(c, (size_t)n);
		if (r < 0)
			return r;
		done += (uint64_t)n;
	}
	return 0;
}

/* The hash beside the copying; `shares` if the file system gave the blocks already. */
static int copy_large(const struct copy *c, bool shares, struct hash *hash, const char **ret_reason)
{
	uint64_t size = (uint64_t)c->before->st_size;
	CLEANUP_FREE char *second = xmalloc(COPY_BUFFER_SIZE);
	struct copy turns[2] = { *c, *c };
	turns[1].buffer = second;
	CLEANUP(beside_end) struct beside beside;
	beside_start(&beside, hash);
	int turn = 0;
	for (uint64_t done = 0; done < size; turn ^= 1) {
		ssize_t n = read_at(&turns[turn], done, size - done);
		if (n <= 0) {
			*ret_reason = n < 0 ? unreadable : changed;
			return 0;
		}
		beside_add(&beside, turns[turn].buffer, (size_t)n);
		int r = shares ? 0 : write_or_skip(&turns[turn], (size_t)n);
		if (r < 0)
			return r;
		done += (uint64_t)n;
	}
	return 0;
}

int copy_hashed(const struct copy *c, struct hash *hash, const char **ret_reason)
{
	*ret_reason = NULL;
	bool is_large = c->before->st_size >= COPY_LARGE;
	bool shares = is_large && ioctl(c->to_fd, FICLONE, c->from_fd) == 0;
	int r = is_large ? copy_large(c, shares, hash, ret_reason)
			 : copy_small(c, hash, ret_reason);
	if (r < 0 || *ret_reason)
		return r;
	if (ftruncate(c->to_fd, c->before->st_size) < 0)
		return -errno;
	*ret_reason = check_unchanged(c);
	return 0;
}

static int copy_range(const struct copy *c, uint64_t start, uint64_t end, const char **ret_reason)
{
	if (lseek(c->to_fd, (off_t)start, SEEK_SET) < 0)
		return -errno;
	for (uint64_t at = start; at < end;) {
		ssize_t n = read_at(c, at, end - at);
		if (n <= 0) {
			*ret_reason = n < 0 ? unreadable : changed;
			return 0;
		}
		int r = fs_write_all(c->to_fd, c->buffer, (size_t)n);
		if (r < 0)
			return r;
		at += (uint64_t)n;
	}
	return 0;
}

int copy_sparse(const struct copy *c, const char **ret_reason)
{
	off_t size = c->before->st_size;
	*ret_reason = NULL;
	if (ftruncate(c->to_fd, size) < 0)
		return -errno;
	for (off_t at = 0; at < size;) {
		off_t start = lseek(c->from_fd, at, SEEK_DATA);
		if (start < 0 && errno == ENXIO) /* only a hole is left */
			break;
		off_t end = start < 0 ? -1 : lseek(c->from_fd, start, SEEK_HOLE);
		if (start < 0 || end < 0) {
			*ret_reason = unreadable;
			return 0;
		}
		if (end > size)
			end = size;
		if (start >= end)
			break;
		int r = copy_range(c, (uint64_t)start, (uint64_t)end, ret_reason);
		if (r < 0 || *ret_reason)
			return r;
		at = end;
	}
	*ret_reason = check_unchanged(c);
	return 0;
}

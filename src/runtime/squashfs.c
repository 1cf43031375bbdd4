/* Mounting needs root, and hands the file to a driver of the kernel: so only a file that nobody but root can have written. */
#include "runtime/squashfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/loop.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/str.h"

#define MAGIC         "hsqs"
#define DIGEST_PREFIX "sha256-"
#define UNPACKER      "/usr/bin/unsquashfs"

static int open_file(const char *path, struct stat *ret_st, struct err *err)
{
	CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, ret_st) < 0)
		return err_errno(err, "open %s", path);
	char magic[sizeof MAGIC - 1];
	if (!S_ISREG(ret_st->st_mode) || pread(fd, magic, sizeof magic, 0) != sizeof magic ||
	    memcmp(magic, MAGIC, sizeof magic) != 0)
		return err_set(err, ERR_HOST, EINVAL, "%s is not a squashfs file", path);
	return take_fd(&fd);
}

static int mount_device(const char *device, const char *path, struct err *err)
{
	unsigned attributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
	CLEANUP_FD int fs_fd = fsopen("squashfs", FSOPEN_CLOEXEC);
	if (fs_fd < 0)
		return err_errno(err, "the kernel has no squashfs");
	if (fsconfig(fs_fd, FSCONFIG_SET_STRING, "source", device, 0) < 0 ||
	    fsconfig(fs_fd, FSCONFIG_SET_FLAG, "ro", NULL, 0) < 0 ||
	    fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_errno(err, "mount the squashfs file %s", path);
	int fd = fsmount(fs_fd, FSMOUNT_CLOEXEC, attributes);
	return fd < 0 ? err_errno(err, "mount the squashfs file %s", path) : fd;
}

int squashfs_mount(const char *path, const char *home, struct err *err)
{
	struct stat st = { 0 };
	char device[LOOP_DEVICE_ROOM], tag[HASH_TAG], name[32];
	CLEANUP_FD int file_fd = open_file(path, &st, err);
	if (file_fd < 0)
		return file_fd;
	/* Whoever serves a FUSE file system says of its files what he likes. */
	struct statfs fs = { 0 };
	if (fstatfs(file_fd, &fs) < 0)
		return err_errno(err, "look at the file system of %s", path);
	if (st.st_uid != 0 || (st.st_mode & 022) || fs.f_type == FUSE_SUPER_MAGIC)
		return err_set(
			err, ERR_HOST, EPERM,
			"%s could have been written by others than root, and the kernel would read it as root. Remedy: look "
			"where it is from, then chown root:root and chmod go-w",
			path);
	hash_tag(home, tag);
	(void)snprintf(name, sizeof name, "cupel-runtime-%s", tag);
	struct loop_request request = { .file_fd = file_fd, .name = name, .read_only = true };
	CLEANUP_FD int loop_fd = loop_attach(&request, device, err);
	return loop_fd < 0 ? loop_fd : mount_device(device, path, err);
}

static int run_unpacker(const char *path, const char *directory, struct err *err)
{
	char said[300];
	int fds[2];
	/* Neither attributes nor the nodes that an ordinary user can't make are of use in a box. */
	char *const argv[] = { (char *)"unsquashfs",
			       (char *)"-no-progress",
			       (char *)"-quiet",
			       (char *)"-no-xattrs",
			       (char *)"-no-exit-code",
			       (char *)"-dest",
			       (char *)directory,
			       (char *)path,
			       NULL };
	if (access(UNPACKER, X_OK) < 0)
		return err_set(
			err, ERR_HOST, ENOENT,
			"%s must be unpacked for an ordinary user, and unsquashfs is not installed. Remedy: apt-get install "
			"squashfs-tools",
			path);
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_errno(err, "pipe");
	CLEANUP_FD int read_fd = fds[0];
	CLEANUP_FD int write_fd = fds[1];
	int status = proc_run(UNPACKER, argv, write_fd);
	if (status < 0)
		return err_set(err, ERR_HOST, -status, "run unsquashfs: %s",
			       strerrordesc_np(-status));
	ssize_t n = read(read_fd, said, sizeof said - 1);
	said[n > 0 ? n : 0] = 0;
	return status == 0
		       ? 0
		       : err_set(err, ERR_HOST, EIO, "unsquashfs can't unpack %s: %s", path, said);
}

/* Whoever holds the lock is alone here: what is unfinished was left by a crash. */
static int remove_unfinished(int cache_fd, struct err *err)
{
	CLEANUP_STRV struct strv names = { 0 };
	CLEANUP_DIR DIR *dir = fdopendir(openat(cache_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	if (!dir)
		return err_errno(err, "read the cache of squashfs files");
	for (struct dirent *entry; (entry = readdir(dir));)
		if (str_starts(entry->d_name, FS_TEMP_PREFIX))
			strv_add(&names, entry->d_name);
	int r = 0;
	for (size_t i = 0; r >= 0 && i < names.n; i++)
		r = fs_remove_tree(cache_fd, names.v[i], NULL, err);
	return r;
}

/* A file that was not touched has the digest that it had: one small file in the cache says so, by what stat tells of it. */
static void stat_key(const char *path, const struct stat *st, char ret[HASH_HEX + 8])
{
	char hex[HASH_HEX];
	CLEANUP_FREE char *text = xasprintf("%s %llu %llu %lld %lld.%09ld %lld.%09ld", path,
					    (unsigned long long)st->st_dev,
					    (unsigned long long)st->st_ino, (long long)st->st_size,
					    (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
					    (long long)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
	hash_bytes(text, strlen(text), hex);
	(void)snprintf(ret, HASH_HEX + 8, "stat-%s", hex);
}

/* The unpacker opened it by its name, after it was read for its digest: a tree must not be kept under the digest of another file. */
static int check_same(const char *path, const struct stat *before, struct err *err)
{
	struct stat st = { 0 };
	char now[HASH_HEX + 8], then[HASH_HEX + 8];
	if (stat(path, &st) < 0)
		return err_errno(err, "look at %s", path);
	stat_key(path, &st, now);
	stat_key(path, before, then);
	return str_eq(now, then) ? 0
				 : err_set(err, ERR_HOST, EAGAIN,
					   "%s changed while it was unpacked; try again", path);
}

/* Under the lock: the tree of this digest, whole or not at all. */
static int unpack(int cache_fd, const char *cache, const char *path, const struct stat *file_st,
		  const char *name, struct err *err)
{
	CLEANUP_FREE char *unfinished = path_join(cache, FS_TEMP_PREFIX "tree");
	int r = remove_unfinished(cache_fd, err);
	if (r < 0 || faccessat(cache_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return r;
	r = run_unpacker(path, unfinished, err);
	if (r >= 0)
		r = check_same(path, file_st, err);
	if (r < 0) {
		(void)remove_unfinished(cache_fd, NULL);
		return r;
	}
	CLEANUP_FD int fd = open(unfinished, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || syncfs(fd) < 0 ||
	    renameat(cache_fd, FS_TEMP_PREFIX "tree", cache_fd, name) < 0)
		return err_errno(err, "put the tree of %s in its place", path);
	return 0;
}

static int unpack_locked(int cache_fd, const char *cache, const char *path, int file_fd,
			 const struct stat *file_st, char ret_name[80], struct err *err)
{
	char hex[HASH_HEX];
	CLEANUP_FD int lock_fd =
		openat(cache_fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (lock_fd < 0 || flock(lock_fd, LOCK_EX) < 0)
		return err_errno(err, "lock %s", cache);
	int r = hash_file(file_fd, hex);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "read %s: %s", path, strerrordesc_np(-r));
	(void)snprintf(ret_name, 80, DIGEST_PREFIX "%s", hex);
	return unpack(cache_fd, cache, path, file_st, ret_name, err);
}

int squashfs_unpacked(const char *path, const char *home, char **ret_root, struct err *err)
{
	struct stat st = { 0 };
	char key[HASH_HEX + 8], name[80] = "";
	CLEANUP_FREE char *cache = path_join(home, "cache/squashfs");
	CLEANUP_FD int file_fd = open_file(path, &st, err);
	int r = file_fd < 0 ? file_fd : fs_make_dirs(cache, 0700, err);
	if (r < 0)
		return r;
	CLEANUP_FD int cache_fd = open(cache, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (cache_fd < 0)
		return err_errno(err, "open %s", cache);
	stat_key(path, &st, key);
	bool known = fs_read_small(cache_fd, key, name, sizeof name) > 0 &&
		     str_starts(name, DIGEST_PREFIX) && path_name_ok(name) &&
		     faccessat(cache_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	if (!known) {
		r = unpack_locked(cache_fd, cache, path, file_fd, &st, name, err);
		if (r >= 0)
			r = fs_write_atomic(cache_fd, key, name, strlen(name), 0600, err);
	}
	if (r >= 0)
		*ret_root = path_join(cache, name);
	return r;
}

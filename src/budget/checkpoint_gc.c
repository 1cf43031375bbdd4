/* Checkpoints that nobody needs any more: found, looked at, removed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "budget/checkpoint_parts.h"

static bool is_key(const char *name)
{
	return strlen(name) == HASH_HEX - 1 && strspn(name, "0123456789abcdef") == HASH_HEX - 1;
}

static int failed(const char *name, int error, struct err *err)
{
	return err_set(err, ERR_HOST, error, "remove the checkpoint %s: %s", name,
		       strerrordesc_np(error));
}

/* A name that nobody has: that of an earlier removal may still be there. */
static int rename_old(int all_fd, const char *key, char *ret, size_t room)
{
	uint64_t chance = 0;
	if (getrandom(&chance, sizeof chance, 0) < 0)
		return -errno;
	(void)snprintf(ret, room, CHECKPOINT_OLD "%.16s-%016" PRIx64, key, chance);
	return renameat(all_fd, key, all_fd, ret) < 0 ? -errno : 0;
}

int checkpoint_discard(int all_fd, const char *key, struct err *err)
{
	char old[64];
	CLEANUP_FD int gate_fd = checkpoint_gate(all_fd);
	int r = gate_fd < 0 ? gate_fd : rename_old(all_fd, key, old, sizeof old);
	cleanup_fd(&gate_fd);
	FAULT_PHASE("checkpoint-renamed");
	if (r == -ENOENT)
		return 0;
	return r < 0 ? failed(key, -r, err) : fs_remove_tree(all_fd, old, NULL, err);
}

int checkpoint_list(const char *home, struct strv *ret, struct err *err)
{
	CLEANUP_FD int fd = checkpoint_open_all(home, 0);
	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return err_set(err, ERR_HOST, -fd, "open %s/" CHECKPOINTS_DIR ": %s", home,
			       strerrordesc_np(-fd));
	CLEANUP_DIR DIR *dir = fdopendir(fd);
	if (!dir)
		return err_errno(err, "read %s/" CHECKPOINTS_DIR, home);
	(void)take_fd(&fd); /* the stream's now */
	for (const struct dirent *d; (d = readdir(dir));)
		if (is_key(d->d_name) || str_starts(d->d_name, CHECKPOINT_OLD))
			strv_add(ret, d->d_name);
	strv_sort(ret);
	return 0;
}

static void note_time(struct checkpoint_old *o, const struct stat *st)
{
	uint64_t ns = (uint64_t)st->st_mtim.tv_sec * NS_PER_SEC + (uint64_t)st->st_mtim.tv_nsec;
	o->used_ns = ns > o->used_ns ? ns : o->used_ns;
}

/* Locked or not, asked without taking the lock. */
static bool is_locked(int dir_fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	CLEANUP_FD int fd = fs_open_beneath(dir_fd, CHECKPOINT_LOCK, O_RDWR | O_CLOEXEC, 0);
	return fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

int checkpoint_look(const char *home, const char *name, struct checkpoint_old *ret)
{
	struct checkpoint_old o = { .is_none = true };
	struct stat st = { 0 };
	uint64_t inodes = 0;
	CLEANUP_FD int all_fd = checkpoint_open_all(home, 0);
	CLEANUP_FD int fd = all_fd < 0 ? all_fd
				       : fs_open_beneath(all_fd, name, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fd;
	o.locked = is_locked(fd);
	checkpoint_holder(fd, o.last);
	if (fstatat(fd, CHECKPOINT_LOCK, &st, AT_SYMLINK_NOFOLLOW) == 0)
		note_time(&o, &st);
	(void)fs_tree_usage(fd, 0, 0, &o.bytes, &inodes);
	static const char *const contents[] = { CHECKPOINT_DISK, CHECKPOINT_FILES };
	for (size_t i = 0; i < 2; i++)
		if (fstatat(fd, contents[i], &st, AT_SYMLINK_NOFOLLOW) == 0) {
			o.is_none = !is_key(name);
			note_time(&o, &st);
		}
	*ret = o;
	return 0;
}

int checkpoint_remove(const char *home, const char *name, struct err *err)
{
	char old[64];
	CLEANUP_FD int all_fd = checkpoint_open_all(home, 0);
	if (all_fd < 0)
		return all_fd == -ENOENT ? 0 : failed(name, -all_fd, err);
	if (!is_key(name)) {
		int removed = fs_remove_tree(all_fd, name, NULL, err);
		return removed < 0 ? removed : 1;
	}
	CLEANUP_FD int gate_fd = checkpoint_gate(all_fd);
	if (gate_fd < 0)
		return failed(name, -gate_fd, err);
	CLEANUP_FD int dir_fd = fs_open_beneath(all_fd, name, O_RDONLY | O_DIRECTORY, 0);
	CLEANUP_FD int lock_fd = -1;
	int r = dir_fd < 0 ? dir_fd : checkpoint_lock(dir_fd, O_CREAT, &lock_fd);
	if (r == -EAGAIN || r == -ENOENT)
		return 0;
	if (r >= 0)
		r = rename_old(all_fd, name, old, sizeof old);
	cleanup_fd(&lock_fd);
	cleanup_fd(&gate_fd);
	FAULT_PHASE("checkpoint-gc");
	if (r < 0)
		return failed(name, -r, err);
	r = fs_remove_tree(all_fd, old, NULL, err);
	return r < 0 ? r : 1;
}

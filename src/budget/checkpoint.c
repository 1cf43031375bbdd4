/* One checkpoint from its lock to its end. */
#include "budget/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/num.h"
#include "budget/checkpoint_parts.h"
#include "budget/image.h"

#define DYING_NS      (60 * NS_PER_SEC) /* a box that nobody keeps alive is gone long before */
#define DYING_LOOK_NS (10 * NS_PER_MS)
#define DISK_NEW      FS_TEMP_PREFIX CHECKPOINT_DISK
#define DISK_REFUSED  ".refused-" CHECKPOINT_DISK

void checkpoint_release(struct checkpoint *c)
{
	cleanup_fd(&c->mount_fd);
	cleanup_fd(&c->root_fd);
	cleanup_fd(&c->lock_fd);
	cleanup_fd(&c->dir_fd);
	cleanup_fd(&c->all_fd);
	cleanup_free(&c->path);
	cleanup_free(&c->home);
}

int checkpoint_open_all(const char *home, int flags)
{
	CLEANUP_FD int home_fd = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (home_fd < 0)
		return -errno;
	if ((flags & O_CREAT) && mkdirat(home_fd, CHECKPOINTS_DIR, 0700) < 0 && errno != EEXIST)
		return -errno;
	int fd = fs_open_beneath(home_fd, CHECKPOINTS_DIR, O_RDONLY | O_DIRECTORY, 0);
	return fd;
}

int checkpoint_gate(int all_fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	CLEANUP_FD int fd =
		fs_open_beneath(all_fd, CHECKPOINT_LOCK, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return fd;
	while (fcntl(fd, F_SETLKW, &lock) < 0)
		if (errno != EINTR)
			return -errno;
	return take_fd(&fd);
}

int checkpoint_lock(int dir_fd, int flags, int *ret_fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	CLEANUP_FD int fd =
		fs_open_beneath(dir_fd, CHECKPOINT_LOCK, O_RDWR | O_CLOEXEC | flags, 0600);
	if (fd < 0)
		return fd;
	if (fcntl(fd, F_SETLK, &lock) < 0)
		return errno == EACCES || errno == EAGAIN ? -EAGAIN : -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

/* A word that was torn, or that is no id, names nobody. */
void checkpoint_holder(int dir_fd, char ret[ID_MAX + 1])
{
	char text[ID_MAX + 2] = "";
	ssize_t n = fs_read_small(dir_fd, CHECKPOINT_LOCK, text, sizeof text);
	(void)snprintf(ret, ID_MAX + 1, "%s", n > 0 && id_check(text, NULL) >= 0 ? text : "");
}

static int held(struct checkpoint *c, struct err *err)
{
	char holder[ID_MAX + 1];
	checkpoint_holder(c->dir_fd, holder);
	return err_set(
		err, ERR_CALLER, EBUSY,
		"the run '%s' is going on with the checkpoint of this analysis; wait for its end, or "
		"cancel it",
		holder[0] ? holder : "?");
}

/* By the lock's own descriptor: closing another one of the same file would end the lock. */
static void read_last(struct checkpoint *c)
{
	char text[ID_MAX + 2] = "";
	if (pread(c->lock_fd, text, sizeof text - 1, 0) <= 0)
		return;
	text[strcspn(text, "\n")] = 0;
	if (id_check(text, NULL) >= 0)
		(void)snprintf(c->last, sizeof c->last, "%.*s", ID_MAX, text);
}

int checkpoint_sign(struct checkpoint *c, const char *id, struct err *err)
{
	CLEANUP_FREE char *line = xasprintf("%s\n", id);
	if (ftruncate(c->lock_fd, 0) < 0 ||
	    pwrite(c->lock_fd, line, strlen(line), 0) != (ssize_t)strlen(line))
		return err_errno(err, "write %s/" CHECKPOINT_LOCK, c->path);
	FAULT_PHASE("checkpoint-signed");
	return 0;
}

static int take(struct checkpoint *c, struct err *err)
{
	c->all_fd = checkpoint_open_all(c->home, O_CREAT);
	CLEANUP_FD int gate_fd = c->all_fd < 0 ? c->all_fd : checkpoint_gate(c->all_fd);
	int r = gate_fd < 0 ? gate_fd : 0;
	if (r >= 0 && mkdirat(c->all_fd, c->key, 0700) < 0 && errno != EEXIST)
		r = -errno;
	FAULT_PHASE("checkpoint-directory");
	if (r >= 0)
		r = c->dir_fd = fs_open_beneath(c->all_fd, c->key, O_RDONLY | O_DIRECTORY, 0);
	if (r >= 0)
		r = checkpoint_lock(c->dir_fd, O_CREAT, &c->lock_fd);
	if (r == -EAGAIN)
		return held(c, err);
	if (r >= 0)
		read_last(c);
	FAULT_PHASE("checkpoint-taken");
	return r < 0 ? err_set(err, ERR_HOST, -r, "take the checkpoint %s: %s", c->path,
			       strerrordesc_np(-r))
		     : 0;
}

int checkpoint_take(const char *home, const char *key, struct checkpoint *ret, struct err *err)
{
	struct checkpoint c = CHECKPOINT_INIT;
	if (strlen(key) != HASH_HEX - 1 || strspn(key, "0123456789abcdef") != HASH_HEX - 1)
		return err_set(err, ERR_HOST, EINVAL, "a checkpoint without a key");
	memcpy(c.key, key, HASH_HEX);
	c.home = xstrdup(home);
	c.path = xasprintf("%s/" CHECKPOINTS_DIR "/%s", home, key);
	int r = take(&c, err);
	if (r < 0) {
		checkpoint_release(&c);
		return r;
	}
	*ret = c;
	return 0;
}

/* From its box it is reached through the kernel's file system alone; still it is looked at before root mounts it. */
static int open_disk(struct checkpoint *c, struct err *err)
{
	CLEANUP_FD int fd =
		fs_open_beneath(c->dir_fd, CHECKPOINT_DISK, O_RDWR | O_NONBLOCK | O_CLOEXEC, 0);
	struct stat st = { 0 };
	if (fd == -ENOENT)
		return fd;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, ERR_HOST, fd < 0 ? -fd : errno,
			       "open %s/" CHECKPOINT_DISK ": %s", c->path,
			       strerrordesc_np(fd < 0 ? -fd : errno));
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) ||
	    st.st_nlink != 1)
		return err_set(err, ERR_HOST, EPERM,
			       "%s/" CHECKPOINT_DISK
			       " could have been written by others. Remedy: remove it",
			       c->path);
	return take_fd(&fd);
}

/* The box of a keeper that was killed may still be dying: two mounts of one image would ruin it. There is no wait for such a lock that
 * has an end, so it is asked for again and again. */
static int await_disk(struct checkpoint *c, int fd, struct err *err)
{
	const struct timespec pause = { .tv_nsec = DYING_LOOK_NS };
	uint64_t until = clock_monotonic_ns() + DYING_NS;
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_errno(err, "lock %s/" CHECKPOINT_DISK, c->path);
		if (clock_monotonic_ns() > until)
			return err_set(err, ERR_HOST, EBUSY,
				       "%s/" CHECKPOINT_DISK " is still mounted by something",
				       c->path);
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

static int make_disk(struct checkpoint *c, const struct image_request *image, struct err *err)
{
	if (unlinkat(c->dir_fd, DISK_NEW, 0) < 0 && errno != ENOENT)
		return err_errno(err, "remove %s/" DISK_NEW, c->path);
	CLEANUP_FD int fd =
		fs_open_beneath(c->dir_fd, DISK_NEW, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(err, ERR_HOST, -fd, "make %s/" DISK_NEW ": %s", c->path,
			       strerrordesc_np(-fd));
	FAULT_PHASE("checkpoint-disk-named");
	int r = image_make(image, fd, err);
	if (r < 0)
		return r;
	/* Whole before it has its name. */
	if (fsync(fd) < 0 || renameat(c->dir_fd, DISK_NEW, c->dir_fd, CHECKPOINT_DISK) < 0 ||
	    fsync(c->dir_fd) < 0 || fsync(c->all_fd) < 0)
		return err_errno(err, "make %s/" CHECKPOINT_DISK, c->path);
	FAULT_PHASE("checkpoint-disk-made");
	return open_disk(c, err);
}

/* An image has the size that it was made with. A limit that has become smaller would not hold. */
static int check_size(struct checkpoint *c, int fd, const struct image_request *image,
		      struct err *err)
{
	char size[32];
	struct stat st = { 0 };
	uint64_t want = image_bytes(image);
	if (fstat(fd, &st) < 0)
		return err_errno(err, "look at %s/" CHECKPOINT_DISK, c->path);
	if ((uint64_t)st.st_size > want)
		return err_set(
			err, ERR_CALLER, EFBIG,
			"limit disk: the checkpoint of this analysis was made with a larger limit (about %s); give it "
			"that, or let go of it: rm -r %s",
			num_print_size((uint64_t)st.st_size, size, sizeof size), c->path);
	if ((uint64_t)st.st_size < want)
		(void)snprintf(c->note, sizeof c->note,
			       "Its checkpoint has the size that it was made with (about %s)",
			       num_print_size((uint64_t)st.st_size, size, sizeof size));
	return 0;
}

/* Takes the descriptor. */
static int mount_disk(struct checkpoint *c, int disk_fd, struct err *err)
{
	CLEANUP_FD int fd = disk_fd;
	int r = await_disk(c, fd, err);
	if (r < 0)
		return r;
	int mount_fd = image_mount_file(c->home, fd, err);
	if (mount_fd < 0)
		return mount_fd;
	c->mount_fd = mount_fd;
	c->root_fd = openat(mount_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return c->root_fd < 0 ? err_errno(err, "open the root of %s/" CHECKPOINT_DISK, c->path) : 0;
}

/* Nobody repairs it here: to read what an analysis may have broken is not for root's tools. */
static int set_aside(struct checkpoint *c, const struct err *why, struct err *err)
{
	if (renameat(c->dir_fd, CHECKPOINT_DISK, c->dir_fd, DISK_REFUSED) < 0)
		return err_errno(err, "set %s/" CHECKPOINT_DISK " aside", c->path);
	(void)snprintf(
		c->note, sizeof c->note,
		"Its earlier checkpoint could not be used and was set aside as %.120s/" DISK_REFUSED
		": %.80s",
		c->path, why->text);
	c->found = false;
	return 0;
}

static int open_image(struct checkpoint *c, const struct checkpoint_request *q, struct err *err)
{
	const struct image_request image = { .home = c->home,
					     .limit_bytes = q->limit_bytes,
					     .limit_inodes = q->limit_inodes,
					     .lasts = true };
	struct err why = { 0 };
	if (q->limit_bytes < CHECKPOINT_IMAGE_MIN_BYTES)
		return err_caller(err, "limit disk: at least 8M with a checkpoint");
	CLEANUP_FD int fd = open_disk(c, err);
	c->found = fd >= 0;
	int r = fd == -ENOENT ? 0 : fd;
	if (fd >= 0)
		r = check_size(c, fd, &image, err);
	if (r >= 0 && fd >= 0)
		r = mount_disk(c, take_fd(&fd), &why);
	if (r == -EUCLEAN)
		r = set_aside(c, &why, err);
	else if (r < 0 && why.code)
		*err = why;
	if (r < 0 || c->root_fd >= 0)
		return r;
	fd = make_disk(c, &image, err);
	r = fd < 0 ? fd : mount_disk(c, take_fd(&fd), err);
	if (r >= 0 && unlinkat(c->root_fd, "lost+found", AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = err_errno(err, "remove the lost+found of %s/" CHECKPOINT_DISK, c->path);
	return r;
}

/* Its owner is the analysis, and may have taken all rights from it: given back by a descriptor, which leads nowhere else. */
static int open_own(int dir_fd, const char *name)
{
	char link[48];
	int fd = fs_open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
	CLEANUP_FD int path_fd =
		fd == -EACCES ? fs_open_beneath(dir_fd, name, O_PATH | O_DIRECTORY, 0) : -1;
	if (path_fd < 0)
		return fd;
	(void)snprintf(link, sizeof link, "/proc/self/fd/%d", path_fd);
	return chmod(link, 0700) < 0 ? -errno
				     : fs_open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
}

static int open_files(struct checkpoint *c, struct err *err)
{
	c->found = mkdirat(c->dir_fd, CHECKPOINT_FILES, 0700) < 0;
	if (c->found && errno != EEXIST)
		return err_errno(err, "make %s/" CHECKPOINT_FILES, c->path);
	c->root_fd = open_own(c->dir_fd, CHECKPOINT_FILES);
	if (c->root_fd < 0 || (!c->found && (fsync(c->dir_fd) < 0 || fsync(c->all_fd) < 0)))
		return err_set(err, ERR_HOST, c->root_fd < 0 ? -c->root_fd : errno,
			       "open %s/" CHECKPOINT_FILES ": %s", c->path,
			       strerrordesc_np(c->root_fd < 0 ? -c->root_fd : errno));
	FAULT_PHASE("checkpoint-files-made");
	return 0;
}

/* Under a name of ours first, so that a part of it is never found again. */
static int drop_old(struct checkpoint *c, const char *name, struct err *err)
{
	CLEANUP_FREE char *old = xasprintf(CHECKPOINT_OLD "%s", name);
	int r = fs_remove_tree(c->dir_fd, old, NULL, err);
	if (r >= 0 && renameat(c->dir_fd, name, c->dir_fd, old) < 0)
		return errno == ENOENT ? 0 : err_errno(err, "drop %s/%s", c->path, name);
	return r < 0 ? r : fs_remove_tree(c->dir_fd, old, NULL, err);
}

int checkpoint_empty(struct checkpoint *c, struct err *err)
{
	int r = drop_old(c, CHECKPOINT_DISK, err);
	return r < 0 ? r : drop_old(c, CHECKPOINT_FILES, err);
}

int checkpoint_open(struct checkpoint *c, const struct checkpoint_request *q, struct err *err)
{
	int r = q->image ? open_image(c, q, err) : open_files(c, err);
	if (r < 0)
		return r;
	c->mounted = q->image;
	r = fs_tree_own(c->root_fd, q->uid, q->gid);
	if (r >= 0 && fchmod(c->root_fd, 0700) < 0)
		r = -errno;
	FAULT_PHASE("checkpoint-owned");
	return r < 0 ? err_set(err, ERR_HOST, -r,
			       "give the checkpoint %s to the run's user: %s. Remedy: rm -r it",
			       c->path, strerrordesc_np(-r))
		     : 0;
}

int checkpoint_close(struct checkpoint *c)
{
	int r = 0;
	if (c->root_fd >= 0 && syncfs(c->root_fd) < 0)
		r = -errno;
	cleanup_fd(&c->mount_fd);
	cleanup_fd(&c->root_fd);
	if (c->lock_fd >= 0)
		(void)futimens(c->lock_fd, NULL); /* when it was last of use, for gc */
	FAULT_PHASE("checkpoint-closed");
	return r;
}

int checkpoint_drop(struct checkpoint *c, struct err *err)
{
	cleanup_fd(&c->root_fd);
	FAULT_PHASE("checkpoint-dropping");
	int r = checkpoint_discard(c->all_fd, c->key, err);
	FAULT_PHASE("checkpoint-dropped");
	return r;
}

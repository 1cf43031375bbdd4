/* The working directory, by descriptor of its parent: made, measured, removed. */
#include "budget/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/path.h"
#include "base/str.h"
#include "budget/image.h"
#include "spec/config.h"

#define WALKS_LOST_MAX  8
#define UNLINKED_MAX_NS (1 * NS_PER_SEC)

void scratch_release(struct scratch *s)
{
	/* A zeroed struct owns nothing, and closing descriptor 0 would be a surprise. */
	if (s->path) {
		cleanup_fd(&s->dir_fd);
		cleanup_fd(&s->root_fd);
	}
	cleanup_free(&s->path);
}

/* `/proc/self/fd/N/NAME`: umount2 has no form that takes a descriptor. */
static int unmount(int root_fd, const char *name)
{
	CLEANUP_FREE char *path = xasprintf("/proc/self/fd/%d/%s", root_fd, name);
	return umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
}

static int root_open(const char *path, struct err *err)
{
	CLEANUP_FREE char *parent = path_parent(path);
	int fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_errno(err, "open %s", parent) : fd;
}

/* What is there is never used, whoever made it: the caller's own directory was seen before the run was planned. */
static int already_there(int root_fd, const char *path, struct err *err)
{
	struct stat st = { 0 };
	if (fstatat(root_fd, path_base(path), &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, ERR_CALLER, EEXIST, "the working directory %s exists already",
			       path);
	const char *what = S_ISLNK(st.st_mode)   ? "a symbolic link"
			   : S_ISDIR(st.st_mode) ? "a directory"
						 : "a file";
	return err_set(
		err, ERR_CALLER, EEXIST,
		"the working directory %s exists already: %s that belongs to uid %u; remove it, or use another id",
		path, what, (unsigned)st.st_uid);
}

/* The new directory, seen to be the one just made: ours, empty-handed for others, no link. */
static int dir_make(int root_fd, const char *path, struct err *err)
{
	const char *name = path_base(path);
	if (mkdirat(root_fd, name, 0700) < 0)
		return errno == EEXIST ? already_there(root_fd, path, err)
				       : err_errno(err, "make %s", path);
	FAULT_PHASE("scratch-directory");
	CLEANUP_FD int fd = openat(root_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0) {
		int r = err_errno(err, "open %s", path);
		(void)unlinkat(root_fd, name, AT_REMOVEDIR);
		return r;
	}
	if (st.st_uid != geteuid() || (st.st_mode & 077))
		return err_set(err, ERR_HOST, EPERM, "%s was exchanged while it was made", path);
	return take_fd(&fd);
}

static int dir_own(int fd, uid_t uid, gid_t gid, mode_t mode)
{
	if (fchown(fd, uid, gid) < 0 || fchmod(fd, mode) < 0)
		return -errno;
	return 0;
}

/* Mounts the image over dir_fd; returns the descriptor of its root, which the caller owns. */
static int image_place(const struct scratch_request *request, int dir_fd, struct err *err)
{
	const struct image_request image = { .home = request->home,
					     .limit_bytes = request->limit_bytes,
					     .limit_inodes = request->limit_inodes,
					     .dirs = request->dirs };
	CLEANUP_FD int mount_fd = image_mount(&image, err);
	if (mount_fd < 0)
		return mount_fd;
	CLEANUP_FD int inside_fd = openat(mount_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (inside_fd < 0)
		return err_errno(err, "open the image's root");
	if (unlinkat(inside_fd, "lost+found", AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_errno(err, "remove the image's lost+found");
	int r = dir_own(inside_fd, request->owner_uid, request->owner_gid, 0700);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "give the image its owner: %s", strerror(-r));
	FAULT_PHASE("scratch-image");
	if (move_mount(mount_fd, "", dir_fd, "",
		       MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_errno(err, "place the image's mount");
	return take_fd(&inside_fd);
}

static bool wants_image(const struct scratch_request *request)
{
	return request->mechanism == DISK_IMAGE ||
	       (request->mechanism == DISK_AUTO && geteuid() == 0);
}

/* With the image mounted or, as `watched`, as it is. dir_fd becomes the directory that is worked in. */
static int mechanism_start(const struct scratch_request *request, struct scratch *s,
			   struct err *err)
{
	if (wants_image(request)) {
		struct err why = { 0 };
		int inside_fd = image_place(request, s->dir_fd, &why);
		if (inside_fd >= 0) {
			cleanup_fd(&s->dir_fd);
			s->dir_fd = inside_fd;
			s->mounted = true;
			(void)snprintf(s->mechanism, sizeof(s->mechanism), "image");
			return 0;
		}
		if (why.kind == ERR_CALLER)
			return err_set(err, ERR_CALLER, why.code, "%s", why.text);
		if (!request->may_miss)
			return err_layer(
				err, "disk",
				"no sized filesystem for the working directory: %s. Remedy: %s, or set "
				"disk.mechanism: watched",
				why.text,
				why.code == EPERM || why.code == EACCES
					? "let root mount here, which a container may not: start it with "
					  "--privileged"
					: "modprobe loop ext4, apt-get install e2fsprogs");
	}
	(void)snprintf(s->mechanism, sizeof(s->mechanism), "watched");
	int r = dir_own(s->dir_fd, request->owner_uid, request->owner_gid, 0700);
	return r < 0 ? err_set(err, ERR_HOST, -r, "give %s its owner: %s", s->path, strerror(-r))
		     : 0;
}

static struct scratch blank(const struct scratch_request *request)
{
	return (struct scratch){
		.path = xstrdup(request->path),
		.limit_bytes = request->limit_bytes,
		.limit_inodes = request->limit_inodes,
		.root_fd = -1,
		.dir_fd = -1,
		.beside_fd = -1,
	};
}

int scratch_create(const struct scratch_request *request, struct scratch *ret, struct err *err)
{
	if (request->path[0] != '/' || !path_name_ok(path_base(request->path)))
		return err_caller(err, "working directory '%s': not an absolute path",
				  request->path);
	if (wants_image(request) &&
	    (request->limit_bytes < SCRATCH_IMAGE_MIN_BYTES || request->limit_inodes == 0))
		return err_caller(err, "limit disk: at least 1M, and limit inodes: at least 1");
	__attribute__((cleanup(scratch_release))) struct scratch s = blank(request);
	s.root_fd = root_open(request->path, err);
	if (s.root_fd < 0)
		return s.root_fd;
	s.dir_fd = dir_make(s.root_fd, request->path, err);
	if (s.dir_fd < 0)
		return s.dir_fd;
	int r = mechanism_start(request, &s, err);
	if (r < 0) {
		(void)unlinkat(s.root_fd, path_base(s.path), AT_REMOVEDIR);
		return r;
	}
	*ret = s;
	s = (struct scratch){ .root_fd = -1, .dir_fd = -1, .beside_fd = -1 };
	return 0;
}

static int dir_open(struct scratch *s, struct err *err)
{
	s->root_fd = root_open(s->path, err);
	if (s->root_fd < 0)
		return s->root_fd;
	s->dir_fd = openat(s->root_fd, path_base(s->path),
			   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return s->dir_fd < 0 ? err_errno(err, "open %s", s->path) : 0;
}

int scratch_open(const struct scratch_request *request, struct scratch *ret, struct err *err)
{
	struct scratch s = blank(request);
	struct scratch_dead dead = { .path = request->path, .home = request->home };
	int r = dir_open(&s, err);
	if (r < 0) {
		scratch_release(&s);
		return r;
	}
	s.mounted = scratch_is_image(&dead);
	(void)snprintf(s.mechanism, sizeof(s.mechanism), "%s", s.mounted ? "image" : "watched");
	*ret = s;
	return 0;
}

/* What the kernel says it may hold has to be what was asked for, to the page and to the file. */
static int check_memory(const struct scratch_request *request, int mount_fd, struct err *err)
{
	struct statfs st;
	if (fstatfs(mount_fd, &st) < 0)
		return err_errno(err, "ask for the size of the working directory in memory");
	if (st.f_type == TMPFS_MAGIC && st.f_blocks &&
	    st.f_blocks == request->limit_bytes / (uint64_t)st.f_bsize &&
	    st.f_files == request->limit_inodes)
		return 0;
	return err_layer(
		err, "disk",
		"the working directory in memory may hold %llu bytes in %llu files; asked for were "
		"%llu in %llu. Remedy: --scratch disk",
		(unsigned long long)st.f_blocks * (unsigned long long)st.f_bsize,
		(unsigned long long)st.f_files, (unsigned long long)request->limit_bytes,
		(unsigned long long)request->limit_inodes);
}

int scratch_adopt(const struct scratch_request *request, int mount_fd, struct scratch *ret,
		  struct err *err)
{
	int r = check_memory(request, mount_fd, err);
	if (r < 0)
		return r;
	int dir_fd = openat(mount_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return err_errno(err, "open the working directory in memory");
	*ret = blank(request);
	ret->dir_fd = dir_fd;
	ret->in_memory = true;
	(void)snprintf(ret->mechanism, sizeof ret->mechanism, "memory");
	return 0;
}

bool scratch_is_watched(const struct scratch *s)
{
	return str_eq(s->mechanism, "watched") || (s->beside_fd >= 0 && !s->beside_is_image);
}

static int dir_give(int dir_fd, const char *name, const struct scratch_request *request)
{
	return fchownat(dir_fd, name, request->owner_uid, request->owner_gid, AT_SYMLINK_NOFOLLOW);
}

int scratch_make_dirs(struct scratch *s, const struct scratch_request *request, struct err *err)
{
	const struct strv *dirs = request->dirs;
	for (size_t i = 0; dirs && i < dirs->n; i++) {
		const char *name = dirs->v[i];
		if (!path_name_ok(name))
			return err_caller(err, "the directory '%s': not a name", name);
		/* An image has most of them from its template: making one costs more than the rest of a mount. */
		if (s->mounted && dir_give(s->dir_fd, name, request) == 0)
			continue;
		if (mkdirat(s->dir_fd, name, 0755) < 0 || fchmodat(s->dir_fd, name, 0755, 0) < 0 ||
		    dir_give(s->dir_fd, name, request) < 0)
			return err_errno(err, "make %s/%s", s->path, name);
	}
	return 0;
}

/* Walks again where the tree changed under the walk: what was renamed may have been missed. The largest count is the one. A walk that lost
 * its way has counted a part only, and is tried more often. */
static int walk(const struct scratch *s, int dir_fd, struct fs_usage *ret)
{
	struct fs_usage largest = { 0 }, use = { 0 };
	int r = -EAGAIN;
	for (int i = 0; i < WALKS_LOST_MAX && (r == -EAGAIN || (r == 0 && use.moved && i < 2));
	     i++) {
		use = (struct fs_usage){ 0 };
		r = fs_tree_measure(dir_fd, s->limit_bytes, s->limit_inodes, &use);
		if (use.bytes > largest.bytes)
			largest.bytes = use.bytes;
		if (use.inodes > largest.inodes)
			largest.inodes = use.inodes;
	}
	largest.unread = use.unread;
	*ret = largest;
	return r;
}

static int add_walk(const struct scratch *s, int dir_fd, struct scratch_use *use)
{
	struct fs_usage found = { 0 };
	int r = walk(s, dir_fd, &found);
	use->bytes += found.bytes;
	use->inodes += found.inodes;
	if (r >= 0 && found.unread)
		(void)snprintf(use->uncounted, sizeof use->uncounted, "%u unreadable director%s",
			       found.unread, found.unread == 1 ? "y" : "ies");
	else if (r == -EAGAIN)
		(void)snprintf(use->uncounted, sizeof use->uncounted,
			       "directories were moved during each of %d counts", WALKS_LOST_MAX);
	else if (r < 0 && r != -E2BIG)
		(void)snprintf(use->uncounted, sizeof use->uncounted, "reading it failed: %s",
			       strerrordesc_np(-r));
	return r;
}

static dev_t dev_of(int fd)
{
	struct stat st;
	return fd >= 0 && fstat(fd, &st) == 0 ? st.st_dev : 0;
}

/* Many processes with many descriptors take long to look at: then less often, so that the keeper needs a twentieth of a cpu at most
 * for it, and at least once a second. In between the last count holds. */
static int add_unlinked(struct scratch *s, struct scratch_use *use)
{
	uint64_t begun_ns = clock_monotonic_ns();
	if (begun_ns >= s->unlinked_due_ns) {
		dev_t dev = dev_of(s->in_memory ? s->beside_fd : s->dir_fd);
		const struct unlinked_request request = {
			.budget = s->box.budget,
			.init_pid = s->box.init_pid,
			.pid_ns = s->box.pid_ns,
			.max_inodes = s->limit_inodes,
			.devs = { dev, s->beside_fd >= 0 ? dev_of(s->beside_fd) : dev },
		};
		s->unlinked_result = unlinked_measure(&request, &s->unlinked);
		uint64_t now_ns = clock_monotonic_ns(), wait_ns = 20 * (now_ns - begun_ns);
		s->unlinked_due_ns = now_ns +
				     (wait_ns < UNLINKED_MAX_NS ? wait_ns : UNLINKED_MAX_NS);
	}
	int r = s->unlinked_result;
	use->bytes += s->unlinked.bytes;
	use->inodes += s->unlinked.inodes;
	if (r >= 0 && s->unlinked.unread)
		(void)snprintf(use->uncounted, sizeof use->uncounted,
			       "%u process%s whose open files cannot be read", s->unlinked.unread,
			       s->unlinked.unread == 1 ? "" : "es");
	else if (r == -ETIME)
		(void)snprintf(use->uncounted, sizeof use->uncounted,
			       "its open files are too many to be counted in time");
	else if (r < 0 && r != -E2BIG)
		(void)snprintf(use->uncounted, sizeof use->uncounted,
			       "its open files cannot be read: %s", strerrordesc_np(-r));
	return r;
}

static bool is_over(const struct scratch *s, const struct scratch_use *use)
{
	return (s->limit_bytes && use->bytes >= s->limit_bytes) ||
	       (s->limit_inodes && use->inodes >= s->limit_inodes);
}

static void watched_measure(struct scratch *s, struct scratch_use *use)
{
	bool over = !s->in_memory && add_walk(s, s->dir_fd, use) == -E2BIG;
	if (!over && s->beside_fd >= 0)
		over = add_walk(s, s->beside_fd, use) == -E2BIG;
	if (!over && s->box.budget)
		over = add_unlinked(s, use) == -E2BIG;
	use->over = use->full = over || is_over(s, use);
}

/* tmpfs gives out its last page, and asks for none but those of files. */
static int memory_use(int dir_fd, struct scratch_use *ret)
{
	struct statfs st;
	if (fstatfs(dir_fd, &st) < 0)
		return -errno;
	*ret = (struct scratch_use){
		.bytes = (st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize,
		.inodes = st.f_files - st.f_ffree,
		.full = st.f_bavail == 0 || st.f_ffree == 0,
	};
	return 0;
}

/* What is beside a file system with a limit has that limit for itself. */
static void beside_measure(struct scratch *s, struct scratch_use *use)
{
	struct scratch_use beside = { 0 };
	if (s->beside_fd < 0)
		return;
	if (!s->beside_is_image)
		watched_measure(s, &beside);
	else if (image_use(s->beside_fd, s->limit_inodes, &beside) < 0)
		return;
	use->full |= beside.full;
	use->over = beside.over;
	memcpy(use->uncounted, beside.uncounted, sizeof use->uncounted);
}

int scratch_measure(struct scratch *s, struct scratch_use *ret)
{
	struct scratch_use use = { 0 };
	int r = 0;
	if (s->in_memory)
		r = memory_use(s->dir_fd, &use);
	else if (s->mounted)
		r = image_use(s->dir_fd, s->limit_inodes, &use);
	else
		watched_measure(s, &use);
	if (r < 0)
		return r;
	if (s->in_memory || s->mounted)
		beside_measure(s, &use);
	if (use.bytes > s->peak_bytes)
		s->peak_bytes = use.bytes;
	if (use.inodes > s->peak_inodes)
		s->peak_inodes = use.inodes;
	*ret = use;
	return 0;
}

/* Takes the mount away and the bare directory with it; the image counted what was in it. */
static int image_remove(int root_fd, const char *name, const struct scratch_use *use,
			struct fs_removed *ret, struct err *err)
{
	int r = unmount(root_fd, name);
	if (r < 0) {
		ret->remained = use->inodes + 1;
		return err_set(err, ERR_HOST, -r, "unmount %s: %s", name, strerror(-r));
	}
	FAULT_PHASE("scratch-unmounted");
	ret->files += use->inodes;
	ret->bytes += use->bytes;
	return 0;
}

/* The box is gone, so the last descriptor is ours; with it go the file system and its memory. */
static void memory_remove(struct scratch *s, struct fs_removed *ret)
{
	struct scratch_use use = { 0 };
	(void)memory_use(s->dir_fd, &use);
	cleanup_fd(&s->dir_fd);
	*ret = (struct fs_removed){ .files = use.inodes, .bytes = use.bytes };
}

int scratch_remove(struct scratch *s, struct fs_removed *ret, struct err *err)
{
	struct fs_removed removed = { 0 };
	struct scratch_use use = { 0 };
	bool is_image = s->mounted;
	int r = 0;
	if (s->in_memory) {
		memory_remove(s, ret ? ret : &removed);
		return 0;
	}
	if (s->mounted)
		(void)image_use(s->dir_fd, s->limit_inodes, &use);
	/* Before the unmount: a descriptor inside would keep the filesystem and its loop device alive. */
	cleanup_fd(&s->dir_fd);
	if (s->mounted) {
		r = image_remove(s->root_fd, path_base(s->path), &use, &removed, err);
		s->mounted = r < 0;
	}
	if (r >= 0 && is_image && unlinkat(s->root_fd, path_base(s->path), AT_REMOVEDIR) == 0) {
		removed.dirs++; /* as was to be expected below a mount */
	} else if (r >= 0) {
		struct fs_removed rest = { 0 };
		r = fs_remove_tree(s->root_fd, path_base(s->path), &rest, err);
		removed.files += rest.files;
		removed.dirs += rest.dirs;
		removed.bytes += rest.bytes;
		removed.remained += rest.remained;
	}
	if (ret)
		*ret = removed;
	return r;
}

int scratch_mount_copy(const struct scratch *s, int *ret_fd, struct err *err)
{
	int fd = -1;
	if (s->mounted) {
		fd = open_tree(s->dir_fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
		if (fd < 0)
			return err_errno(err, "copy the mount of %s", s->path);
	}
	*ret_fd = fd;
	return 0;
}

static bool is_mount_root(int fd)
{
	struct statx st;
	return statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &st) == 0 &&
	       (st.stx_attributes & STATX_ATTR_MOUNT_ROOT);
}

int scratch_mark(const struct scratch *s, struct scratch_mark *ret)
{
	struct stat st;
	if (fstat(s->dir_fd, &st) < 0)
		return -errno;
	*ret = (struct scratch_mark){ .dev = st.st_dev, .ino = st.st_ino };
	return 0;
}

static bool is_ours(const struct scratch *s, const struct scratch_dead *dead)
{
	struct scratch_mark now = { 0 };
	if (s->mounted)
		return image_is_ours(dead->home, s->dir_fd);
	return dead->mark && scratch_mark(s, &now) >= 0 && now.dev == dead->mark->dev &&
	       now.ino == dead->mark->ino;
}

bool scratch_is_image(const struct scratch_dead *dead)
{
	CLEANUP_FD int fd = open(dead->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && is_mount_root(fd) && image_is_ours(dead->home, fd);
}

int scratch_sweep(const struct scratch_dead *dead, struct fs_removed *ret, struct err *err)
{
	struct fs_removed none = { 0 };
	if (ret)
		*ret = none;
	__attribute__((cleanup(scratch_release))) struct scratch s = { .path = xstrdup(dead->path),
								       .root_fd = -1,
								       .dir_fd = -1 };
	CLEANUP_FREE char *parent = path_parent(dead->path);
	s.root_fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (s.root_fd < 0)
		return errno == ENOENT ? 0 : err_errno(err, "open %s", parent);
	s.dir_fd = openat(s.root_fd, path_base(s.path),
			  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s.dir_fd < 0)
		return 0; /* nothing there, or nothing we made */
	s.mounted = is_mount_root(s.dir_fd);
	if (is_ours(&s, dead)) {
		int r = scratch_remove(&s, ret, err);
		return r < 0 ? r : 1;
	}
	/* The bare directory below an image, or one whose maker died at once: only if it is ours, empty, and has the mode that dir_make()
	 * gives. A directory that the caller made for the files of an analysis is open to others. */
	struct stat st;
	bool own = !s.mounted && fstat(s.dir_fd, &st) == 0 && st.st_uid == geteuid() &&
		   (st.st_mode & 07777) == 0700;
	return own && unlinkat(s.root_fd, path_base(s.path), AT_REMOVEDIR) == 0 ? 1 : 0;
}

void scratch_settle(const struct scratch *s, const char *home)
{
	if (s->mounted)
		image_settle(home, s->dir_fd);
}

/* One function a kind of step, one loop over the plan. Targets are reached from the descriptor of the new root,
 * which nobody else can see; sources are opened without following any symbolic link. */
#include "box/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/fs.h"

#define EMPTY_DIR  "run/cupel/empty"
#define EMPTY_FILE "run/cupel/nothing"

void root_release(struct root *r)
{
	cleanup_fd(&r->root_fd);
	cleanup_fd(&r->proc_fd);
}

static const char *relative(const char *target)
{
	return target[1] ? target + 1 : ".";
}

/* The directory that `path` is in. Until the end our own root is still the host's, so a link in a tree that is shown must not lead
 * there: every link is followed from the new root. */
static int open_above(int root_fd, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	char part[PATH_MAX] = ".";
	if (slash && (size_t)(slash - path) >= sizeof part)
		return -ENAMETOOLONG;
	if (slash)
		(void)snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
	*ret_name = slash ? slash + 1 : path;
	return fs_open_resolve(root_fd, part, O_PATH | O_DIRECTORY, 0,
			       RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

static int make_node(int root_fd, const char *path, bool is_dir)
{
	const char *name = NULL;
	CLEANUP_FD int above_fd = open_above(root_fd, path, &name);
	if (above_fd < 0)
		return above_fd;
	if (is_dir)
		return mkdirat(above_fd, name, 0755) < 0 && errno != EEXIST ? -errno : 0;
	CLEANUP_FD int fd =
		openat(above_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0444);
	return fd < 0 ? -errno : 0;
}

static int make_parents(int root_fd, const char *path)
{
	char part[PATH_MAX];
	int r = 0;
	for (const char *slash = strchr(path, '/'); r >= 0 && slash;
	     slash = strchr(slash + 1, '/')) {
		if ((size_t)(slash - path) >= sizeof part)
			return -ENAMETOOLONG;
		memcpy(part, path, (size_t)(slash - path));
		part[slash - path] = 0;
		r = make_node(root_fd, part, true);
	}
	return r;
}

/* Something to mount on: a directory or an empty file, as the source is. Mostly its parents are there already. */
static int make_target(int root_fd, const char *path, bool is_dir)
{
	int r = make_node(root_fd, path, is_dir);
	if (r != -ENOENT)
		return r;
	r = make_parents(root_fd, path);
	return r < 0 ? r : make_node(root_fd, path, is_dir);
}

static int set_attributes(int fd, uint64_t attributes, unsigned flags)
{
	struct mount_attr attr = { .attr_set = attributes, .propagation = MS_PRIVATE };
	return mount_setattr(fd, "", AT_EMPTY_PATH | flags, &attr, sizeof attr) < 0 ? -errno : 0;
}

static int attach(int mount_fd, int root_fd, const char *path)
{
	const char *name = NULL;
	CLEANUP_FD int above_fd = open_above(root_fd, path, &name);
	if (above_fd < 0)
		return above_fd;
	return move_mount(mount_fd, "", above_fd, name, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

/* A new file system of `type` that is attached nowhere yet; options end with NULL. */
static int new_mount(const char *type, const char *const options[][2], unsigned attributes)
{
	CLEANUP_FD int fs_fd = fsopen(type, FSOPEN_CLOEXEC);
	if (fs_fd < 0)
		return -errno;
	for (size_t i = 0; options && options[i][0]; i++)
		if (fsconfig(fs_fd, FSCONFIG_SET_STRING, options[i][0], options[i][1], 0) < 0)
			return -errno;
	if (fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	int fd = fsmount(fs_fd, FSMOUNT_CLOEXEC, attributes);
	return fd < 0 ? -errno : fd;
}

/* What a step names on the host, or below the new root, without following any link. */
static int open_source(int dir_fd, const char *path, struct stat *ret_st)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	CLEANUP_FD int fd = (int)syscall(SYS_openat2, dir_fd, path, &how, sizeof how);
	if (fd < 0 || fstat(fd, ret_st) < 0)
		return -errno;
	return take_fd(&fd);
}

/* A copy of the source's mount on the target, which is made as the source is. `flags`: AT_RECURSIVE, or 0 for the one mount alone. */
static int place_source(const struct root *root, int source_fd, const struct step *s,
			uint64_t attributes, unsigned flags)
{
	struct stat st;
	CLEANUP_FD int fd = open_tree(source_fd, "",
				      OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | flags);
	if (fd < 0 || fstat(source_fd, &st) < 0)
		return -errno;
	int r = set_attributes(fd, attributes, flags);
	if (r >= 0)
		r = make_target(root->root_fd, relative(s->target), S_ISDIR(st.st_mode));
	return r < 0 ? r : attach(fd, root->root_fd, relative(s->target));
}

/* A copy of a mount of the box itself, with its attributes, over a file or directory. */
static int cover(const struct root *root, const char *source, const char *target,
		 uint64_t attributes)
{
	CLEANUP_FD int fd = open_tree(root->root_fd, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = attributes ? set_attributes(fd, attributes, 0) : 0;
	return r < 0 ? r : attach(fd, root->root_fd, target);
}

#define COVER_ATTRIBUTES                                                                           \
	(MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

/* What masks are copies of: mounted on itself once, so that each copy is born read-only. */
static int make_mask(const struct root *root, const char *path, bool is_dir)
{
	int r = make_target(root->root_fd, path, is_dir);
	return r < 0 ? r : cover(root, path, path, COVER_ATTRIBUTES);
}

static int do_mask(const struct root *root, const struct step *s)
{
	struct stat st;
	if (fstatat(root->root_fd, relative(s->target), &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	return cover(root, S_ISDIR(st.st_mode) ? EMPTY_DIR : EMPTY_FILE, relative(s->target), 0);
}

static int do_tmpfs(struct root *root, const struct step *s)
{
	char size[32], inodes[32], mode[16];
	(void)snprintf(size, sizeof size, "%llu", (unsigned long long)s->size_bytes);
	(void)snprintf(inodes, sizeof inodes, "%llu", (unsigned long long)s->inodes);
	(void)snprintf(mode, sizeof mode, "%o", (unsigned)s->mode);
	const char *const options[][2] = {
		{ "size", size }, { "nr_inodes", inodes }, { "mode", mode }, { NULL, NULL }
	};
	CLEANUP_FD int fd = new_mount("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (fd < 0)
		return fd;
	if (str_eq(s->target, "/")) {
		/* On top of the old root: absolute paths still lead into the old one until pivot_root. */
		if (move_mount(fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
			return -errno;
		root->root_fd = take_fd(&fd);
		int r = make_mask(root, EMPTY_DIR, true);
		return r < 0 ? r : make_mask(root, EMPTY_FILE, false);
	}
	int r = make_target(root->root_fd, relative(s->target), true);
	return r < 0 ? r : attach(fd, root->root_fd, relative(s->target));
}

static int do_bind(const struct root *root, const struct step *s)
{
	struct stat st = { 0 };
	uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
			      (s->writable ? MOUNT_ATTR_NOEXEC : MOUNT_ATTR_RDONLY);
	CLEANUP_FD int fd = s->inside ? open_source(root->root_fd, relative(s->source), &st)
				      : open_source(AT_FDCWD, s->source, &st);
	if (fd < 0)
		return fd;
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return -EINVAL;
	return place_source(root, fd, s, attributes, AT_RECURSIVE);
}

static int do_work(const struct root *root, const struct step *s, const struct root_request *q,
		   struct err *err)
{
	struct stat st = { 0 };
	struct root_work work = { .mount_fd = -1 };
	int r = q->take_work(q->data, s->kind, &work, err);
	if (r < 0)
		return r;
	CLEANUP_FD int mount_fd = work.mount_fd;
	CLEANUP_FD int source_fd = mount_fd < 0 ? open_source(AT_FDCWD, s->source, &st) : -1;
	if (mount_fd < 0 && source_fd < 0)
		return source_fd;
	if (mount_fd >= 0 && fstat(mount_fd, &st) < 0)
		return -errno;
	if (st.st_dev != work.dev || st.st_ino != work.ino)
		return -ESTALE; /* the path leads somewhere else than to what the keeper made */
	uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
	if (mount_fd < 0)
		return place_source(root, source_fd, s, attributes, 0);
	r = set_attributes(mount_fd, attributes, 0);
	if (r >= 0)
		r = make_target(root->root_fd, relative(s->target), true);
	return r < 0 ? r : attach(mount_fd, root->root_fd, relative(s->target));
}

static int do_device(const struct root *root, const struct step *s)
{
	struct stat st = { 0 };
	CLEANUP_FD int fd = open_source(AT_FDCWD, s->source, &st);
	if (fd < 0)
		return fd;
	/* Memory devices have major 1; anything else under such a name was put there by someone. */
	if (!S_ISCHR(st.st_mode) || (major(st.st_rdev) != 1 && !s->any_kind))
		return -ENODEV;
	return place_source(root, fd, s, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, 0);
}

static int do_proc(struct root *root, const struct step *s)
{
	unsigned common = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
	CLEANUP_FD int shown_fd = new_mount("proc", NULL, common | MOUNT_ATTR_RDONLY);
	if (shown_fd < 0)
		return shown_fd;
	root->proc_fd = new_mount("proc", NULL, common);
	if (root->proc_fd < 0)
		return root->proc_fd;
	int r = make_target(root->root_fd, relative(s->target), true);
	return r < 0 ? r : attach(shown_fd, root->root_fd, relative(s->target));
}

static int do_socket(const struct root *root, const struct step *s)
{
	struct stat st = { 0 };
	CLEANUP_FD int fd = open_source(AT_FDCWD, s->source, &st);
	if (fd < 0)
		return fd;
	if (!S_ISSOCK(st.st_mode))
		return -ENOTSOCK;
	/* One connects to a socket of a read-only mount too. */
	return place_source(root, fd, s, COVER_ATTRIBUTES, 0);
}

static int do_file(const struct root *root, const struct step *s, const struct root_request *q)
{
	const int flags = O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW;
	CLEANUP_FD int fd = openat(root->root_fd, relative(s->target), flags, s->mode);
	if (fd < 0 && errno == ENOENT) { /* mostly its parents are there already */
		int r = make_parents(root->root_fd, relative(s->target));
		if (r < 0)
			return r;
		fd = openat(root->root_fd, relative(s->target), flags, s->mode);
	}
	if (fd < 0 || (s->secret && q->uid != (uid_t)-1 && fchown(fd, q->uid, q->gid) < 0))
		return -errno;
	return fs_write_all(fd, s->source, strlen(s->source));
}

static int do_link(const struct root *root, const struct step *s)
{
	if (symlinkat(s->source, root->root_fd, relative(s->target)) == 0)
		return 0;
	int r = errno == ENOENT ? make_parents(root->root_fd, relative(s->target)) : -errno;
	if (r < 0)
		return r;
	return symlinkat(s->source, root->root_fd, relative(s->target)) < 0 ? -errno : 0;
}

static int do_image(const struct root *root, const struct step *s, const struct root_request *q)
{
	int r = make_target(root->root_fd, relative(s->target), true);
	return r < 0 ? r : attach(q->image_fd, root->root_fd, relative(s->target));
}

/* umount2 takes no descriptor; from the new root the path is ours alone. */
static int do_drop(const struct root *root, const struct step *s)
{
	if (fchdir(root->root_fd) < 0)
		return -errno;
	return umount2(relative(s->target), MNT_DETACH | UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
}

static int do_seal(const struct root *root, const struct step *s)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };
	return mount_setattr(root->root_fd, relative(s->target), 0, &attr, sizeof attr) < 0 ? -errno
											    : 0;
}

static int do_step(struct root *root, const struct step *s, const struct root_request *q,
		   struct err *err)
{
	switch (s->kind) {
	case STEP_TMPFS:
		return do_tmpfs(root, s);
	case STEP_BIND:
		return do_bind(root, s);
	case STEP_WORK:
	case STEP_CHECKPOINT:
		return do_work(root, s, q, err);
	case STEP_PROC:
		return do_proc(root, s);
	case STEP_DEVICE:
		return do_device(root, s);
	case STEP_SOCKET:
		return do_socket(root, s);
	case STEP_DIR:
		return make_target(root->root_fd, relative(s->target), true);
	case STEP_FILE:
		return do_file(root, s, q);
	case STEP_LINK:
		return do_link(root, s);
	case STEP_MASK:
		return do_mask(root, s);
	case STEP_COVER:
		return cover(root, relative(s->source), relative(s->target), COVER_ATTRIBUTES);
	case STEP_IMAGE:
		return do_image(root, s, q);
	case STEP_DROP:
		return do_drop(root, s);
	case STEP_SEAL:
		return do_seal(root, s);
	}
	return -EINVAL;
}

/* The old root is stacked under the new one at "." and then let go: no directory is needed to put it in. */
static int pivot(const struct root *root, struct err *err)
{
	if (fchdir(root->root_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
		return err_errno(err, "mount: pivot into the new root");
	if (umount2(".", MNT_DETACH) < 0)
		return err_errno(err, "mount: let go of the old root");
	return chdir("/") < 0 ? err_errno(err, "mount: enter the new root") : 0;
}

int root_make(const struct root_request *request, struct root *ret, struct err *err)
{
	struct root root = { .root_fd = -1, .proc_fd = -1 };
	struct mount_attr private = { .propagation = MS_PRIVATE };
	if (mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &private, sizeof private) < 0)
		return err_layer(
			err, "mount",
			"cut the propagation of mounts: %s. Remedy: boot Linux 5.12 or later; in a container, have "
			"its seccomp filter pass mount_setattr",
			strerrordesc_np(errno));
	int r = 0;
	for (size_t i = 0; r >= 0 && i < request->plan->n_steps; i++) {
		const struct step *s = &request->plan->steps[i];
		struct err why = { 0 };
		r = do_step(&root, s, request, &why);
		if (r < 0 && why.code && err)
			*err = why; /* the step has said it all */
		else if (r < 0)
			r = mount_failed(s, -r, err);
	}
	if (r >= 0)
		r = pivot(&root, err);
	if (r < 0) {
		root_release(&root);
		return r;
	}
	*ret = root;
	return 0;
}

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
#include "base/path.h"
#include "box/place.h"
#include "box/search.h"
#include "box/userns.h"

#define EMPTY_DIR  "run/cupel/empty"
#define EMPTY_FILE "run/cupel/nothing"

void root_release(struct root *r)
{
	cleanup_fd(&r->root_fd);
	cleanup_fd(&r->proc_fd);
}

/* A user namespace for the mounts that show files of this user and this group as the run's own, or as nobody's. */
struct id_map {
	uid_t uid;
	gid_t gid;
	int fd; /* owned; or a negative errno: there is none */
};

/* The root while it is made. */
struct making {
	struct root root;
	struct places places;            /* in it */
	struct places sources;           /* on the host */
	int host_fd;                     /* owned */
	int empty_dir_fd, empty_file_fd; /* owned; what masks are copies of */
	struct id_map *maps;             /* owned; what id-mapped mounts of the plan need */
	size_t n_maps;
	const char *at; /* borrowed; of the request */
};

static void making_release(struct making *m)
{
	places_release(&m->places);
	places_release(&m->sources);
	cleanup_fd(&m->host_fd);
	cleanup_fd(&m->empty_dir_fd);
	cleanup_fd(&m->empty_file_fd);
	for (size_t i = 0; i < m->n_maps; i++)
		cleanup_fd(&m->maps[i].fd);
	free(m->maps);
	root_release(&m->root);
}

static const char *relative(const char *target)
{
	return target[1] ? target + 1 : ".";
}

static int set_attributes(int fd, uint64_t attributes, unsigned flags)
{
	struct mount_attr attr = { .attr_set = attributes, .propagation = MS_PRIVATE };
	return mount_setattr(fd, "", AT_EMPTY_PATH | flags, &attr, sizeof attr) < 0 ? -errno : 0;
}

/* On a place that is made for it. */
static int place(struct making *m, int mount_fd, const char *path, bool is_dir)
{
	int r = place_make(&m->places, path, is_dir);
	return r < 0 ? r : place_attach(&m->places, path, mount_fd);
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

/* A copy of a mount, attached nowhere yet. `flags`: AT_RECURSIVE, or 0 for the one mount alone. */
static int copy_mount(int fd, unsigned flags)
{
	int copy_fd =
		open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | flags);
	return copy_fd < 0 ? -errno : copy_fd;
}

/* A copy of the mount of what a step names on the host, without following any link; attached nowhere yet. `flags`: AT_RECURSIVE, or 0
 * for the one mount alone. */
static int copy_source(struct making *m, const char *path, unsigned flags, struct stat *ret_st)
{
	const char *name = NULL;
	int above_fd = place_above(&m->sources, relative(path), &name);
	if (above_fd < 0)
		return above_fd;
	CLEANUP_FD int fd = open_tree(above_fd, name,
				      OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW |
					      AT_NO_AUTOMOUNT | flags);
	if (fd < 0 || fstat(fd, ret_st) < 0)
		return -errno;
	return S_ISLNK(ret_st->st_mode) ? -ELOOP : take_fd(&fd);
}

/* The same for what it names in the new root. */
static int copy_inside(const struct making *m, const char *path, unsigned flags,
		       struct stat *ret_st)
{
	CLEANUP_FD int fd = fs_open_resolve(m->root.root_fd, relative(path), O_PATH, 0,
					    RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	if (fd < 0)
		return fd;
	return fstat(fd, ret_st) < 0 ? -errno : copy_mount(fd, flags);
}

/* What was copied, on a target that is made as its source is. */
static int place_copy(struct making *m, const struct step *s, int copy_fd, mode_t mode,
		      uint64_t attributes)
{
	int r = set_attributes(copy_fd, attributes, s->kind == STEP_BIND ? AT_RECURSIVE : 0);
	return r < 0 ? r : place(m, copy_fd, relative(s->target), S_ISDIR(mode));
}

#define COVER_ATTRIBUTES                                                                           \
	(MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

/* A read-only copy of a file or directory of the box itself; returns its mount, which is attached nowhere yet. */
static int copy_read_only(const struct making *m, const char *source)
{
	CLEANUP_FD int fd = open_tree(m->root.root_fd, source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = set_attributes(fd, COVER_ATTRIBUTES, 0);
	return r < 0 ? r : take_fd(&fd);
}

static int do_cover(struct making *m, const struct step *s)
{
	if (m->at && path_within(s->target, "/proc"))
		return 0;
	CLEANUP_FD int fd = copy_read_only(m, relative(s->source));
	return fd < 0 ? fd : place_attach(&m->places, relative(s->target), fd);
}

/* What masks are copies of: mounted on itself once, so that each copy is born read-only. */
static int make_mask(struct making *m, const char *path, bool is_dir, int *ret_fd)
{
	int r = place_make(&m->places, path, is_dir);
	CLEANUP_FD int fd = r < 0 ? r : copy_read_only(m, path);
	if (fd < 0)
		return fd;
	r = place_attach(&m->places, path, fd);
	if (r >= 0)
		*ret_fd = take_fd(&fd);
	return r;
}

static int do_mask(struct making *m, const struct step *s)
{
	struct stat st = { 0 };
	const char *name = NULL;
	int above_fd = place_above(&m->places, relative(s->target), &name);
	if (above_fd < 0 || fstatat(above_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		int code = above_fd < 0 ? -above_fd : errno;
		return code == ENOENT ? 0 : -code;
	}
	CLEANUP_FD int fd = copy_mount(S_ISDIR(st.st_mode) ? m->empty_dir_fd : m->empty_file_fd, 0);
	return fd < 0 ? fd : place_attach(&m->places, relative(s->target), fd);
}

/* Ours, or of this user and group. */
static int new_tmpfs(const struct step *s, uid_t uid, gid_t gid)
{
	char size[32], inodes[32], mode[16], owner[16], group[16];
	bool is_ours = uid == (uid_t)-1;
	(void)snprintf(size, sizeof size, "%llu", (unsigned long long)s->size_bytes);
	(void)snprintf(inodes, sizeof inodes, "%llu", (unsigned long long)s->inodes);
	(void)snprintf(mode, sizeof mode, "%o", (unsigned)s->mode);
	(void)snprintf(owner, sizeof owner, "%u", (unsigned)uid);
	(void)snprintf(group, sizeof group, "%u", (unsigned)gid);
	const char *const options[][2] = { { "size", size }, { "nr_inodes", inodes },
					   { "mode", mode }, { is_ours ? NULL : "uid", owner },
					   { "gid", group }, { NULL, NULL } };
	return new_mount("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

static int do_tmpfs(struct making *m, const struct step *s)
{
	CLEANUP_FD int fd = new_tmpfs(s, (uid_t)-1, (gid_t)-1);
	if (fd < 0)
		return fd;
	if (!str_eq(s->target, "/"))
		return place(m, fd, relative(s->target), true);
	/* On top of the old root: absolute paths still lead into the old one until pivot_root. */
	if (move_mount(fd, "", AT_FDCWD, m->at ? m->at : "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	m->root.root_fd = take_fd(&fd);
	/* Until the end our own root is still the host's, so a link in a tree that is shown must not lead there: every link is followed
	 * from the new root. */
	places_begin(&m->places, m->root.root_fd, RESOLVE_IN_ROOT);
	int r = make_mask(m, EMPTY_DIR, true, &m->empty_dir_fd);
	return r < 0 ? r : make_mask(m, EMPTY_FILE, false, &m->empty_file_fd);
}

static struct id_map *find_map(const struct making *m, uid_t uid, gid_t gid)
{
	for (size_t i = 0; i < m->n_maps; i++)
		if (m->maps[i].uid == uid && m->maps[i].gid == gid)
			return &m->maps[i];
	return NULL;
}

static uid_t mapped_uid(const struct step *s)
{
	return s->ids == IDS_RUN ? s->owner_uid : USERNS_NO_UID;
}

static gid_t mapped_gid(const struct step *s)
{
	return s->ids == IDS_RUN ? s->owner_gid : USERNS_NO_GID;
}

/* A file that all may read needs none (see guard_source). Whatever can't be looked at is an error of its own step. */
static bool needs_map(const struct step *s)
{
	struct stat st = { 0 };
	if (s->kind != STEP_BIND || s->ids == IDS_PLAIN)
		return false;
	return s->ids == IDS_RUN || (lstat(s->source, &st) == 0 && S_ISDIR(st.st_mode));
}

/* Before anything is mounted over the root: from then on the kernel takes us for chrooted, and gives no user namespace. */
static void make_maps(struct making *m, const struct root_request *q)
{
	for (size_t i = 0; i < q->plan->n_steps; i++) {
		const struct step *s = &q->plan->steps[i];
		uid_t uid = mapped_uid(s);
		gid_t gid = mapped_gid(s);
		if (find_map(m, uid, gid) || !needs_map(s))
			continue;
		m->maps = xreallocarray(m->maps, m->n_maps + 1, sizeof *m->maps);
		m->maps[m->n_maps++] = (struct id_map){
			.uid = uid,
			.gid = gid,
			.fd = userns_for_mount(uid, uid == USERNS_NO_UID ? 0 : q->uid, gid,
					       gid == USERNS_NO_GID ? 0 : q->gid)
		};
	}
}

/* With everything below it, or not at all. -EINVAL: a file system that can't; -EPERM: the mount is mapped already, or is not ours to map. */
static int map_owners(struct making *m, const struct step *s, int mount_fd)
{
	const struct id_map *map = find_map(m, mapped_uid(s), mapped_gid(s));
	if (!map || map->fd < 0)
		return map ? map->fd : -ENOTSUP;
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)map->fd };
	if (mount_setattr(mount_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) < 0)
		return -errno;
	m->root.n_id_mapped++;
	return 0;
}

/* A read-only mount keeps nobody from connecting to a socket: that is for files and directories only. */
static int search(struct making *m, const struct step *s, int mount_fd, struct err *err)
{
	struct search found;
	if (search_special(mount_fd, &found) > 0)
		return err_set(
			err, ERR_CALLER, EPERM,
			"%s/%s is a %s: an analysis could reach a program of the host through it. Give a "
			"directory without sockets and FIFOs, or a copy of the files",
			s->source, found.found, found.is_fifo ? "FIFO" : "socket");
	if (found.is_part && s->ids == IDS_RUN)
		return err_set(
			err, ERR_CALLER, EPERM,
			"%s: not all users may read it, and it is too large to be searched for sockets and FIFOs, "
			"which may not be in such an input. Give a narrower directory, or a copy of the files",
			s->source);
	m->root.n_searched++;
	m->root.n_in_part += found.is_part;
	return 0;
}

/* What not all users may read: its owner, or its group, is the run's own in this mount. */
static int show_private(struct making *m, const struct step *s, int mount_fd, struct err *err)
{
	int r = map_owners(m, s, mount_fd);
	return r >= 0 ? 0
		      : err_set(err, ERR_CALLER, -r,
				"%s: not all users may read it, and it can't be shown to this run alone: its file system "
				"takes no id-mapped mounts here (%s). Copy it to one that does (ext4, xfs, btrfs), or "
				"run cupel as its owner",
				s->source, strerrordesc_np(-r));
}

/* Files of the host are data: nothing in them may lead to one of its programs. A single file that all may read needs no care. */
static int guard_source(struct making *m, const struct step *s, int mount_fd, mode_t mode,
			struct err *err)
{
	int r = -ENOTSUP;
	if (s->ids == IDS_RUN) {
		r = S_ISDIR(mode) ? search(m, s, mount_fd, err) : 0;
		return r < 0 ? r : show_private(m, s, mount_fd, err);
	}
	if (!S_ISDIR(mode))
		return 0;
	if (s->ids == IDS_UNMAPPED)
		r = map_owners(m, s, mount_fd);
	return r < 0 && s->is_searched ? search(m, s, mount_fd, err) : 0;
}

static int do_bind(struct making *m, const struct step *s, struct err *err)
{
	struct stat st = { 0 };
	uint64_t attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
			      (s->writable ? MOUNT_ATTR_NOEXEC : MOUNT_ATTR_RDONLY);
	CLEANUP_FD int fd = s->inside ? copy_inside(m, s->source, AT_RECURSIVE, &st)
				      : copy_source(m, s->source, AT_RECURSIVE, &st);
	if (fd < 0)
		return fd;
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return -EINVAL;
	int r = guard_source(m, s, fd, st.st_mode, err);
	return r < 0 ? r : place_copy(m, s, fd, st.st_mode, attributes);
}

/* Made here, since an ordinary user may mount it in the namespaces of the box only, and everything in it counts as memory of the box. The
 * keeper gets a mount of its own, below which nothing is ever mounted: it is what is collected from when these namespaces are gone. */
static int do_work_in_memory(struct making *m, const struct step *s, const struct root_request *q,
			     struct err *err)
{
	struct stat st = { 0 };
	struct root_work work = { .mount_fd = -1 };
	CLEANUP_FD int fd = new_tmpfs(s, q->uid, q->gid);
	if (fd < 0)
		return fd;
	int r = place(m, fd, relative(s->target), true);
	CLEANUP_FD int copy_fd = r < 0 ? r : copy_mount(fd, 0);
	if (copy_fd < 0)
		return copy_fd;
	r = q->give_work ? q->give_work(q->data, copy_fd, err) : -ENOTSUP;
	if (r >= 0)
		r = q->take_work(q->data, s->kind, &work, err);
	cleanup_fd(&work.mount_fd);
	if (r < 0 || fstat(fd, &st) < 0)
		return r < 0 ? r : -errno;
	return st.st_dev == work.dev && st.st_ino == work.ino ? 0 : -ESTALE;
}

static int do_work(struct making *m, const struct step *s, const struct root_request *q,
		   struct err *err)
{
	struct stat st = { 0 };
	struct root_work work = { .mount_fd = -1 };
	if (s->kind == STEP_WORK && s->size_bytes)
		return do_work_in_memory(m, s, q, err);
	int r = q->take_work(q->data, s->kind, &work, err);
	if (r < 0)
		return r;
	CLEANUP_FD int fd = work.mount_fd >= 0 ? work.mount_fd : copy_source(m, s->source, 0, &st);
	if (fd < 0)
		return fd;
	if (work.mount_fd >= 0 && fstat(fd, &st) < 0)
		return -errno;
	if (st.st_dev != work.dev || st.st_ino != work.ino)
		return -ESTALE; /* the path leads somewhere else than to what the keeper made */
	return place_copy(m, s, fd, S_IFDIR, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

static int do_device(struct making *m, const struct step *s)
{
	struct stat st = { 0 };
	CLEANUP_FD int fd = copy_source(m, s->source, 0, &st);
	if (fd < 0)
		return fd;
	/* Memory devices have major 1; anything else under such a name was put there by someone. */
	if (!S_ISCHR(st.st_mode) || (major(st.st_rdev) != 1 && !s->any_kind))
		return -ENODEV;
	return place_copy(m, s, fd, st.st_mode, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
}

/* One procfs, two mounts: what the box sees is read-only, the other is attached nowhere and gone before the analysis is there. Only
 * what is attached can be copied, so the first is attached before it gets its flag. */
static int do_proc(struct making *m, const struct step *s)
{
	if (m->at)
		return place_make(&m->places, relative(s->target), true);
	CLEANUP_FD int fd =
		new_mount("proc", NULL, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (fd < 0)
		return fd;
	int r = place(m, fd, relative(s->target), true);
	if (r < 0)
		return r;
	m->root.proc_fd = copy_mount(fd, 0);
	return m->root.proc_fd < 0 ? m->root.proc_fd : set_attributes(fd, MOUNT_ATTR_RDONLY, 0);
}

static int do_socket(struct making *m, const struct step *s)
{
	struct stat st = { 0 };
	CLEANUP_FD int fd = copy_source(m, s->source, 0, &st);
	if (fd < 0)
		return fd;
	if (!S_ISSOCK(st.st_mode))
		return -ENOTSOCK;
	/* One connects to a socket of a read-only mount too. */
	return place_copy(m, s, fd, st.st_mode, COVER_ATTRIBUTES);
}

static int do_file(struct making *m, const struct step *s, const struct root_request *q)
{
	const char *name = NULL;
	int above_fd = place_make_above(&m->places, relative(s->target), &name);
	if (above_fd < 0)
		return above_fd;
	CLEANUP_FD int fd = openat(above_fd, name,
				   O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, s->mode);
	if (fd < 0 || (s->secret && q->uid != (uid_t)-1 && fchown(fd, q->uid, q->gid) < 0))
		return -errno;
	return fs_write_all(fd, s->source, strlen(s->source));
}

static int do_link(struct making *m, const struct step *s)
{
	const char *name = NULL;
	int above_fd = place_make_above(&m->places, relative(s->target), &name);
	if (above_fd < 0)
		return above_fd;
	return symlinkat(s->source, above_fd, name) < 0 ? -errno : 0;
}

/* umount2 takes no descriptor; from the new root the path is ours alone. */
static int do_drop(struct making *m, const struct step *s)
{
	places_forget(&m->places);
	if (fchdir(m->root.root_fd) < 0)
		return -errno;
	return umount2(relative(s->target), MNT_DETACH | UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
}

static int do_seal(const struct making *m, const struct step *s)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };
	return mount_setattr(m->root.root_fd, relative(s->target), 0, &attr, sizeof attr) < 0
		       ? -errno
		       : 0;
}

static int do_step(struct making *m, const struct step *s, const struct root_request *q,
		   struct err *err)
{
	switch (s->kind) {
	case STEP_TMPFS:
		return do_tmpfs(m, s);
	case STEP_BIND:
		return do_bind(m, s, err);
	case STEP_WORK:
	case STEP_CHECKPOINT:
		return do_work(m, s, q, err);
	case STEP_PROC:
		return do_proc(m, s);
	case STEP_DEVICE:
		return do_device(m, s);
	case STEP_SOCKET:
		return do_socket(m, s);
	case STEP_DIR:
		return place_make(&m->places, relative(s->target), true);
	case STEP_FILE:
		return do_file(m, s, q);
	case STEP_LINK:
		return do_link(m, s);
	case STEP_MASK:
		return do_mask(m, s);
	case STEP_COVER:
		return do_cover(m, s);
	case STEP_IMAGE:
		return place(m, q->image_fd, relative(s->target), true);
	case STEP_DROP:
		return do_drop(m, s);
	case STEP_SEAL:
		return do_seal(m, s);
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
	CLEANUP(making_release) struct making m;
	struct mount_attr private = { .propagation = MS_PRIVATE };
	m.root = (struct root){ .root_fd = -1, .proc_fd = -1 };
	m.empty_dir_fd = m.empty_file_fd = -1;
	m.maps = NULL;
	m.n_maps = 0;
	m.at = request->at;
	m.host_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	places_begin(&m.places, -1, 0);
	places_begin(&m.sources, m.host_fd, RESOLVE_NO_SYMLINKS);
	if (mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &private, sizeof private) < 0)
		return err_layer(
			err, "mount",
			"cut the propagation of mounts: %s. Remedy: boot Linux 5.12 or later; in a container, have "
			"its seccomp filter pass mount_setattr",
			strerrordesc_np(errno));
	make_maps(&m, request);
	struct err why = { 0 };
	int r = 0;
	for (size_t i = 0; r >= 0 && i < request->plan->n_steps; i++) {
		const struct step *s = &request->plan->steps[i];
		r = do_step(&m, s, request, &why);
		if (r < 0 && why.code && err)
			*err = why; /* the step has said it all */
		else if (r < 0)
			r = mount_failed(s, -r, err);
	}
	if (r >= 0 && !m.at)
		r = pivot(&m.root, err);
	if (r < 0)
		return r;
	*ret = m.root;
	m.root.root_fd = m.root.proc_fd = -1;
	return 0;
}

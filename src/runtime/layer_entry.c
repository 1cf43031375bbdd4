/* Entries of a layer, made below a root that hostile entries may have filled with links already. The parent directory of each is opened
 * anew as the kernel would in a chroot; its last component is then never followed. */
#include "runtime/layer_entry.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/path.h"
#include "base/str.h"

#define WHITEOUT        ".wh."
#define WHITEOUT_OPAQUE ".wh..wh..opq"

static int refused(struct err *err, const char *name, const char *why)
{
	return err_set(err, ERR_CALLER, EPERM, "'%s': %s", name, why);
}

int entry_name(const char *name, unsigned depth, char **ret, struct err *err)
{
	CLEANUP_STR struct str clean = { 0 };
	unsigned n = 0;

	for (const char *at = name; *at;) {
		size_t length = strcspn(at, "/");
		bool nothing = length == 0 || (length == 1 && at[0] == '.');
		if (length == 2 && memcmp(at, "..", 2) == 0)
			return refused(err, name, "leads upward by '..'");
		if (length > NAME_MAX)
			return refused(err, name, "has a component of more than 255 bytes");
		for (size_t i = 0; i < length; i++)
			if ((unsigned char)at[i] < 0x20 || at[i] == 0x7f)
				return -EILSEQ;
		if (!nothing) {
			if (++n > depth)
				return refused(err, name, "is nested too deeply");
			if (clean.length)
				str_add(&clean, "/");
			str_add_n(&clean, at, length);
		}
		at += length;
		at += strspn(at, "/");
	}
	if (clean.length >= PATH_MAX)
		return refused(err, name, "is too long");
	*ret = clean.length ? str_take(&clean) : xstrdup("");
	return 0;
}

/* As a process in a chroot would find it. */
static int open_in_root(int root_fd, const char *path)
{
	return fs_open_resolve(root_fd, *path ? path : ".", O_PATH | O_DIRECTORY, 0,
			       RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV);
}

/* Whatever the umask is. */
static int make_dir(int parent_fd, const char *last)
{
	return mkdirat(parent_fd, last, 0755) < 0 ? -1 : fchmodat(parent_fd, last, 0755, 0);
}

/* Opens `directory`, making what is missing on the way. */
static int make_dirs_in_root(int root_fd, const char *directory)
{
	CLEANUP_FREE char *path = xstrdup(directory);
	CLEANUP_FD int above_fd = open_in_root(root_fd, "");
	char *component = path;

	for (;;) {
		char *end = strchrnul(component, '/');
		char kept = *end;
		*end = '\0';
		int fd = above_fd < 0 ? above_fd : open_in_root(root_fd, path);
		if (fd == -ENOENT && make_dir(above_fd, component) < 0)
			return errno == EEXIST ? -ENOENT : -errno; /* a link that leads nowhere */
		if (fd == -ENOENT)
			fd = open_in_root(root_fd, path);
		if (fd < 0)
			return fd;
		cleanup_fd(&above_fd);
		above_fd = fd;
		*end = kept;
		if (!kept)
			return take_fd(&above_fd);
		component = end + 1;
	}
}

enum missing { MISSING_IS_MADE, MISSING_IS_ERROR };

/* The directory that holds the last component of `name`, O_PATH. Negative errno. */
static int open_parent(int root_fd, const char *name, enum missing missing, const char **ret_last)
{
	const char *slash = strrchr(name, '/');
	CLEANUP_FREE char *parent = slash ? xstrndup(name, (size_t)(slash - name)) : xstrdup("");

	*ret_last = slash ? slash + 1 : name;
	int fd = open_in_root(root_fd, parent);
	return fd == -ENOENT && missing == MISSING_IS_MADE ? make_dirs_in_root(root_fd, parent)
							   : fd;
}

/* What the stream itself brought about is its fault, the rest is the host's. */
static int failed(struct err *err, const char *what, const char *name, int r)
{
	bool stream = r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -ENAMETOOLONG;

	return err_set(err, stream ? ERR_CALLER : ERR_HOST, stream ? EPERM : -r, "%s '%s': %s",
		       what, name, strerrordesc_np(-r));
}

/* One attempt, and another after what has the name is gone. `make` returns what a system call does. */
static int make_anew(int parent_fd, const char *last, const void *data,
		     int (*make)(int parent_fd, const char *last, const void *data))
{
	int r = make(parent_fd, last, data);
	if (r >= 0)
		return r;
	if (errno != EEXIST)
		return -errno;
	int removed = fs_remove_tree(parent_fd, last, NULL, NULL);
	if (removed < 0)
		return removed;
	r = make(parent_fd, last, data);
	return r < 0 ? -errno : r;
}

static int try_dir(int parent_fd, const char *last, const void *data)
{
	return make_dir(parent_fd, last);
}

static int try_symlink(int parent_fd, const char *last, const void *data)
{
	return symlinkat(data, parent_fd, last);
}

static int try_file(int parent_fd, const char *last, const void *data)
{
	return openat(parent_fd, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

struct link_from {
	int fd;
	const char *last;
};

static int try_link(int parent_fd, const char *last, const void *data)
{
	const struct link_from *from = data;
	return linkat(from->fd, from->last, parent_fd, last, 0);
}

int entry_make_dir(int root_fd, const char *name, struct err *err)
{
	const char *last = NULL;
	struct stat st = { 0 };
	CLEANUP_FD int fd = open_parent(root_fd, name, MISSING_IS_MADE, &last);

	if (fd >= 0 && fstatat(fd, last, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
		return 0;
	int r = fd < 0 ? fd : make_anew(fd, last, NULL, try_dir);
	return r < 0 ? failed(err, "make the directory", name, r) : 0;
}

int entry_make_symlink(int root_fd, const char *name, const char *target, struct err *err)
{
	const char *last = NULL;
	CLEANUP_FD int fd = open_parent(root_fd, name, MISSING_IS_MADE, &last);
	int r = fd < 0 ? fd : make_anew(fd, last, target, try_symlink);

	return r < 0 ? failed(err, "make the link", name, r) : 0;
}

int entry_make_link(int root_fd, const char *name, const char *target, struct err *err)
{
	const char *last = NULL, *from_last = NULL;
	struct stat old = { 0 }, st = { 0 };
	CLEANUP_FD int from_fd = open_parent(root_fd, target, MISSING_IS_ERROR, &from_last);
	CLEANUP_FD int fd = from_fd < 0 ? -ENOENT
					: open_parent(root_fd, name, MISSING_IS_MADE, &last);
	struct link_from from = { from_fd, from_last };

	if (from_fd < 0 || fstatat(from_fd, from_last, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return refused(err, name, "is a hard link to something that is not there");
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return refused(err, name, "is a hard link to something that is no file");
	/* To itself: removing the old name first would lose the file. */
	if (fd >= 0 && fstatat(fd, last, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
	    old.st_ino == st.st_ino && old.st_dev == st.st_dev)
		return 0;
	int r = fd < 0 ? fd : make_anew(fd, last, &from, try_link);
	return r < 0 ? failed(err, "make the hard link", name, r) : 0;
}

int entry_make_file(int root_fd, const char *name, struct err *err)
{
	const char *last = NULL;
	CLEANUP_FD int fd = open_parent(root_fd, name, MISSING_IS_MADE, &last);
	int r = fd < 0 ? fd : make_anew(fd, last, NULL, try_file);

	return r < 0 ? failed(err, "make the file", name, r) : r;
}

/* 1 if there was something in it. */
static int empty_dir(int dir_fd, struct err *err)
{
	CLEANUP_STRV struct strv names = { 0 };
	CLEANUP_DIR DIR *dir = fdopendir(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));

	if (!dir)
		return err_errno(err, "read a directory of the image");
	for (const struct dirent *entry; (entry = readdir(dir));)
		if (!str_eq(entry->d_name, ".") && !str_eq(entry->d_name, ".."))
			strv_add(&names, entry->d_name);
	for (size_t i = 0; i < names.n; i++) {
		int r = fs_remove_tree(dir_fd, names.v[i], NULL, err);
		if (r < 0)
			return r;
	}
	return names.n > 0;
}

int entry_whiteout(int root_fd, const char *name, struct err *err)
{
	const char *last = NULL;
	const char *base = path_base(name);
	struct stat st = { 0 };

	if (!str_starts(base, WHITEOUT))
		return 0;
	const char *hidden = base + strlen(WHITEOUT);
	if (!*hidden || str_eq(hidden, ".") || str_eq(hidden, ".."))
		return refused(err, name, "is a whiteout of nothing that could be there");
	CLEANUP_FD int fd = open_parent(root_fd, name, MISSING_IS_ERROR, &last);
	if (fd < 0)
		return 0; /* nothing below it that could be hidden */
	if (str_eq(base, WHITEOUT_OPAQUE))
		return empty_dir(fd, err);
	if (str_starts(hidden, WHITEOUT)) /* notes of one layering file system to itself */
		return 0;
	if (fstatat(fd, hidden, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	int r = fs_remove_tree(fd, hidden, NULL, err);
	return r < 0 ? r : 1;
}

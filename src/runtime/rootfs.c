/* The tree may be anybody's work: it is listed by descriptor, and nothing in it leads anywhere. */
#include "runtime/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/path.h"
#include "base/str.h"

/* A box's root has room for this much; no real system comes near. */
#define ENTRIES_MAX 600

static void list_release(struct rootfs_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].name);
		free(l->v[i].target);
	}
	free(l->v);
	*l = (struct rootfs_list){ 0 };
}

void rootfs_free(struct rootfs *r)
{
	if (!r)
		return;
	cleanup_fd(&r->fd);
	list_release(&r->top);
	list_release(&r->etc);
	list_release(&r->var);
	free(r);
}

static void rootfs_freep(struct rootfs **r)
{
	rootfs_free(*r);
	*r = NULL;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct rootfs_entry *)a)->name,
		      ((const struct rootfs_entry *)b)->name);
}

/* One name of a directory; what is neither directory, file nor link is left out. */
static int list_add(struct rootfs_list *l, int dir_fd, const char *name, const char *place,
		    struct err *err)
{
	struct stat st = { 0 };
	char target[PATH_MAX];
	ssize_t length = 0;
	if (!path_name_ok(name))
		return err_set(err, ERR_HOST, EINVAL, "%s has a name that is not printable: '%s'",
			       place, name);
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "look at %s/%s", place, name);
	bool is_link = S_ISLNK(st.st_mode);
	if (!is_link && !S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return 0;
	if (l->n == ENTRIES_MAX)
		return err_set(err, ERR_HOST, E2BIG, "%s has more than %d entries", place,
			       ENTRIES_MAX);
	if (is_link) {
		length = readlinkat(dir_fd, name, target, sizeof target);
		if (length <= 0 || length == sizeof target)
			return err_set(err, ERR_HOST, EINVAL, "%s/%s is a link that can't be read",
				       place, name);
	}
	l->v = xreallocarray(l->v, l->n + 1, sizeof *l->v);
	l->v[l->n++] = (struct rootfs_entry){ .name = xstrdup(name),
					      .target = is_link ? xstrndup(target, (size_t)length)
								: NULL };
	return 0;
}

static int list_read(int root_fd, const char *name, const char *what, struct rootfs_list *ret,
		     struct err *err)
{
	CLEANUP_FREE char *place =
		xasprintf("%s%s%s", what, *name == '.' ? "" : "/", *name == '.' ? "" : name);
	int fd = fs_open_beneath(root_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return err_set(err, ERR_HOST, -fd, "%s is not a directory that can be read: %s",
			       place, strerrordesc_np(-fd));
	CLEANUP_DIR DIR *dir = fdopendir(fd);
	if (!dir) {
		(void)close(fd);
		return err_errno(err, "read %s", place);
	}
	int r = 0;
	for (struct dirent *entry; r >= 0 && (entry = readdir(dir));)
		if (!str_eq(entry->d_name, ".") && !str_eq(entry->d_name, ".."))
			r = list_add(ret, dirfd(dir), entry->d_name, place, err);
	if (r >= 0 && ret->n)
		qsort(ret->v, ret->n, sizeof *ret->v, by_name);
	return r;
}

static bool list_has(const struct rootfs_list *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (str_eq(l->v[i].name, name))
			return true;
	return false;
}

int rootfs_read(int fd, const char *what, bool is_mounted, struct rootfs **ret, struct err *err)
{
	CLEANUP(rootfs_freep) struct rootfs *r = xcalloc(1, sizeof *r);
	r->fd = fd;
	r->is_mounted = is_mounted;
	int e = list_read(fd, ".", what, &r->top, err);
	if (e >= 0)
		e = list_read(fd, "etc", what, &r->etc, err);
	if (e >= 0)
		e = list_read(fd, "var", what, &r->var, err);
	if (e < 0)
		return e;
	if (!list_has(&r->top, "usr") && !list_has(&r->top, "bin"))
		return err_set(err, ERR_HOST, EINVAL,
			       "%s has neither usr nor bin: it is not the root of a system", what);
	*ret = take_ptr(r);
	return 0;
}

bool rootfs_has_program(const struct rootfs *r, const char *path)
{
	struct stat st = { 0 };
	CLEANUP_FD int fd =
		fs_open_resolve(r->fd, path, O_PATH, 0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111);
}

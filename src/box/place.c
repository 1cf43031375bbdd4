#include "box/place.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"

void places_begin(struct places *p, int root_fd, uint64_t resolve)
{
	p->root_fd = root_fd;
	p->resolve = resolve | RESOLVE_NO_MAGICLINKS;
	p->above_fd = -1;
	p->above[0] = 0;
}

void places_release(struct places *p)
{
	cleanup_fd(&p->above_fd);
}

void places_forget(struct places *p)
{
	cleanup_fd(&p->above_fd);
}

int place_above(struct places *p, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	*ret_name = slash ? slash + 1 : path;
	if (!slash)
		return p->root_fd;
	size_t length = (size_t)(slash - path);
	if (length >= sizeof p->above)
		return -ENAMETOOLONG;
	if (p->above_fd >= 0 && strncmp(p->above, path, length) == 0 && !p->above[length])
		return p->above_fd;
	cleanup_fd(&p->above_fd);
	memcpy(p->above, path, length);
	p->above[length] = 0;
	p->above_fd = fs_open_resolve(p->root_fd, p->above, O_PATH | O_DIRECTORY, 0, p->resolve);
	return p->above_fd;
}

static int make_node(int above_fd, const char *name, bool is_dir)
{
	if (is_dir)
		return mkdirat(above_fd, name, 0755) < 0 && errno != EEXIST ? -errno : 0;
	if (mknodat(above_fd, name, S_IFREG | 0444, 0) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	/* What is there must be a file, and no link to one. */
	CLEANUP_FD int fd = openat(above_fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : 0;
}

static int make_parents(struct places *p, const char *path)
{
	char part[PATH_MAX];
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		const char *name = NULL;
		if ((size_t)(slash - path) >= sizeof part)
			return -ENAMETOOLONG;
		memcpy(part, path, (size_t)(slash - path));
		part[slash - path] = 0;
		int above_fd = place_above(p, part, &name);
		int r = above_fd < 0 ? above_fd : make_node(above_fd, name, true);
		if (r < 0)
			return r;
	}
	return 0;
}

int place_make_above(struct places *p, const char *path, const char **ret_name)
{
	int above_fd = place_above(p, path, ret_name);
	if (above_fd != -ENOENT) /* mostly it is there already */
		return above_fd;
	int r = make_parents(p, path);
	return r < 0 ? r : place_above(p, path, ret_name);
}

int place_make(struct places *p, const char *path, bool is_dir)
{
	const char *name = NULL;
	int above_fd = place_make_above(p, path, &name);
	return above_fd < 0 ? above_fd : make_node(above_fd, name, is_dir);
}

int place_attach(struct places *p, const char *path, int mount_fd)
{
	const char *name = NULL;
	int above_fd = place_above(p, path, &name);
	if (above_fd < 0)
		return above_fd;
	if (move_mount(mount_fd, "", above_fd, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	/* The directory that the mount is in is what it was; another one may now be under the mount. */
	if (above_fd == p->root_fd)
		places_forget(p);
	return 0;
}

/* What no run has any more: an object with one name, its own. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "collect/entry.h"
#include "collect/store.h"

struct pruned {
	enum store_prune act;
	uint64_t files, bytes;
};

/* A run that links it just now keeps its file; only the name in the store goes. */
static int prune_shelf(int shelf_fd, struct pruned *pruned)
{
	CLEANUP_DIR DIR *dir = entry_list(shelf_fd);
	if (!dir)
		return -errno;
	const struct dirent *d;
	while ((d = entry_next(dir))) {
		struct stat st = { 0 };
		if (fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode) || st.st_nlink != 1)
			continue;
		if (pruned->act == STORE_REMOVE && unlinkat(dirfd(dir), d->d_name, 0) < 0)
			return -errno;
		pruned->files++;
		pruned->bytes += (uint64_t)st.st_size;
	}
	return errno ? -errno : 0;
}

static int prune(int home_fd, struct pruned *pruned)
{
	int fd = fs_open_beneath(home_fd, "store/sha256", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	CLEANUP_DIR DIR *dir = entry_list(fd);
	if (!dir)
		return -errno;
	int r = 0;
	const struct dirent *d;
	while (r >= 0 && (d = entry_next(dir))) {
		int shelf_fd = openat(dirfd(dir), d->d_name,
				      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (shelf_fd >= 0)
			r = prune_shelf(shelf_fd, pruned);
	}
	return r;
}

int store_prune(int home_fd, enum store_prune act, uint64_t *ret_files, uint64_t *ret_bytes,
		struct err *err)
{
	struct pruned pruned = { .act = act };
	int r = prune(home_fd, &pruned);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "look through the store: %s",
			       strerrordesc_np(-r));
	*ret_files = pruned.files;
	*ret_bytes = pruned.bytes;
	return 0;
}

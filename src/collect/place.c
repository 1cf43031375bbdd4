/* One open of all components but the last. */
#include "collect/place.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/str.h"

int place_parent(int dir_fd, const char *path, const char **ret_last)
{
	const char *slash = strrchr(path, '/');
	const char *last = slash ? slash + 1 : path;
	CLEANUP_FREE char *parent = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
	if (!*last || str_eq(last, ".") || str_eq(last, ".."))
		return -EINVAL;
	int fd = fs_open_beneath(dir_fd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (fd >= 0)
		*ret_last = last;
	return fd;
}

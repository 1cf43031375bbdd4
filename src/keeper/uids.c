#include "keeper/uids.h"

#include <errno.h>
#include <fcntl.h>

#include "base/cleanup.h"
#include "base/path.h"

int uid_take(const char *home, uid_t first, uint32_t count, struct uid_lease *ret, struct err *err)
{
	CLEANUP_FREE char *path = path_join(home, "uids.lock");
	CLEANUP_FD int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_errno(err, "open %s", path);
	for (uint32_t i = 0; i < count; i++) {
		struct flock lock = {
			.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = i, .l_len = 1
		};
		if (fcntl(fd, F_SETLK, &lock) == 0) {
			*ret = (struct uid_lease){ .uid = first + i, .lock_fd = take_fd(&fd) };
			return 0;
		}
		if (errno != EAGAIN && errno != EACCES)
			return err_errno(err, "lock %s", path);
	}
	return err_set(err, ERR_HOST, EUSERS,
		       "all %u uids from %u on are in use; widen 'uids:' in cupel.yaml", count,
		       first);
}

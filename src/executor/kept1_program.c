#include "executor/kept1_program.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "executor/kept1_bytes.h" /* made by mkbytes: kept1_bytes */

int kept1_put(int dir_fd, const char *name, struct err *err)
{
	CLEANUP_FD int fd =
		openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0755);
	if (fd < 0)
		return err_errno(err, "make %s", name);
	int r = fs_write_all(fd, kept1_bytes, sizeof kept1_bytes - 1);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "write %s: %s", name, strerrordesc_np(-r));
	/* Whatever the umask is. */
	return fchmod(fd, 0755) < 0 ? err_errno(err, "make %s executable", name) : 0;
}

#include "health/gc_doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/path.h"
#include "base/str.h"

char *doctor_home(const struct config *c)
{
	return path_join(c->home, "doctor");
}

/* A lock of the open file: the doctor's own sweep must not take it either. The keepers of its trials close what they inherit before
 * they do anything, so it ends with the doctor. */
static int lock_file(const struct config *c, int how)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	CLEANUP_FREE char *path = path_join(c->home, "doctor.lock");
	CLEANUP_FD int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int r;
	do
		r = fcntl(fd, how, &lock);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : take_fd(&fd);
}

int doctor_lock(const struct config *c, int *ret_fd, struct err *err)
{
	int fd = lock_file(c, F_OFD_SETLKW);
	if (fd < 0)
		return err_set(err, ERR_HOST, -fd, "lock %s/doctor.lock: %s", c->home,
			       strerrordesc_np(-fd));
	*ret_fd = fd;
	return 0;
}

int doctor_clear(const struct config *c, uint64_t *ret_alive, struct err *err)
{
	CLEANUP_FREE char *home = doctor_home(c);
	struct config trials = *c; /* borrows all of it */
	struct gc_report report = { 0 };
	trials.home = home;
	int r = gc_sweep(&trials, &report, err);
	if (r >= 0 && report.failed) {
		*err = report.last_error;
		r = -(err->code ? err->code : EIO);
	}
	*ret_alive = report.alive;
	if (r < 0 || report.alive)
		return r;
	return fs_remove_tree(AT_FDCWD, home, NULL, err);
}

/* A record of health that was cut off while it was written; whoever writes holds the lock. */
static void sweep_health(const struct config *c)
{
	CLEANUP_FREE char *path = path_join(c->home, "health");
	CLEANUP_DIR DIR *dir = opendir(path);
	if (!dir || flock(dirfd(dir), LOCK_EX | LOCK_NB) < 0)
		return;
	for (struct dirent *entry; (entry = readdir(dir));)
		if (str_starts(entry->d_name, FS_TEMP_PREFIX))
			(void)unlinkat(dirfd(dir), entry->d_name, 0);
}

void gc_doctor(const struct config *c, struct gc_report *report)
{
	sweep_health(c);
	CLEANUP_FREE char *home = doctor_home(c);
	struct stat st;
	uint64_t alive = 0;
	if (lstat(home, &st) < 0)
		return;
	CLEANUP_FD int lock_fd = lock_file(c, F_OFD_SETLK);
	if (lock_fd < 0) /* a live one, or a home that we may not write */
		return;
	struct err err = { 0 };
	if (doctor_clear(c, &alive, &err) < 0) {
		report->failed++;
		report->last_error = err;
	} else if (alive == 0) {
		report->cleared++;
	}
}

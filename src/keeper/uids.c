#include "keeper/uids.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"

/* Not in a home: two homes on one host share its uids. */
#define LEASE_DIR "/run/cupel"

static int open_leases(struct err *err)
{
	struct stat st;
	const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	CLEANUP_FD int dir_fd = open(LEASE_DIR, flags);
	if (dir_fd < 0 && errno == ENOENT) {
		if (mkdir(LEASE_DIR, 0700) < 0 && errno != EEXIST)
			return err_errno(err, "make " LEASE_DIR);
		dir_fd = open(LEASE_DIR, flags);
	}
	if (dir_fd < 0 || fstat(dir_fd, &st) < 0)
		return err_errno(err, "open " LEASE_DIR);
	if (st.st_uid != geteuid() || (st.st_mode & 022))
		return err_set(err, ERR_HOST, EPERM, LEASE_DIR " is not root's alone");
	int fd = openat(dir_fd, "uids.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? err_errno(err, "open " LEASE_DIR "/uids.lock") : fd;
}

/* In a user namespace, as a rootless container has one, only some ids exist. "INSIDE OUTSIDE COUNT" a line (user_namespaces(7)); where
 * it can't be read, whoever uses the uid finds out. */
static bool is_mapped(uid_t uid)
{
	char text[4096];
	if (fs_read_small(AT_FDCWD, "/proc/self/uid_map", text, sizeof text) < 0)
		return true;
	for (char *at = text, *end; *at; at = end) {
		unsigned long inside = strtoul(at, &end, 10);
		(void)strtoul(end, &end, 10);
		unsigned long count = strtoul(end, &end, 10);
		if (end == at)
			break;
		if (uid >= inside && uid - inside < count)
			return true;
	}
	return false;
}

static int take(int fd, uid_t uid)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = uid, .l_len = 1 };
	return fcntl(fd, F_SETLK, &lock);
}

int uid_take_again(uid_t uid, struct uid_lease *ret, struct err *err)
{
	CLEANUP_FD int fd = open_leases(err);
	if (fd < 0)
		return fd;
	if (take(fd, uid) < 0)
		return err_set(err, ERR_HOST, EAGAIN, "the uid %u is in use", uid);
	*ret = (struct uid_lease){ .uid = uid, .lock_fd = take_fd(&fd) };
	return 0;
}

int uid_take(uid_t first, uint32_t count, struct uid_lease *ret, struct err *err)
{
	uint32_t start = 0;
	CLEANUP_FD int fd = open_leases(err);
	if (fd < 0)
		return fd;
	if (getrandom(&start, sizeof start, 0) != sizeof start)
		return err_errno(err, "draw a number");
	for (uint32_t i = 0; i < count; i++) {
		uid_t uid = first + (uid_t)(((uint64_t)start + i) % count);
		if (!is_mapped(uid))
			return err_set(
				err, ERR_HOST, EUSERS,
				"user: the user %u does not exist in this user namespace, as in a rootless container. Remedy: "
				"run cupel as an ordinary user there, or name a range that it has: 'uids:' in cupel.yaml",
				uid);
		if (take(fd, uid) == 0) {
			*ret = (struct uid_lease){ .uid = uid, .lock_fd = take_fd(&fd) };
			return 0;
		}
		if (errno != EAGAIN && errno != EACCES)
			return err_errno(err, "lock a uid");
	}
	return err_set(err, ERR_HOST, EUSERS,
		       "all %u uids from %u on are in use; widen 'uids:' in cupel.yaml", count,
		       first);
}

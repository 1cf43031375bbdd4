/* The one place where names chosen by the analysis are opened. */
#include "collect/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *reason_of(const struct rights *rights, const struct stat *st)
{
	switch (st->st_mode & S_IFMT) {
	case S_IFDIR:
		return NULL;
	case S_IFREG:
		return st->st_nlink == 1 || rights->takes_links ? NULL : "hard link";
	case S_IFLNK:
		return "symbolic link";
	case S_IFIFO:
		return "FIFO";
	case S_IFSOCK:
		return "socket";
	case S_IFCHR:
	case S_IFBLK:
		return "device";
	default:
		return "unknown type";
	}
}

static const char *reason_of_errno(int code)
{
	switch (code) {
	case ELOOP:
		return "symbolic link";
	case EXDEV:
		return "on another file system";
	case ENOENT:
	case ENOTDIR:
	case EAGAIN:
		return "changed while it was read";
	default:
		return "unreadable";
	}
}

static bool is_host_failure(int code)
{
	return code == EMFILE || code == ENFILE || code == ENOMEM || code == ENOSYS;
}

static int open_strictly(int dir_fd, const char *name, int more_flags)
{
	struct open_how how = {
		.flags = (uint64_t)(O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY |
				    more_flags),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
			   RESOLVE_NO_XDEV,
	};
	return (int)syscall(SYS_openat2, dir_fd, name, &how, sizeof how);
}

static int refuse(struct entry *e, int code)
{
	if (is_host_failure(code))
		return -code;
	e->reason = reason_of_errno(code);
	return 0;
}

int entry_open(const struct rights *rights, int dir_fd, const char *name, struct entry *ret)
{
	CLEANUP_ENTRY struct entry e = { .fd = -1 };

	CLEANUP_RIGHTS_LEAVE const struct rights *as = rights;
	int r = rights_enter(as);
	if (r < 0)
		return r;

	/* Opening a device or FIFO can have effects: those are left out before the open; what counts is the fstat after it. */
	if (fstatat(dir_fd, name, &e.st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
		r = refuse(&e, errno);
	else
		e.reason = reason_of(rights, &e.st);
	if (r == 0 && !e.reason) {
		e.fd = open_strictly(dir_fd, name, S_ISDIR(e.st.st_mode) ? O_DIRECTORY : 0);
		if (e.fd < 0)
			r = refuse(&e, errno);
		else if (fstat(e.fd, &e.st) < 0)
			r = refuse(&e, errno);
		else
			e.reason = reason_of(rights, &e.st);
	}
	if (r < 0)
		return r;
	if (e.reason)
		cleanup_fd(&e.fd);
	*ret = e;
	e.fd = -1;
	return 0;
}

void entry_release(struct entry *e)
{
	cleanup_fd(&e->fd);
}

DIR *entry_list(int fd)
{
	DIR *dir = fdopendir(fd);
	if (!dir) {
		int saved = errno;
		(void)close(fd);
		errno = saved;
	}
	return dir;
}

const struct dirent *entry_next(DIR *dir)
{
	for (;;) {
		errno = 0;
		const struct dirent *d = readdir(dir);
		if (!d || (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0))
			return d;
	}
}

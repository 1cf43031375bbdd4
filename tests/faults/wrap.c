/* The functions that recording ends in, as the linker gives them to us (ld --wrap): __wrap_F is called for F, __real_F is F. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/fault.h"

/* WRAP(result, name, parameters, arguments, operation, descriptor, path): fails with -1, or does what it should. */
#define WRAP(name, parameters, arguments, op, fd, path)                                            \
	int __real_##name parameters;                                                              \
	int __wrap_##name parameters;                                                              \
	int __wrap_##name parameters                                                               \
	{                                                                                          \
		return fault_strikes(fault_next(op, fd, path)) ? -1 : __real_##name arguments;     \
	}

WRAP(fsync, (int fd), (fd), FAULT_FSYNC, fd, NULL)
WRAP(fdatasync, (int fd), (fd), FAULT_FDATASYNC, fd, NULL)
WRAP(syncfs, (int fd), (fd), FAULT_SYNCFS, fd, NULL)
WRAP(ftruncate64, (int fd, off_t length), (fd, length), FAULT_TRUNCATE, fd, NULL)
WRAP(renameat, (int from_fd, const char *from, int to_fd, const char *to),
     (from_fd, from, to_fd, to), FAULT_RENAME, to_fd, to)
WRAP(linkat, (int from_fd, const char *from, int to_fd, const char *to, int flags),
     (from_fd, from, to_fd, to, flags), FAULT_LINK, to_fd, to)
WRAP(symlinkat, (const char *from, int to_fd, const char *to), (from, to_fd, to), FAULT_LINK, to_fd,
     to)
WRAP(unlinkat, (int fd, const char *path, int flags), (fd, path, flags), FAULT_UNLINK, fd, path)
WRAP(unlink, (const char *path), (path), FAULT_UNLINK, AT_FDCWD, path)
WRAP(mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode), FAULT_MKDIR, fd, path)
WRAP(mkdir, (const char *path, mode_t mode), (path, mode), FAULT_MKDIR, AT_FDCWD, path)

ssize_t __real_write(int fd, const void *bytes, size_t length);
ssize_t __wrap_write(int fd, const void *bytes, size_t length);
ssize_t __wrap_write(int fd, const void *bytes, size_t length)
{
	int with = fault_next(FAULT_WRITE, fd, NULL);
	/* A full disk takes the first part, and a crash may come after any. */
	if ((with == ENOSPC || with == FAULT_KILL) && length > 1)
		(void)!__real_write(fd, bytes, length / 2);
	return fault_strikes(with) ? -1 : __real_write(fd, bytes, length);
}

ssize_t __real_pwrite64(int fd, const void *bytes, size_t length, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t length, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t length, off_t at)
{
	return fault_strikes(fault_next(FAULT_WRITE, fd, NULL))
		       ? -1
		       : __real_pwrite64(fd, bytes, length, at);
}

ssize_t __real_copy_file_range(int from_fd, off_t *from, int to_fd, off_t *to, size_t length,
			       unsigned flags);
ssize_t __wrap_copy_file_range(int from_fd, off_t *from, int to_fd, off_t *to, size_t length,
			       unsigned flags);
ssize_t __wrap_copy_file_range(int from_fd, off_t *from, int to_fd, off_t *to, size_t length,
			       unsigned flags)
{
	return fault_strikes(fault_next(FAULT_WRITE, to_fd, NULL))
		       ? -1
		       : __real_copy_file_range(from_fd, from, to_fd, to, length, flags);
}

/* The mode is there if the flags say so (open(2)). */
static mode_t mode_of(int flags, va_list arguments)
{
	return flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? va_arg(arguments, mode_t) : 0;
}

int __real_openat64(int fd, const char *path, int flags, ...);
int __wrap_openat64(int fd, const char *path, int flags, ...);
int __wrap_openat64(int fd, const char *path, int flags, ...)
{
	va_list arguments;
	va_start(arguments, flags);
	mode_t mode = mode_of(flags, arguments);
	va_end(arguments);
	return fault_open(fd, path, (uint64_t)(unsigned)flags)
		       ? -1
		       : __real_openat64(fd, path, flags, mode);
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	va_list arguments;
	va_start(arguments, flags);
	mode_t mode = mode_of(flags, arguments);
	va_end(arguments);
	return fault_open(AT_FDCWD, path, (uint64_t)(unsigned)flags)
		       ? -1
		       : __real_open64(path, flags, mode);
}

/* Scope-bound ownership: a local that owns something says so where it is declared, and gives it
 * away only through take_fd() or take_ptr(). */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_fd(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

static inline void cleanup_free(void *pointer)
{
	free(*(void **)pointer);
	*(void **)pointer = NULL;
}

static inline void cleanup_file(FILE **file)
{
	if (*file)
		(void)fclose(*file);
	*file = NULL;
}

static inline void cleanup_dir(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir);
	*dir = NULL;
}

#define CLEANUP(release) __attribute__((cleanup(release)))
#define CLEANUP_FD       CLEANUP(cleanup_fd)
#define CLEANUP_FREE     CLEANUP(cleanup_free)
#define CLEANUP_FILE     CLEANUP(cleanup_file)
#define CLEANUP_DIR      CLEANUP(cleanup_dir)

/* Gives the descriptor away: the caller's variable no longer owns it. */
static inline int take_fd(int *fd)
{
	int taken = *fd;
	*fd = -1;
	return taken;
}

#define take_ptr(pointer)                                                                          \
	({                                                                                         \
		__typeof__(pointer) *_p = &(pointer);                                              \
		__typeof__(pointer) _taken = *_p;                                                  \
		*_p = NULL;                                                                        \
		_taken;                                                                            \
	})

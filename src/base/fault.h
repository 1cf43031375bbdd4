/* Faults for tests, in a build of their own (meson -Dfaults=true); in any other nothing of this is compiled.
 *
 * CUPEL_FAULT holds words with commas between them:
 *   phases            print the name of every phase, and exit
 *   trace:FILE        append to FILE each phase that is reached and each operation that could be failed
 *   abort:PHASE       SIGKILL where that phase is first reached
 *   pause:PHASE       SIGSTOP there
 *   fail:OP:K:ERRNO   the K-th operation OP, counted over `cupel` and its keeper, fails: EIO, ENOSPC, EROFS, or KILL for a SIGKILL in
 *                     its place. OP is write, truncate, fsync, fdatasync, syncfs, rename, link, unlink, mkdir, create, or any. K+ is
 *                     that one and all after it. OP@NAME counts only those on a path that ends with NAME.
 *
 * The operations are caught by the linker (--wrap), so the sources that record are the same in both builds. What the kernel's own
 * file systems are told does not count, nor do the standard streams, nor anything in the box. */
#pragma once

#ifdef CUPEL_FAULTS

#include <stdbool.h>
#include <stdint.h>

#define FAULT_PHASE(name)                                                                          \
	do {                                                                                       \
		static const char *const phase_                                                    \
			__attribute__((used, section("fault_phases"))) = (name);                   \
		fault_phase(phase_);                                                               \
	} while (0)
void fault_phase(const char *name);

/* openat2 has no function that could be wrapped. True, with errno, if it is to fail. */
#define FAULT_OPEN(dir_fd, path, flags) fault_open(dir_fd, path, flags)
bool fault_open(int dir_fd, const char *path, uint64_t flags);

enum fault_op {
	FAULT_WRITE,
	FAULT_TRUNCATE,
	FAULT_FSYNC,
	FAULT_FDATASYNC,
	FAULT_SYNCFS,
	FAULT_RENAME,
	FAULT_LINK,
	FAULT_UNLINK,
	FAULT_MKDIR,
	FAULT_CREATE,
	FAULT_OP_COUNT_
};

#define FAULT_KILL (-1)
/* Counts an operation: 0 if it is to go on, FAULT_KILL, or the errno it fails with. `path` is below `fd`, or NULL. */
int fault_next(enum fault_op op, int fd, const char *path);
/* True, with errno, if it is to fail; does not return from FAULT_KILL. */
bool fault_strikes(int fault);

#else

#define FAULT_PHASE(name)               ((void)0)
#define FAULT_OPEN(dir_fd, path, flags) false

#endif

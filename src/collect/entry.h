/* One name in a hostile directory: opened beneath, without links, mounts, blocking or side effects, then judged by fstat. */
#pragma once

#include <sys/stat.h>

#include "base/cleanup.h"
#include "collect/rights.h"

struct entry {
	int fd;         /* owned; -1 when refused */
	struct stat st; /* of the descriptor; when refused, what is known: st_mode 0 if nothing */
	const char *reason; /* static; why it was refused, NULL when it was not */
};

/* Regular files with one link and directories only. 0 with *ret filled, refused or not; negative errno when the host failed
 * (no descriptors, rights could not be switched). */
int entry_open(const struct rights *rights, int dir_fd, const char *name, struct entry *ret);
void entry_release(struct entry *e);
#define CLEANUP_ENTRY CLEANUP(entry_release)

/* A stream over the directory behind `fd`, which it takes (also on failure). NULL with errno set. */
DIR *entry_list(int fd);
/* The next name but "." and ".."; NULL at the end or, with errno set, on failure. */
const struct dirent *entry_next(DIR *dir);

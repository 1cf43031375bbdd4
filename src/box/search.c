#include "box/search.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

static int search_below(struct search *s, int dir_fd, const char *name, size_t length, int depth);

/* Mostly the directory says what an entry is; some file systems don't. One that is gone is nothing; any other that can't be asked could be a socket. */
static unsigned char type_of(struct search *s, int dir_fd, const struct dirent *entry)
{
	struct stat st = { 0 };
	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type;
	if (fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0) {
		s->is_part |= errno != ENOENT;
		return DT_UNKNOWN;
	}
	return IFTODT(st.st_mode);
}

/* `length` of s->found is the path of the directory. */
static int see_entry(struct search *s, int dir_fd, const struct dirent *entry, size_t length,
		     int depth)
{
	unsigned char type = type_of(s, dir_fd, entry);
	if (type != DT_DIR && type != DT_SOCK && type != DT_FIFO)
		return 0;
	int n = snprintf(s->found + length, sizeof s->found - length, "%s%s", length ? "/" : "",
			 entry->d_name);
	size_t below = length + (size_t)n < sizeof s->found ? length + (size_t)n
							    : sizeof s->found - 1;
	s->is_fifo = type == DT_FIFO;
	return type == DT_DIR ? search_below(s, dir_fd, entry->d_name, below, depth + 1) : 1;
}

static int search_below(struct search *s, int dir_fd, const char *name, size_t length, int depth)
{
	CLEANUP_FD int fd = depth > SEARCH_DEPTH_MAX ? -1
						     : openat(dir_fd, name,
							      O_RDONLY | O_DIRECTORY | O_CLOEXEC |
								      (depth ? O_NOFOLLOW : 0));
	CLEANUP_DIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		/* A directory that went meanwhile has nothing in it, and through one that can't be entered nothing is reached. */
		s->is_part |= depth > SEARCH_DEPTH_MAX ||
			      (errno != ENOENT && faccessat(dir_fd, name, X_OK,
							    AT_EACCESS | AT_SYMLINK_NOFOLLOW) == 0);
		return 0;
	}
	(void)take_fd(&fd); /* it is the stream's now */
	errno = 0;
	for (struct dirent *entry; (entry = readdir(dir)); errno = 0) {
		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
			continue;
		if (++s->entries > SEARCH_ENTRIES_MAX) {
			s->is_part = true;
			return 0;
		}
		if (see_entry(s, dirfd(dir), entry, length, depth) > 0)
			return 1;
	}
	s->is_part |= errno != 0;
	return 0;
}

int search_special(int dir_fd, struct search *ret)
{
	struct search s = { 0 };
	int r = search_below(&s, dir_fd, ".", 0, 0);
	if (!r)
		s.found[0] = 0;
	*ret = s;
	return r;
}

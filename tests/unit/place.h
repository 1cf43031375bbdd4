/* A directory of a test's own below /tmp, gone when the test is over. */
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"

struct place {
	char path[32];
	int fd;
};

static inline int place_set_up(void **state)
{
	static struct place p;

	memcpy(p.path, "/tmp/cupel-unit-XXXXXX", 23);
	if (!mkdtemp(p.path))
		return -1;
	p.fd = open(p.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = &p;
	return p.fd < 0 ? -1 : 0;
}

static inline int place_tear_down(void **state)
{
	struct place *p = *state;

	(void)close(p->fd);
	return fs_remove_tree(AT_FDCWD, p->path, NULL, NULL);
}

/* Looks through a directory of the host for what leads to its programs: sockets and FIFOs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SEARCH_ENTRIES_MAX 200000 /* a fraction of a second on a local disk */
#define SEARCH_DEPTH_MAX   128

struct search {
	uint64_t entries;
	bool is_part; /* there is more: too many entries, too deep, or a directory that can't be listed */
	bool is_fifo;     /* and not a socket */
	char found[1024]; /* where, relative to the directory; "": nowhere */
};

/* By descriptor, also across mounts, through no link. 1 if one was found, 0 if not: then is_part says how much that means. */
int search_special(int dir_fd, struct search *ret);

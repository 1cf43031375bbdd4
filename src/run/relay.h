/* A way for a step, whose box has no network, to the one server that its database is on: a process that listens on a socket in the file
 * system, which the box is shown, and passes bytes on. It has no right of root's, reads nothing of what it passes, and dies with the
 * keeper that started it. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/fs.h"

#define RELAY_NAME FS_TEMP_PREFIX "relay" /* in the run directory: the sweep removes it */

struct relay {
	pid_t pid;  /* 0: none */
	int dir_fd; /* owned; where its socket is */
};

struct relay_request {
	const char *directory; /* where the socket is made */
	const char *host;
	uint16_t port;
};

int relay_start(const struct relay_request *request, struct relay *ret, struct err *err);
void relay_stop(struct relay *r);

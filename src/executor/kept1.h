/* Pid 1 of a container that another program made: what it was told, and how it goes on. */
#pragma once

#include <stdbool.h>

#include "box/enter.h"

#define KEPT1_FAILED 125 /* of this program itself */

struct kept1 {
	struct plan plan; /* as far as pid 1 must know it */
	bool own_user;
	bool has_seccomp;
	bool is_guest; /* of a kernel that is not the host's: it tells less, and nobody outside sees in */
};

/* What the container's maker can't do, for this process and all that come from it. */
int kept1_confine(struct kept1 *p, struct err *err);
/* Goes through the keeper's handshake of box/enter.h from there on, and is init. */
_Noreturn void kept1_keep(struct kept1 *p);

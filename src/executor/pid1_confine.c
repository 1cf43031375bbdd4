#include <errno.h>
#include <sys/prctl.h>

#include "box/landlock.h"
#include "box/seccomp.h"
#include "executor/pid1.h"

int confine(const struct orders *o, int *ret_abi)
{
	struct err err = { 0 };
	int abi = o->n_rules ? landlock_abi() : 0, r = 0;
	/* Whoever made the container has done this already; both below need it. */
	if ((o->n_rules || o->filter) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	if (abi > 0)
		r = landlock_confine(o->rules, o->n_rules, abi, &err);
	if (r >= 0 && o->filter)
		r = seccomp_confine(&err);
	*ret_abi = abi;
	return r;
}

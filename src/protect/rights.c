/* The rights of whom a file belongs to, for a while; only root has others to give. */
#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "protect/parts.h"

static int keep_groups(struct rights *r)
{
	int n = getgroups(0, NULL);
	if (n < 0)
		return -errno;
	r->groups = xcalloc((size_t)n + 1, sizeof *r->groups);
	n = getgroups(n, r->groups);
	r->n_groups = n < 0 ? 0 : (size_t)n;
	return n < 0 ? -errno : 0;
}

int rights_of_owner(const char *path, struct rights *ret, struct err *err)
{
	struct stat st = { 0 };
	if (geteuid() != 0)
		return 0;
	if (stat(path, &st) < 0 || keep_groups(ret) < 0)
		return err_errno(err, "look at %s", path);
	ret->gid = getegid();
	ret->are_put_off = true;
	if (setgroups(0, NULL) < 0 || setegid(st.st_gid) < 0 || seteuid(st.st_uid) < 0)
		return err_errno(err, "become the owner of %s", path);
	return 0;
}

/* Nobody goes on with rights that he does not know. */
void rights_restore(struct rights *r)
{
	if (r->are_put_off &&
	    (seteuid(0) < 0 || setegid(r->gid) < 0 || setgroups(r->n_groups, r->groups) < 0))
		abort();
	free(r->groups);
	*r = (struct rights){ 0 };
}

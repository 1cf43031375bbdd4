/* The switch of file-system ids around opens in a hostile tree; fails closed. */
#include "collect/rights.h"

#include <errno.h>
#include <grp.h>
#include <linux/securebits.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/str.h"

/* An invalid id changes nothing and answers with the present one: the only way to read it back without /proc. */
static uid_t fsuid_now(void)
{
	return (uid_t)setfsuid((uid_t)-1);
}

static gid_t fsgid_now(void)
{
	return (gid_t)setfsgid((gid_t)-1);
}

static int groups_drop(struct rights *r, struct err *err)
{
	int n = getgroups(0, NULL);
	if (n < 0)
		return err_errno(err, "read the supplementary groups");
	CLEANUP_FREE gid_t *groups = xcalloc((size_t)n + 1, sizeof *groups);
	n = getgroups(n, groups);
	if (n < 0)
		return err_errno(err, "read the supplementary groups");
	if (n > 0 && setgroups(0, NULL) < 0)
		return err_errno(err, "drop the supplementary groups before opening outputs");
	r->groups = take_ptr(groups);
	r->n_groups = n;
	r->groups_dropped = n > 0;
	return 0;
}

int rights_init(struct rights *r, uid_t uid, gid_t gid, struct err *err)
{
	*r = (struct rights){ .uid = uid, .gid = gid };
	if (uid == (uid_t)-1 || gid == (gid_t)-1)
		return err_set(err, ERR_HOST, EINVAL, "outputs cannot be opened as an invalid id");
	if (uid == geteuid())
		return 0;
	if (geteuid() != 0)
		return err_set(err, ERR_HOST, EPERM,
			       "outputs of uid %u can be opened by that user or by root only",
			       (unsigned)uid);
	/* With this bit the capabilities would stay when the fsuid leaves 0. */
	int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
	if (bits < 0 || (bits & SECBIT_NO_SETUID_FIXUP))
		return err_set(err, ERR_HOST, EPERM,
			       "root's capabilities would survive the switch to uid %u: outputs "
			       "are not opened",
			       (unsigned)uid);
	int ok = groups_drop(r, err);
	if (ok < 0)
		return ok;
	r->switches = true;
	return 0;
}

void rights_release(struct rights *r)
{
	/* Failing leaves the process with fewer rights than before, which is the safe side. */
	if (r->groups_dropped)
		(void)setgroups((size_t)r->n_groups, r->groups);
	free(r->groups);
	*r = (struct rights){ 0 };
}

int rights_enter(const struct rights *r)
{
	if (!r->switches)
		return 0;
	(void)setfsgid(r->gid);
	(void)setfsuid(r->uid);
	if (fsgid_now() == r->gid && fsuid_now() == r->uid)
		return 0;
	rights_leave(&(const struct rights *){ r });
	return -EPERM;
}

void rights_leave(const struct rights **r)
{
	if (!(*r)->switches)
		return;
	int saved = errno;
	(void)setfsuid(geteuid());
	(void)setfsgid(getegid());
	errno = saved;
}

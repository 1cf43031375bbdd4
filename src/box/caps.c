/* By hand: two system calls do not need libcap. */
#include "box/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SECUREBITS_LOCKED                                                                          \
	(SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |                           \
	 SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |   \
	 SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

/* Past the last capability the kernel knows it is EINVAL. Who may not drop one may have dropped it before. */
static int drop_bounding(struct err *err)
{
	for (unsigned long cap = 0;; cap++) {
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL)
			return 0;
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) != 0)
			return err_set(err, ERR_HOST, EPERM,
				       "capabilities: drop %lu from the bounding set", cap);
	}
}

int caps_seal(struct err *err)
{
	int r = drop_bounding(err);
	if (r < 0)
		return r;
	if (prctl(PR_GET_SECUREBITS, 0, 0, 0, 0) != SECUREBITS_LOCKED &&
	    prctl(PR_SET_SECUREBITS, SECUREBITS_LOCKED, 0, 0, 0) < 0)
		return err_errno(err, "capabilities: lock the securebits");
	return 0;
}

int caps_drop_all(struct err *err)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };
	int r = caps_seal(err);
	if (r < 0)
		return r;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_errno(err, "capabilities: clear the ambient set");
	if (syscall(SYS_capset, &header, none) < 0)
		return err_errno(err, "capabilities: empty the sets");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "no_new_privs");
	return 0;
}

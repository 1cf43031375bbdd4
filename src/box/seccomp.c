/* Loads the ready-made program: nothing is generated at launch. */
#include "box/seccomp.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "box/seccomp_filter.h" /* made by mkfilter: filter_program, FILTER_DIGEST */

unsigned seccomp_length(void)
{
	return sizeof filter_program / sizeof *filter_program;
}

const char *seccomp_digest(void)
{
	return FILTER_DIGEST;
}

int seccomp_confine(struct err *err)
{
	const struct sock_fprog program = {
		.len = (unsigned short)seccomp_length(),
		.filter = (struct sock_filter *)(void *)filter_program,
	};
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
		return err_errno(err, "seccomp: install the filter");
	return 0;
}

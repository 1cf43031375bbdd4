/* Loads the ready-made program: nothing is generated at launch. */
#include "box/seccomp.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
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
		return err_layer(
			err, "seccomp",
			"the kernel refuses the filter: %s. Remedy: boot a kernel with CONFIG_SECCOMP_FILTER; in a "
			"container, have its own filter pass seccomp",
			strerrordesc_np(errno));
	return 0;
}

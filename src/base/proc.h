/* Processes as pidfds. */
#pragma once

#include <sys/types.h>

int proc_pidfd_open(pid_t pid);
int proc_signal(int pidfd, int signal); /* negative errno */
/* Reaps a child by pidfd, waiting for it. *ret_status (or NULL) as from waitpid. */
int proc_wait(int pidfd, int *ret_status);
/* pidfd of the parent while it is really still our parent `expected`; -ESRCH if it is gone already. */
int proc_parent_pidfd(pid_t expected);

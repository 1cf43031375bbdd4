/* Acts by their outcome: 0, or the errno that refused them. */
#pragma once

#include <stddef.h>
#include <sys/un.h>

int act_open(const char *path, int flags);
int act_connect_tcp(unsigned port); /* of this network's loopback */
int act_connect_abstract(const char *name);
int act_segment(int segment); /* look at System V shared memory */
/* A socket that listens on this network's loopback; the caller's. */
int act_listen(int *ret_fd, unsigned *ret_port);
/* The length of the address. */
unsigned abstract_address(const char *name, struct sockaddr_un *ret);

#define ACT_CALLS_MAX 16
struct act_call {
	const char *name;
	int outcome;
};
/* System calls that the filter of the box refuses with EPERM. */
size_t act_calls(struct act_call ret[ACT_CALLS_MAX]);

/* Acts that would reach somebody: sockets of every family, System V and POSIX objects. */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "probe.h"

/* family, type/protocol */
static int protocol_of(const char *text)
{
	const char *slash = text ? strchr(text, '/') : NULL;
	return slash ? (int)number(slash + 1) : 0;
}

static int open_socket(const char *a, const char *b)
{
	return answer_fd(socket((int)number(a), (int)number(b) | SOCK_CLOEXEC, protocol_of(b)));
}

static int open_pair(const char *a, const char *b)
{
	int fds[2];
	return answer(
		socketpair((int)number(a), (int)number(b) | SOCK_CLOEXEC, protocol_of(b), fds));
}

static int connect_to(int family, int type, const void *address, socklen_t length)
{
	int fd = socket(family, type | SOCK_CLOEXEC, 0);
	return fd < 0 ? -errno : answer(connect(fd, address, length));
}

static int tcp4(const char *a, const char *b)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons((uint16_t)number(a)),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	return connect_to(AF_INET, SOCK_STREAM, &address, sizeof address);
}

static int tcp6(const char *a, const char *b)
{
	struct sockaddr_in6 address = { .sin6_family = AF_INET6,
					.sin6_port = htons((uint16_t)number(a)),
					.sin6_addr = IN6ADDR_LOOPBACK_INIT };
	return connect_to(AF_INET6, SOCK_STREAM, &address, sizeof address);
}

/* An address that is nobody's (TEST-NET-1): without a route it is refused at once. A datagram socket sends
 * nothing on connect, it only asks for the route. */
static int route(const char *a, const char *b)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(9),
				       .sin_addr.s_addr = htonl(0xc0000201) };
	return connect_to(AF_INET, SOCK_DGRAM, &address, sizeof address);
}

static int unix_path(const char *a, const char *b)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	(void)snprintf(address.sun_path, sizeof address.sun_path, "%s", a);
	return connect_to(AF_UNIX, SOCK_STREAM, &address, sizeof address);
}

static int unix_abstract(const char *a, const char *b)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	(void)snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s", a);
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(a));
	return connect_to(AF_UNIX, SOCK_STREAM, &address, length);
}

/* A server of one's own on the box's loopback must work: analyses talk to themselves. */
static int own_loopback(const char *a, const char *b)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof address;
	int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (server < 0 || bind(server, (struct sockaddr *)&address, length) < 0 ||
	    listen(server, 1) < 0 || getsockname(server, (struct sockaddr *)&address, &length) < 0)
		return -errno;
	return connect_to(AF_INET, SOCK_STREAM, &address, length);
}

static int shm_find(const char *a, const char *b)
{
	return answer(shmget((key_t)number(a), 0, 0));
}

static int sem_find(const char *a, const char *b)
{
	return answer(semget((key_t)number(a), 0, 0));
}

static int msg_find(const char *a, const char *b)
{
	return answer(msgget((key_t)number(a), 0));
}

static int mq_find(const char *a, const char *b)
{
	return answer(mq_open(a, O_RDONLY | O_NONBLOCK));
}

static int posix_shm(const char *a, const char *b)
{
	return answer_fd(shm_open(a, O_RDONLY, 0));
}

/* Objects for the control to find, and their removal: key, name. */
static int ipc_make(const char *a, const char *b)
{
	key_t key = (key_t)number(a);
	if (shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0666) < 0 ||
	    semget(key, 1, IPC_CREAT | IPC_EXCL | 0666) < 0 ||
	    msgget(key, IPC_CREAT | IPC_EXCL | 0666) < 0)
		return -errno;
	if (mq_open(b, O_RDONLY | O_CREAT | O_EXCL, 0666, NULL) < 0)
		return -errno;
	return answer_fd(shm_open(b, O_RDWR | O_CREAT | O_EXCL, 0666));
}

static int ipc_remove(const char *a, const char *b)
{
	key_t key = (key_t)number(a);
	(void)shmctl(shmget(key, 0, 0), IPC_RMID, NULL);
	(void)semctl(semget(key, 0, 0), 0, IPC_RMID);
	(void)msgctl(msgget(key, 0), IPC_RMID, NULL);
	(void)mq_unlink(b);
	return answer(shm_unlink(b));
}

const struct act talk_acts[] = {
	{ "socket", open_socket },
	{ "socketpair", open_pair },
	{ "tcp4", tcp4 },
	{ "tcp6", tcp6 },
	{ "route", route },
	{ "unix", unix_path },
	{ "abstract", unix_abstract },
	{ "own-loopback", own_loopback },
	{ "shm", shm_find },
	{ "sem", sem_find },
	{ "msg", msg_find },
	{ "mq", mq_find },
	{ "posix-shm", posix_shm },
	{ "ipc-make", ipc_make },
	{ "ipc-remove", ipc_remove },
	{ NULL, NULL },
};

#include "run/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

#define LINKS_MAX   8
#define ROOM        (64 * 1024)
#define CONNECT_SEC 10
#define NOBODY      65534
#define LISTEN_FD   3

/* What came from one side and is not yet with the other. */
struct flow {
	size_t start, end;
	bool is_over; /* nothing more will come */
	bool is_told; /* and the other side knows */
	char bytes[ROOM];
};

/* A client and its server; flows[i] comes from fds[i]. */
struct link {
	int fds[2];
	struct flow flows[2];
};

static void link_close(struct link *l)
{
	cleanup_fd(&l->fds[0]);
	cleanup_fd(&l->fds[1]);
}

static int connect_to(const struct addrinfo *a)
{
	const struct timeval patience = { .tv_sec = CONNECT_SEC };
	CLEANUP_FD int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) < 0 ||
	    connect(fd, a->ai_addr, a->ai_addrlen) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return take_fd(&fd);
}

static int connect_server(const struct relay_request *q, const char **ret_why)
{
	char port[8];
	struct addrinfo want = { .ai_socktype = SOCK_STREAM }, *found = NULL;
	(void)snprintf(port, sizeof port, "%u", q->port);
	int error = getaddrinfo(q->host, port, &want, &found);
	if (error) {
		*ret_why = gai_strerror(error);
		return -EHOSTUNREACH;
	}
	int fd = -EHOSTUNREACH;
	for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
		fd = connect_to(a);
	freeaddrinfo(found);
	if (fd < 0)
		*ret_why = strerrordesc_np(-fd);
	return fd;
}

/* In the server's own words: an ErrorResponse, which every client shows. */
static void refuse(int client_fd, const struct relay_request *q, const char *why)
{
	char ignored[1024];
	CLEANUP_STR struct str body = { 0 };
	CLEANUP_FREE char *text = xasprintf("MThe server at %s:%u can't be reached from here: %s",
					    q->host, q->port, why);
	static const char *const fields[] = { "SFATAL", "VFATAL", "C08001" };
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		str_add_n(&body, fields[i], strlen(fields[i]) + 1);
	str_add_n(&body, text, strlen(text) + 1);
	str_add_n(&body, "", 1);
	uint32_t length = htobe32((uint32_t)body.length + 4);
	struct pollfd asked = { .fd = client_fd, .events = POLLIN };
	if (poll(&asked, 1, CONNECT_SEC * 1000) == 1)
		(void)!read(client_fd, ignored, sizeof ignored);
	if (send(client_fd, "E", 1, MSG_NOSIGNAL) == 1 &&
	    send(client_fd, &length, sizeof length, MSG_NOSIGNAL) == sizeof length)
		(void)!send(client_fd, body.text, body.length, MSG_NOSIGNAL);
}

static void take_client(struct link *links, const struct relay_request *q)
{
	const char *why = "";
	CLEANUP_FD int client_fd = accept4(LISTEN_FD, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct link *free_one = NULL;
	for (size_t i = 0; i < LINKS_MAX && !free_one; i++)
		free_one = links[i].fds[0] < 0 ? &links[i] : NULL;
	if (client_fd < 0 || !free_one)
		return;
	int server_fd = connect_server(q, &why);
	if (server_fd < 0) {
		refuse(client_fd, q, why);
		return;
	}
	free_one->fds[0] = take_fd(&client_fd);
	free_one->fds[1] = server_fd;
	for (int i = 0; i < 2; i++)
		free_one->flows[i].start = free_one->flows[i].end = free_one->flows[i].is_over =
			free_one->flows[i].is_told = 0;
}

/* False if this side is gone for good. */
static bool pump(struct link *l, int side, short events)
{
	struct flow *in = &l->flows[side], *out = &l->flows[!side];
	if ((events & (POLLIN | POLLHUP)) && in->start == in->end && !in->is_over) {
		ssize_t n = recv(l->fds[side], in->bytes, ROOM, 0);
		if (n < 0 && errno != EAGAIN)
			return false;
		in->is_over = n == 0;
		in->start = 0;
		in->end = n > 0 ? (size_t)n : 0;
	}
	if ((events & POLLOUT) && out->start < out->end) {
		ssize_t n = send(l->fds[side], out->bytes + out->start, out->end - out->start,
				 MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			return false;
		out->start += n > 0 ? (size_t)n : 0;
	}
	if (out->is_over && out->start == out->end && !out->is_told) {
		(void)shutdown(l->fds[side], SHUT_WR);
		out->is_told = true;
	}
	return !(events & POLLERR);
}

static short wanted(const struct link *l, int side)
{
	const struct flow *in = &l->flows[side], *out = &l->flows[!side];
	return (short)((in->start == in->end && !in->is_over ? POLLIN : 0) |
		       (out->start < out->end ? POLLOUT : 0));
}

static _Noreturn void pass_on(const struct relay_request *q)
{
	struct link *links = xcalloc(LINKS_MAX, sizeof *links);
	for (size_t i = 0; i < LINKS_MAX; i++)
		links[i].fds[0] = links[i].fds[1] = -1;
	for (;;) {
		struct pollfd fds[1 + 2 * LINKS_MAX] = { { .fd = LISTEN_FD, .events = POLLIN } };
		for (size_t i = 0; i < 2 * LINKS_MAX; i++) {
			const struct link *l = &links[i / 2];
			short events = wanted(l, i % 2);
			/* One that has nothing to do would wake us for its end, again and again. */
			fds[1 + i] = (struct pollfd){ .fd = events ? l->fds[i % 2] : -1,
						      .events = events };
		}
		if (poll(fds, 1 + 2 * LINKS_MAX, -1) < 0)
			continue;
		for (size_t i = 0; i < LINKS_MAX; i++) {
			struct link *l = &links[i];
			if (l->fds[0] < 0)
				continue;
			bool alive = pump(l, 0, fds[1 + 2 * i].revents) &&
				     pump(l, 1, fds[2 + 2 * i].revents) && pump(l, 0, 0);
			if (!alive || (l->flows[0].is_told && l->flows[1].is_told))
				link_close(l);
		}
		if (fds[0].revents)
			take_client(links, q);
	}
}

static _Noreturn void child_main(const struct relay_request *q, int listen_fd, pid_t parent)
{
	if (dup2(listen_fd, LISTEN_FD) < 0 || close_range(LISTEN_FD + 1, ~0U, 0) < 0)
		_exit(1);
	if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
			       setresuid(NOBODY, NOBODY, NOBODY) < 0))
		_exit(1);
	(void)prctl(PR_SET_NAME, "cupel-relay");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
	    getppid() != parent)
		_exit(1);
	pass_on(q);
}

/* By descriptor: the path of a home may be longer than the name of a socket. */
static int listen_in(int dir_fd, struct err *err)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	(void)snprintf(name.sun_path, sizeof name.sun_path, "/proc/self/fd/%d/" RELAY_NAME, dir_fd);
	/* Nobody but the step's box can reach it: the directory is ours alone. */
	if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof name) < 0 ||
	    fchmodat(dir_fd, RELAY_NAME, 0666, 0) < 0 || listen(fd, LINKS_MAX) < 0)
		return err_errno(err, "make the socket of the relay");
	return take_fd(&fd);
}

int relay_start(const struct relay_request *request, struct relay *ret, struct err *err)
{
	CLEANUP_FD int dir_fd = open(request->directory, O_DIRECTORY | O_PATH | O_CLOEXEC);
	if (dir_fd < 0)
		return err_errno(err, "open %s", request->directory);
	CLEANUP_FD int listen_fd = listen_in(dir_fd, err);
	if (listen_fd < 0)
		return listen_fd;
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0)
		child_main(request, listen_fd, parent);
	if (pid < 0) {
		(void)unlinkat(dir_fd, RELAY_NAME, 0);
		return err_errno(err, "start the relay");
	}
	*ret = (struct relay){ .pid = pid, .dir_fd = take_fd(&dir_fd) };
	return 0;
}

void relay_stop(struct relay *r)
{
	if (r->pid <= 0)
		return;
	(void)kill(r->pid, SIGKILL);
	while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
		;
	(void)unlinkat(r->dir_fd, RELAY_NAME, 0);
	cleanup_fd(&r->dir_fd);
	*r = (struct relay){ .dir_fd = -1 };
}

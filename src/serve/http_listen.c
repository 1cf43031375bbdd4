/* The sockets: made here, or passed by the manager (socket activation). */
#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/num.h"
#include "serve/http.h"
#include "serve/http_parts.h"

static int give_to_group(const struct config *c, const char *path, struct err *err)
{
	char buffer[16384];
	struct group entry = { 0 }, *found = NULL;
	if (!c->service.group)
		return 0;
	if (getgrnam_r(c->service.group, &entry, buffer, sizeof buffer, &found) != 0 || !found)
		return err_caller(err, "service.group: there is no group '%s'", c->service.group);
	if (chown(path, (uid_t)-1, found->gr_gid) < 0 || chmod(path, 0660) < 0)
		return err_errno(err, "give %s to the group %s", path, c->service.group);
	return 0;
}

/* A socket that nobody answers on is what a killed service left. */
int http_listen_unix(struct http *h, struct err *err)
{
	const struct config *c = h->context.config;
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	CLEANUP_FREE char *path = config_service_socket(c);
	if (strlen(path) > SERVICE_SOCKET_MAX)
		return err_caller(
			err, "the path of the socket, %s, is too long; set service.socket", path);
	(void)snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
	CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(err, "make the socket %s", path);
	if (connect(fd, (const struct sockaddr *)&at, sizeof at) == 0)
		return err_caller(err, "another service answers on %s", path);
	struct stat st = { 0 }; /* a file that is none refuses too, and stays */
	if (errno == ECONNREFUSED && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
		(void)unlink(path);
	mode_t old = umask(0177);
	int r = bind(fd, (const struct sockaddr *)&at, sizeof at);
	(void)umask(old);
	if (r < 0)
		return err_errno(err, "listen on %s", path);
	h->path = xstrdup(path);
	r = give_to_group(c, path, err);
	if (r < 0)
		return r;
	if (listen(fd, SOMAXCONN) < 0)
		return err_errno(err, "listen on %s", path);
	return take_fd(&fd);
}

union address {
	struct sockaddr any;
	struct sockaddr_in four;
	struct sockaddr_in6 six;
};

/* The configuration was read strictly; what is left is whether the address is one. */
static socklen_t address_parse(const char *text, union address *ret)
{
	char name[64];
	uint64_t port = 0;
	const char *colon = strrchr(text, ':');
	bool is_six = text[0] == '[' && colon && colon > text + 1 && colon[-1] == ']';
	if (!colon || num_u64(colon + 1, 65535, &port) < 0)
		return 0;
	size_t n = (size_t)(colon - text) - (is_six ? 2 : 0);
	if (n >= sizeof name)
		return 0;
	memcpy(name, text + is_six, n);
	name[n] = 0;
	*ret = (union address){ 0 };
	if (is_six && inet_pton(AF_INET6, name, &ret->six.sin6_addr) == 1) {
		ret->six.sin6_family = AF_INET6;
		ret->six.sin6_port = htons((uint16_t)port);
		return sizeof ret->six;
	}
	if (is_six || inet_pton(AF_INET, name, &ret->four.sin_addr) != 1)
		return 0;
	ret->four.sin_family = AF_INET;
	ret->four.sin_port = htons((uint16_t)port);
	return sizeof ret->four;
}

int http_listen_tcp(const char *text, struct err *err)
{
	union address at;
	const int yes = 1;
	socklen_t length = address_parse(text, &at);
	if (!length)
		return err_caller(
			err,
			"service.listen: '%s' has no address; write 127.0.0.1:8470 or [::1]:8470",
			text);
	CLEANUP_FD int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(err, "make a socket for %s", text);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (bind(fd, &at.any, length) < 0 || listen(fd, SOMAXCONN) < 0)
		return err_errno(err, "listen on %s", text);
	return take_fd(&fd);
}

int http_listen_passed(int *ret_unix, int *ret_tcp, struct err *err)
{
	int n = sd_listen_fds(1);
	for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + n; fd++) {
		bool is_unix = sd_is_socket_unix(fd, SOCK_STREAM, 1, NULL, 0) > 0;
		int *to = is_unix ? ret_unix : ret_tcp;
		if (!is_unix && sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) <= 0)
			return err_caller(err, "the manager passed a socket that is not for HTTP");
		if (*to >= 0)
			return err_caller(err, "the manager passed two sockets of one kind");
		*to = fd;
	}
	return n < 0 ? err_set(err, ERR_HOST, -n, "take the manager's sockets: %s",
			       strerrordesc_np(-n))
		     : 0;
}

static void say_tcp(const union address *at)
{
	char name[INET6_ADDRSTRLEN] = "";
	bool is_six = at->any.sa_family == AF_INET6;
	const void *number = is_six ? (const void *)&at->six.sin6_addr
				    : (const void *)&at->four.sin_addr;
	if (!inet_ntop(at->any.sa_family, number, name, sizeof name))
		return;
	log_error(
		is_six ? "listening at http://[%s]:%u/, for whoever has a token (`cupel token create`)"
		       : "listening at http://%s:%u/, for whoever has a token (`cupel token create`)",
		name, ntohs(is_six ? at->six.sin6_port : at->four.sin_port));
}

void http_say(const struct http *h)
{
	for (size_t i = 0; i < h->n_doors; i++) {
		union {
			union address ip;
			struct sockaddr_un local;
			struct sockaddr any;
		} at = { 0 };
		socklen_t length = sizeof at - 1;
		int fd = MHD_get_daemon_info(h->doors[i].daemon, MHD_DAEMON_INFO_LISTEN_FD)
				 ->listen_fd;
		if (getsockname(fd, &at.any, &length) < 0)
			continue;
		if (at.any.sa_family == AF_UNIX)
			log_error("listening on %s", at.local.sun_path);
		else
			say_tcp(&at.ip);
	}
	if (h->n_doors == 1)
		log_error(
			"no pages for a browser: service.listen names no address (man cupel-serve)");
}

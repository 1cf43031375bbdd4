/* libmicrohttpd within our loop: it has no threads and no loop of its own, its epoll descriptors are sources of ours. */
#include "serve/http.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "serve/child.h"
#include "serve/http_parts.h"
#include "serve/news.h"

/* What the library wants next, and when. */
static void set_timer(struct door *d)
{
	MHD_UNSIGNED_LONG_LONG ms = 0;
	if (MHD_get_timeout(d->daemon, &ms) != MHD_YES) {
		(void)sd_event_source_set_enabled(d->timer, SD_EVENT_OFF);
		return;
	}
	(void)sd_event_source_set_time_relative(d->timer, ms * 1000);
	(void)sd_event_source_set_enabled(d->timer, SD_EVENT_ONESHOT);
}

void http_kick(struct door *d)
{
	if (!d->timer)
		return;
	(void)sd_event_source_set_time_relative(d->timer, 0);
	(void)sd_event_source_set_enabled(d->timer, SD_EVENT_ONESHOT);
}

static int on_readable(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct door *d = data;
	(void)MHD_run(d->daemon);
	set_timer(d);
	return 0;
}

static int on_time(sd_event_source *source, uint64_t usec, void *data)
{
	struct door *d = data;
	(void)MHD_run(d->daemon);
	set_timer(d);
	return 0;
}

/* Escapes are for url.c alone. */
static size_t leave_escapes(void *data, struct MHD_Connection *mhd, char *text)
{
	return strlen(text);
}

/* What the library would print is about clients, who may be anybody: nobody reads that. */
static void be_silent(void *data, const char *format, va_list args)
{
}

static struct MHD_Daemon *start(struct door *d, int fd)
{
	unsigned per_address = d->is_tcp ? HTTP_PER_ADDRESS : 0;
	return MHD_start_daemon(
		MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
		request_answer, d, MHD_OPTION_EXTERNAL_LOGGER, be_silent, NULL,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED, request_end, d,
		MHD_OPTION_NOTIFY_CONNECTION, connection_notify, d, MHD_OPTION_URI_LOG_CALLBACK,
		request_begin, d, MHD_OPTION_UNESCAPE_CALLBACK, leave_escapes, NULL,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS,
		MHD_OPTION_PER_IP_CONNECTION_LIMIT, per_address, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)HTTP_POOL, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_STALLED_SECONDS,
		MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
}

/* Takes the descriptor. */
static int open_door(struct http *h, int listen_fd, bool is_tcp, struct err *err)
{
	CLEANUP_FD int fd = listen_fd;
	sd_event *event = h->context.event;
	struct door *d = &h->doors[h->n_doors];
	*d = (struct door){ .http = h, .is_tcp = is_tcp };
	d->daemon = start(d, fd);
	if (!d->daemon)
		return err_set(err, ERR_HOST, EIO, "start the HTTP library");
	(void)take_fd(&fd);
	h->n_doors++;
	int epoll = MHD_get_daemon_info(d->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	int r = sd_event_add_io(event, &d->readable, epoll, EPOLLIN, on_readable, d);
	if (r >= 0)
		r = sd_event_add_time_relative(event, &d->timer, CLOCK_MONOTONIC, 0, 1, on_time, d);
	return r < 0 ? err_set(err, ERR_HOST, -r, "wait for requests: %s", strerrordesc_np(-r)) : 0;
}

static int open_doors(struct http *h, struct err *err)
{
	const char *listen = h->context.config->service.listen;
	int unix_fd = -1, tcp_fd = -1;
	int r = http_listen_passed(&unix_fd, &tcp_fd, err);
	if (r >= 0 && unix_fd < 0)
		r = unix_fd = http_listen_unix(h, err);
	if (r >= 0 && tcp_fd < 0 && listen)
		r = tcp_fd = http_listen_tcp(listen, err);
	if (r >= 0)
		r = open_door(h, unix_fd, false, err);
	if (r >= 0 && tcp_fd >= 0)
		r = open_door(h, tcp_fd, true, err);
	return r;
}

int http_open(sd_event *event, const struct config *config, struct service *service,
	      struct http **ret, struct err *err)
{
	__attribute__((cleanup(http_freep))) struct http *h = xcalloc(1, sizeof *h);
	h->sending_end = &h->sending;
	h->auth = auth_new(config);
	h->rates = rates_new();
	h->streams = streams_new(event);
	h->context = (struct context){ .event = event, .config = config, .service = service };
	int r = desk_open(event, &h->desk, err);
	if (r < 0)
		return r;
	h->context.desk = h->desk;
	h->context.metrics = &h->metrics;
	h->context.children = h->children = children_new(event);
	r = news_open(event, config, service, &h->news, err);
	if (r < 0)
		return r;
	h->context.news = h->news;
	r = sd_event_add_time_relative(event, &h->late, CLOCK_MONOTONIC, 0, 100000, connection_late,
				       h);
	if (r < 0)
		return err_set(err, ERR_HOST, -r, "make a timer: %s", strerrordesc_np(-r));
	r = open_doors(h, err);
	if (r < 0)
		return r;
	*ret = take_ptr(h);
	return 0;
}

void http_quiesce(struct http *h)
{
	for (size_t i = 0; i < h->n_doors; i++) {
		int fd = MHD_quiesce_daemon(h->doors[i].daemon);
		cleanup_fd(&fd);
	}
	if (h->path)
		(void)unlink(h->path);
	cleanup_free(&h->path);
}

/* A suspended client would be one that the library can't let go of. */
void http_free(struct http *h)
{
	if (!h)
		return;
	h->is_closing = true;
	desk_freep(&h->desk);
	children_free(h->children);
	request_end_all(h);
	streams_end(h->streams);
	for (size_t i = 0; i < h->n_doors; i++) {
		sd_event_source_freep(&h->doors[i].readable);
		sd_event_source_freep(&h->doors[i].timer);
		for (int n = 0; n < 3; n++)
			(void)MHD_run(h->doors[i].daemon);
		MHD_stop_daemon(h->doors[i].daemon);
	}
	sd_event_source_freep(&h->late);
	if (h->path)
		(void)unlink(h->path);
	auth_free(h->auth);
	rates_free(h->rates);
	streams_free(h->streams);
	news_free(h->news);
	json_decref(h->metrics.sums);
	free(h->peers);
	free(h->path);
	free(h);
}

/* Clients, and how long each may take to say what it wants: as a whole, not from byte to byte, which a slow one could go on with for ever. */
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/http_parts.h"

static void unlist(struct http *h, struct connection *c)
{
	if (!c->is_listed)
		return;
	*c->before = c->next;
	if (c->next)
		c->next->before = c->before;
	else
		h->sending_end = c->before;
	c->is_listed = false;
}

void connection_is_heard(struct connection *c)
{
	unlist(c->door->http, c);
}

static void set_late(struct http *h)
{
	if (!h->sending)
		return;
	(void)sd_event_source_set_time(h->late, h->sending->since_ns / 1000 +
							HTTP_HEAD_SECONDS * 1000000ULL);
	(void)sd_event_source_set_enabled(h->late, SD_EVENT_ONESHOT);
}

void connection_listens(struct connection *c)
{
	struct http *h = c->door->http;
	bool was_empty = !h->sending;
	unlist(h, c);
	c->since_ns = clock_monotonic_ns();
	c->next = NULL;
	c->before = h->sending_end;
	*h->sending_end = c;
	h->sending_end = &c->next;
	c->is_listed = true;
	if (was_empty)
		set_late(h);
}

/* The library sees the end of the stream and closes it. */
int connection_late(sd_event_source *source, uint64_t usec, void *data)
{
	struct http *h = data;
	uint64_t now = clock_monotonic_ns();
	while (h->sending && h->sending->since_ns + HTTP_HEAD_SECONDS * NS_PER_SEC <= now) {
		(void)shutdown(h->sending->fd, SHUT_RDWR);
		unlist(h, h->sending);
	}
	set_late(h);
	return 0;
}

/* Places of users who have none left are given to others. */
static struct peer *peer_of(struct http *h, uid_t uid)
{
	struct peer *unused = NULL;
	for (size_t i = 0; i < h->n_peers; i++) {
		if (h->peers[i].uid == uid && h->peers[i].n)
			return &h->peers[i];
		if (!h->peers[i].n)
			unused = &h->peers[i];
	}
	if (!unused) {
		h->peers = xreallocarray(h->peers, h->n_peers + 1, sizeof *h->peers);
		unused = &h->peers[h->n_peers++];
	}
	*unused = (struct peer){ .uid = uid };
	return unused;
}

/* One user's are not to keep all others out. */
static void count(struct connection *c)
{
	struct ucred peer = { 0 };
	socklen_t length = sizeof peer;
	if (c->door->is_tcp || getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0 ||
	    peer.uid == 0 || peer.uid == geteuid())
		return;
	struct peer *p = peer_of(c->door->http, peer.uid);
	if (p->n++ >= HTTP_PER_USER)
		(void)shutdown(c->fd, SHUT_RDWR);
	c->uid = peer.uid;
	c->is_counted = true;
}

void connection_notify(void *data, struct MHD_Connection *mhd, void **socket_context,
		       enum MHD_ConnectionNotificationCode what)
{
	struct door *door = data;
	struct connection *c = *socket_context;
	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		c = xcalloc(1, sizeof *c);
		c->door = door;
		c->fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
		*socket_context = c;
		connection_listens(c);
		count(c);
		return;
	}
	if (c)
		unlist(door->http, c);
	if (c && c->is_counted)
		peer_of(door->http, c->uid)->n--;
	free(c);
	*socket_context = NULL;
}

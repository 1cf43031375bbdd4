/* Streams of events. All of a client's are driven together by its multi handle; each connects again by itself when it was cut. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "serve/client_parts.h"

#define SILENT_MS      60000 /* the service says something every 15 s */
#define RETRY_FIRST_MS 100
#define RETRY_LAST_MS  2000
#define ERROR_MAX      65536

struct client_stream {
	struct client *client;   /* borrowed */
	char *path;              /* owned */
	CURL *easy;              /* owned */
	struct curl_slist *list; /* owned; its headers */
	struct sse sse;
	struct str refusal;
	bool is_connected; /* or being connected */
	bool is_opened;    /* an answer of 200 has come, and was not told yet */
	bool is_lost;      /* not told yet */
	uint64_t heard_ns, retry_ns, delay_ms;
	int failed; /* negative errno: never again */
	struct err err;
	struct client_stream *next;
};

static long status_of(struct client_stream *s)
{
	long status = 0;
	(void)s->client->api.easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
	return status;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *data)
{
	struct client_stream *s = data;
	s->heard_ns = clock_monotonic_ns();
	if (size * n == 2 && bytes[0] == '\r' && status_of(s) == 200) {
		s->is_opened = true;
		s->delay_ms = RETRY_FIRST_MS;
	}
	return size * n;
}

static size_t on_bytes(char *bytes, size_t size, size_t n, void *data)
{
	struct client_stream *s = data;
	s->heard_ns = clock_monotonic_ns();
	if (status_of(s) != 200) {
		if (s->refusal.length + size * n <= ERROR_MAX)
			str_add_n(&s->refusal, bytes, size * n);
		return size * n;
	}
	s->failed = sse_feed(&s->sse, bytes, size * n, &s->err);
	return s->failed < 0 ? 0 : size * n;
}

static void disconnect(struct client_stream *s)
{
	const struct curl_api *api = &s->client->api;
	if (s->is_connected)
		(void)api->multi_remove_handle(s->client->multi, s->easy);
	api->slist_free_all(s->list);
	s->list = NULL;
	s->is_connected = false;
	str_release(&s->refusal);
	sse_restart(&s->sse);
}

static int connect_stream(struct client_stream *s, struct err *err)
{
	struct client *c = s->client;
	const struct curl_api *api = &c->api;
	CLEANUP_FREE char *last = s->sse.last_id[0] ? xasprintf("Last-Event-ID: %s", s->sse.last_id)
						    : NULL;
	api->easy_reset(s->easy);
	client_add_header(c, &s->list, "Accept: text/event-stream");
	if (last)
		client_add_header(c, &s->list, last);
	int r = client_prepare(c, s->easy, s->path, &s->list, err);
	if (r < 0)
		return r;
	if (api->easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, on_bytes) != CURLE_OK ||
	    api->easy_setopt(s->easy, CURLOPT_WRITEDATA, (void *)s) != CURLE_OK ||
	    api->easy_setopt(s->easy, CURLOPT_HEADERFUNCTION, on_header) != CURLE_OK ||
	    api->easy_setopt(s->easy, CURLOPT_HEADERDATA, (void *)s) != CURLE_OK ||
	    api->easy_setopt(s->easy, CURLOPT_PRIVATE, (void *)s) != CURLE_OK ||
	    api->multi_add_handle(c->multi, s->easy) != CURLM_OK)
		return err_set(err, ERR_HOST, EOPNOTSUPP, "libcurl can't follow %s", c->where);
	s->is_connected = true;
	s->heard_ns = clock_monotonic_ns();
	return 0;
}

int client_stream_open(struct client *c, const char *path, const char *last_id,
		       struct client_stream **ret, struct err *err)
{
	CLEANUP_CLIENT_STREAM struct client_stream *s = xcalloc(1, sizeof *s);
	s->client = c;
	s->path = xstrdup(path);
	s->delay_ms = RETRY_FIRST_MS;
	if (last_id) {
		(void)snprintf(s->sse.last_id, sizeof s->sse.last_id, "%s", last_id);
		sse_restart(&s->sse);
	}
	if (!c->multi)
		c->multi = c->api.multi_init();
	s->easy = c->api.easy_init();
	if (!c->multi || !s->easy)
		return err_set(err, ERR_HOST, ENOMEM, "libcurl cannot begin");
	int r = connect_stream(s, err);
	if (r < 0)
		return r;
	s->next = c->streams;
	c->streams = s;
	*ret = take_ptr(s);
	return 0;
}

void client_stream_free(struct client_stream *s)
{
	if (!s)
		return;
	for (struct client_stream **at = &s->client->streams; *at; at = &(*at)->next)
		if (*at == s) {
			*at = s->next;
			break;
		}
	if (s->easy) {
		disconnect(s);
		s->client->api.easy_cleanup(s->easy);
	}
	sse_release(&s->sse);
	free(s->path);
	free(s);
}

static void lose(struct client_stream *s)
{
	disconnect(s);
	s->is_opened = false;
	s->is_lost = true;
	s->retry_ns = clock_monotonic_ns() + s->delay_ms * NS_PER_MS;
	s->delay_ms = s->delay_ms * 2 > RETRY_LAST_MS ? RETRY_LAST_MS : s->delay_ms * 2;
}

/* What the service refuses it will refuse again; a service that goes, or has too much to do, comes back. */
static void end_transfer(struct client_stream *s)
{
	long status = status_of(s);
	if (s->failed >= 0 && status >= 300 && status < 500 && status != 429)
		s->failed = client_refused(s->client, status, s->refusal.text, s->refusal.length,
					   &s->err);
	if (s->failed < 0)
		disconnect(s);
	else
		lose(s);
}

static bool has_news(const struct client *c)
{
	for (const struct client_stream *s = c->streams; s; s = s->next)
		if (s->is_opened || s->is_lost || s->failed < 0 || s->sse.n_taken < s->sse.n_events)
			return true;
	return false;
}

/* How long until one of them has to be connected again, or is taken for dead. */
static int next_ms(const struct client *c, uint64_t now, uint64_t deadline)
{
	uint64_t until = deadline;
	for (const struct client_stream *s = c->streams; s; s = s->next) {
		uint64_t at = s->is_connected ? s->heard_ns + SILENT_MS * NS_PER_MS : s->retry_ns;
		if (s->failed >= 0 && at < until)
			until = at;
	}
	if (until <= now)
		return 0;
	uint64_t ms = (until - now) / NS_PER_MS + 1;
	return ms > 60000 ? 60000 : (int)ms;
}

static void look_after(struct client *c)
{
	uint64_t now = clock_monotonic_ns();
	for (struct client_stream *s = c->streams; s; s = s->next) {
		if (s->failed < 0)
			continue;
		if (s->is_connected && now - s->heard_ns > SILENT_MS * NS_PER_MS)
			lose(s);
		else if (!s->is_connected && now >= s->retry_ns)
			s->failed = connect_stream(s, &s->err);
	}
}

static int drive(struct client *c, int timeout_ms, struct err *err)
{
	const struct curl_api *api = &c->api;
	int running = 0, left = 0;
	if (api->multi_poll(c->multi, NULL, 0, timeout_ms, NULL) != CURLM_OK ||
	    api->multi_perform(c->multi, &running) != CURLM_OK)
		return err_set(err, ERR_HOST, EIO, "libcurl can't follow %s", c->where);
	for (CURLMsg *m; (m = api->multi_info_read(c->multi, &left));) {
		char *s = NULL;
		if (m->msg == CURLMSG_DONE &&
		    api->easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &s) == CURLE_OK && s)
			end_transfer((struct client_stream *)s);
	}
	return 0;
}

int client_wait(struct client *c, int timeout_ms, struct err *err)
{
	uint64_t deadline = timeout_ms < 0
				    ? UINT64_MAX
				    : clock_monotonic_ns() + (uint64_t)timeout_ms * NS_PER_MS;
	for (int r = 0;;) {
		if (has_news(c))
			return 0;
		uint64_t now = clock_monotonic_ns();
		r = drive(c, next_ms(c, now, deadline), err);
		if (r < 0)
			return r;
		look_after(c);
		if (!has_news(c) && clock_monotonic_ns() >= deadline)
			return 0;
	}
}

/* Told in the order in which it happened, as far as that matters: events that came before a connection was lost are still good. */
int client_stream_next(struct client_stream *s, struct sse_event *ret, struct err *err)
{
	if (sse_next(&s->sse, ret))
		return CLIENT_EVENT;
	if (s->is_lost) {
		s->is_lost = false;
		return CLIENT_LOST;
	}
	if (s->is_opened) {
		s->is_opened = false;
		return CLIENT_OPENED;
	}
	if (s->failed < 0) {
		*err = s->err;
		return s->failed;
	}
	return CLIENT_NOTHING;
}

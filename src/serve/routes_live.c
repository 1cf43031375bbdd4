/* Answers that go on: a log as it grows, a run's events, everything that changes. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/num.h"
#include "flow/record.h"
#include "serve/live.h"
#include "serve/news.h"
#include "serve/runwatch.h"
#include "serve/sse.h"
#include "spec/id.h"

#define PIECE (8 << 10)

struct tail {
	const struct context *context; /* borrowed */
	char *id;                      /* owned */
	struct news_ear ear;           /* for an end that leaves no record */
	struct runwatch *watch;        /* owned */
	struct stream *stream;         /* borrowed; NULL until there is one */
	char name[16];                 /* of the file */
	int fd;                        /* owned; -1 as long as it is not there */
	uint64_t offset;               /* the next byte */
	uint64_t after;                /* events up to this number are known */
	bool is_told;                  /* that it has ended */
};

static void tail_free(void *data)
{
	struct tail *t = data;
	news_unlisten(&t->ear);
	runwatch_free(t->watch);
	free(t->id);
	cleanup_fd(&t->fd);
	free(t);
}

static void changed(void *data)
{
	struct tail *t = data;
	if (t->stream)
		stream_wake(t->stream);
}

static ssize_t read_more(struct tail *t, char *buffer, size_t room)
{
	int dir_fd = runwatch_dir(t->watch);
	if (t->fd < 0 && dir_fd >= 0) {
		int fd = fs_open_beneath(dir_fd, t->name,
					 O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0);
		t->fd = fd < 0 ? -1 : fd;
	}
	return t->fd < 0 ? 0 : pread(t->fd, buffer, room, (off_t)t->offset);
}

/* Bytes at the end that may be the beginning of a character, which the next read would complete. */
static size_t cut_character(const char *text, size_t n)
{
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		unsigned char c = (unsigned char)text[n - back];
		if ((c & 0xc0) == 0x80)
			continue;
		size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
		return length > back ? back : 0;
	}
	return 0;
}

static enum stream_next tell_end(struct tail *t, const char *cause, struct str *to)
{
	sse_add_json(to, NULL, "end", json_pack("{s:s,s:s}", "state", "ended", "cause", cause));
	return STREAM_OVER;
}

static bool has_pipeline_ended(const struct tail *t, char *ret_cause, size_t room)
{
	const struct config *c = t->context->config;
	CLEANUP_JSON json_t *result = NULL;
	/* In this order: the result is written before the lock is let go. */
	bool is_alive = flow_record_alive(c, t->id);
	(void)flow_record_read(c, t->id, "result.json", &result, NULL);
	const char *cause = json_string_value(json_object_get(result, "cause"));
	(void)snprintf(ret_cause, room, "%s", cause ? cause : "lost");
	return !is_alive;
}

/* A pipeline has no record among the runs, nor has what never began: cancelled while it waited, or refused. */
static bool has_ended_somehow(struct tail *t, char *ret_cause, size_t room)
{
	if (runwatch_dir(t->watch) >= 0)
		return runwatch_has_ended(t->watch, ret_cause, room);
	CLEANUP_JSON json_t *live = service_run(t->context->service, t->id);
	if (live)
		return false;
	if (flow_record_exists(t->context->config, t->id))
		return has_pipeline_ended(t, ret_cause, room);
	(void)snprintf(ret_cause, room, "unknown");
	(void)news_cause(t->context->news, t->id, ret_cause, room);
	return true;
}

static enum stream_next next_log(void *data, struct str *to)
{
	struct tail *t = data;
	char buffer[PIECE], cause[32], id[24];
	/* Asked before the last read: what is written before the end is not to be missed. */
	bool has_ended = has_ended_somehow(t, cause, sizeof cause);
	ssize_t n = read_more(t, buffer, sizeof buffer);
	size_t held = n > 0 ? cut_character(buffer, (size_t)n) : 0;
	if (n > 0 && has_ended && (size_t)n < sizeof buffer)
		held = 0; /* nothing will complete it */
	if (n <= 0 || (size_t)n == held)
		return has_ended ? tell_end(t, cause, to) : STREAM_WAIT;
	size_t length = (size_t)n - held;
	t->offset += length;
	(void)snprintf(id, sizeof id, "%llu", (unsigned long long)t->offset);
	CLEANUP_FREE char *text = live_text(buffer, length);
	sse_add_json(to, id, "log", json_pack("{s:o}", "text", json_text(text)));
	return STREAM_SOME;
}

static bool add_event(struct tail *t, const char *line, size_t length, struct str *to)
{
	char id[24];
	json_t *event = json_loadb(line, length, 0, NULL);
	uint64_t n = (uint64_t)json_integer_value(json_object_get(event, "n"));
	if (!event || n <= t->after) {
		json_decref(event);
		return false;
	}
	t->after = n;
	(void)snprintf(id, sizeof id, "%llu", (unsigned long long)n);
	sse_add_json(to, id, "event", event);
	return true;
}

/* Whole lines only. A line is longer than a piece only if somebody else wrote it. */
static enum stream_next next_event(void *data, struct str *to)
{
	struct tail *t = data;
	CLEANUP_FREE char *buffer = xmalloc(LIVE_LINE_MAX);
	char cause[32];
	for (;;) {
		bool has_ended = has_ended_somehow(t, cause, sizeof cause);
		ssize_t n = read_more(t, buffer, LIVE_LINE_MAX);
		const char *end = n > 0 ? memchr(buffer, '\n', (size_t)n) : NULL;
		if (!end)
			return has_ended ? tell_end(t, cause, to) : STREAM_WAIT;
		size_t length = (size_t)(end - buffer);
		t->offset += length + 1;
		if (add_event(t, buffer, length, to))
			return STREAM_SOME;
	}
}

static bool last_id(const struct request *r, const char *key, uint64_t *ret)
{
	const char *text = request_header(r, "Last-Event-ID");
	if (!text)
		text = url_value(&r->url, key);
	*ret = 0;
	return !text || !*text || num_u64(text, INT64_MAX, ret) >= 0;
}

static bool is_known(const struct request *r, const char *id)
{
	char cause[32];
	if (id_check(id, NULL) < 0)
		return false;
	return live_is_known(r, id) || flow_record_exists(r->context->config, id) ||
	       news_cause(r->context->news, id, cause, sizeof cause);
}

static void begin(struct request *r, const char *name, const char *key,
		  const struct stream_source *source)
{
	static const struct problem malformed = { 400, "malformed", NULL },
				    unknown = { 404, "not-found", NULL };
	uint64_t from = 0;
	if (!last_id(r, key, &from)) {
		respond_problem(r, &malformed, "Last-Event-ID is none that came from here");
		return;
	}
	if (!is_known(r, r->arg[0])) {
		respond_problem(r, &unknown, "there is no record of a run '%s'", r->arg[0]);
		return;
	}
	struct tail *t = xcalloc(1, sizeof *t);
	t->context = r->context;
	t->id = xstrdup(r->arg[0]);
	t->ear = (struct news_ear){ .id = t->id, .heard = changed, .data = t };
	t->fd = -1;
	t->offset = str_eq(key, "offset") ? from : 0;
	t->after = str_eq(key, "offset") ? 0 : from;
	(void)snprintf(t->name, sizeof t->name, "%s", name);
	t->watch = runwatch_new(r->context->event, r->context->config, r->arg[0], changed, t);
	news_listen(r->context->news, &t->ear);
	t->stream = respond_stream(r, source, t);
}

void live_log(struct request *r, const char *name)
{
	static const struct stream_source source = { next_log, tail_free };
	begin(r, name, "offset", &source);
}

void live_events(struct request *r)
{
	static const struct stream_source source = { next_event, tail_free };
	begin(r, "events.jsonl", "after", &source);
}

/* A ring of events. A client has a place in it, and no memory of its own here: one that falls behind is told to look at everything again. */
#include "serve/news.h"

#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>

#include "base/clock.h"
#include "base/num.h"
#include "serve/gate.h"
#include "serve/routes.h"
#include "serve/sse.h"
#include "spec/id.h"

#define RING   4096
#define BATCH  64
#define LATELY 1024

struct reader {
	struct news *news;     /* borrowed; NULL once it is gone */
	struct stream *stream; /* borrowed; NULL until there is one */
	uint64_t at;           /* the next to be told */
	bool is_stale;
	struct viewer viewer; /* of who follows: others' changes are passed over */
	struct reader *next, **before;
};

struct news {
	const struct config *config; /* borrowed */
	struct service *service;     /* borrowed */
	uint64_t epoch;              /* of this service: numbers of another mean nothing */
	uint64_t n;                  /* so many there were; the next has this number */
	char *ring[RING];            /* owned; their data */
	char ids[RING][ID_MAX + 1];  /* of those that the service told; else "" */
	char submitters[RING][VIEWER_NAME_MAX + 1]; /* "": none */
	struct reader *readers;
	struct news_ear *ears;
	sd_event_source *active; /* owned */
};

static void tell(struct news *n, const struct service_change *change)
{
	CLEANUP_JSON json_t *o = json_pack("{s:s,s:s,s:s?,s:s}", "id", change->id, "state",
					   change->state, "cause", change->cause, "change",
					   change->what);
	n->ids[n->n % RING][0] = 0;
	(void)snprintf(n->submitters[n->n % RING], sizeof n->submitters[0], "%s",
		       change->submitter ? change->submitter : "");
	char **place = &n->ring[n->n++ % RING];
	free(*place);
	*place = json_dumps(o, JSON_COMPACT);
	for (struct reader *r = n->readers; r; r = r->next)
		if (r->stream)
			stream_wake(r->stream);
	for (struct news_ear *ear = n->ears; ear; ear = ear->next)
		if (str_eq(ear->id, change->id))
			ear->heard(ear->data);
}

static void on_news(void *data, const struct service_change *change)
{
	struct news *n = data;
	tell(n, change);
	(void)snprintf(n->ids[(n->n - 1) % RING], sizeof n->ids[0], "%s", change->id);
}

/* What the service told of a moment ago is its own, though it has forgotten it by now. */
static bool was_told(const struct news *n, const char *id)
{
	for (uint64_t i = n->n; i > 0 && n->n - i < LATELY; i--)
		if (str_eq(n->ids[(i - 1) % RING], id))
			return true;
	return false;
}

const char *news_submitter(const struct news *n, const char *id)
{
	for (uint64_t i = n->n; i > 0 && n->n - i < LATELY; i--)
		if (str_eq(n->ids[(i - 1) % RING], id))
			return n->submitters[(i - 1) % RING];
	return NULL;
}

bool news_cause(const struct news *n, const char *id, char *ret_cause, size_t room)
{
	for (uint64_t i = n->n; i > 0 && n->n - i < LATELY; i--) {
		if (!str_eq(n->ids[(i - 1) % RING], id))
			continue;
		CLEANUP_JSON json_t *told = json_loads(n->ring[(i - 1) % RING], 0, NULL);
		const char *cause = json_string_value(json_object_get(told, "cause"));
		bool has_ended = str_eq(json_string_value(json_object_get(told, "state")), "ended");
		(void)snprintf(ret_cause, room, "%s", cause ? cause : "unknown");
		return has_ended;
	}
	return false;
}

void news_listen(struct news *n, struct news_ear *ear)
{
	ear->next = n->ears;
	ear->before = &n->ears;
	if (ear->next)
		ear->next->before = &ear->next;
	n->ears = ear;
}

void news_unlisten(struct news_ear *ear)
{
	if (!ear->before)
		return;
	*ear->before = ear->next;
	if (ear->next)
		ear->next->before = ear->before;
	ear->before = NULL;
}

/* A run that somebody started himself: active/ID comes, and goes. */
static int on_active(sd_event_source *source, const struct inotify_event *event, void *data)
{
	struct news *n = data;
	bool comes = event->mask & IN_CREATE;
	if (event->len == 0 || id_check(event->name, NULL) < 0)
		return 0;
	CLEANUP_JSON json_t *ours = service_run(n->service, event->name);
	if (ours || was_told(n, event->name))
		return 0;
	CLEANUP_FREE char *submitter = gate_submitter(n->config, event->name);
	tell(n, &(struct service_change){ .id = event->name,
					  .state = comes ? "running" : "ended",
					  .submitter = submitter,
					  .what = comes ? "started" : "ended" });
	return 0;
}

int news_open(sd_event *event, const struct config *config, struct service *service,
	      struct news **ret, struct err *err)
{
	CLEANUP_FREE char *active = xasprintf("%s/active", config->home);
	struct news *n = xcalloc(1, sizeof *n);
	n->config = config;
	n->service = service;
	n->epoch = clock_real_ns() / NS_PER_MS;
	*ret = n;
	service_watch(service, on_news, n);
	int r = sd_event_add_inotify(event, &n->active, active,
				     IN_CREATE | IN_DELETE | IN_MOVED_FROM, on_active, n);
	return r < 0 ? err_set(err, ERR_HOST, -r, "watch %s: %s", active, strerrordesc_np(-r)) : 0;
}

void news_free(struct news *n)
{
	if (!n)
		return;
	for (struct reader *r = n->readers; r; r = r->next)
		r->news = NULL;
	while (n->ears)
		news_unlisten(n->ears);
	sd_event_source_freep(&n->active);
	for (size_t i = 0; i < RING; i++)
		free(n->ring[i]);
	free(n);
}

static enum stream_next next(void *data, struct str *to)
{
	struct reader *r = data;
	struct news *n = r->news;
	char id[64];
	if (!n)
		return STREAM_OVER;
	if (n->n - r->at > RING)
		r->is_stale = true;
	if (r->is_stale) {
		r->at = n->n;
		r->is_stale = false;
		(void)snprintf(id, sizeof id, "%llu-%llu", (unsigned long long)n->epoch,
			       (unsigned long long)r->at);
		sse_add(to, id, "reset", "{}");
		return STREAM_SOME;
	}
	for (unsigned i = 0; i < BATCH && r->at < n->n;) {
		size_t at = r->at++ % RING;
		const char *text = n->ring[at];
		if (!viewer_sees(&r->viewer, n->submitters[at]))
			continue;
		i++;
		(void)snprintf(id, sizeof id, "%llu-%llu", (unsigned long long)n->epoch,
			       (unsigned long long)r->at);
		sse_add(to, id, "run", text);
	}
	return to->length ? STREAM_SOME : STREAM_WAIT;
}

static void free_reader(void *data)
{
	struct reader *r = data;
	*r->before = r->next;
	if (r->next)
		r->next->before = r->before;
	free(r);
}

/* "EPOCH-SEQ": the number of the next one. */
static void set_place(struct reader *r, const char *last)
{
	struct news *n = r->news;
	const char *dash = last ? strchr(last, '-') : NULL;
	CLEANUP_FREE char *epoch = dash ? xstrndup(last, (size_t)(dash - last)) : NULL;
	uint64_t number = 0, at = 0;
	r->at = n->n;
	if (!last || !*last)
		return;
	if (dash && num_u64(epoch, INT64_MAX, &number) >= 0 && number == n->epoch &&
	    num_u64(dash + 1, n->n, &at) >= 0 && n->n - at <= RING)
		r->at = at;
	else
		r->is_stale = true;
}

void news_follow(struct request *r)
{
	static const struct stream_source source = { next, free_reader };
	static const struct problem only_events = { 406, "not-acceptable",
						    "send Accept: text/event-stream" };
	struct news *n = r->context->news;
	const char *last = request_header(r, "Last-Event-ID");
	if (!sse_is_wanted(r)) {
		respond_problem(r, &only_events, "this is a stream of events");
		return;
	}
	struct reader *reader = xcalloc(1, sizeof *reader);
	*reader = (struct reader){
		.news = n, .viewer = r->viewer, .next = n->readers, .before = &n->readers
	};
	if (reader->next)
		reader->next->before = &reader->next;
	n->readers = reader;
	set_place(reader, last ? last : url_value(&r->url, "last"));
	reader->stream = respond_stream(r, &source, reader);
}

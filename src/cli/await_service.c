/* Waiting by the service: its events say when to ask. After each connection everything is asked again, so nothing that happened between two is missed,
 * not even a restart. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/await.h"
#include "cli/remote.h"

#define LOOK_MS 500 /* what no event tells of */
#define AGAIN_MS                                                                                   \
	5000 /* what events tell of, all the same: one that was told a moment before it could be asked for */

static bool is_away(int r)
{
	return r == -EHOSTDOWN || r == -EAGAIN || r == -EDQUOT;
}

static void say_down(struct awaiting *a, const struct err *err)
{
	if (!a->is_down)
		log_warning("%s; waiting for it",
			    err->text[0] ? err->text : "the service has gone");
	a->is_down = true;
}

/* What the service does not know may be a run that somebody made without it. */
int await_look_service(struct awaiting *a, struct awaited *w, struct err *err)
{
	json_t *told = NULL;
	struct err unused = { 0 };
	int r = remote_show(a->client, w->id, &told, err);
	if (r == -ENOENT) {
		w->is_watched = false;
		return await_look_record(a, w, &unused) < 0 && !w->is_known ? r : 0;
	}
	if (r < 0)
		return r;
	w->is_known = true;
	w->is_watched = !w->is_ending && json_is_string(json_object_get(told, "submitter"));
	await_take(w, told);
	return 0;
}

static int look_at_all(struct awaiting *a, bool unwatched_only, struct err *err)
{
	for (size_t i = 0; i < a->n; i++) {
		if (a->v[i].is_over || (unwatched_only && a->v[i].is_watched))
			continue;
		int r = await_look(a, &a->v[i], err);
		if (is_away(r)) {
			say_down(a, err);
			return 0; /* the stream tells when it is back */
		}
		if (r < 0)
			return r;
	}
	return 0;
}

/* 0 or negative errno. */
static int hear(struct awaiting *a, const struct sse_event *event, struct err *err)
{
	CLEANUP_JSON json_t *change = json_loads(event->data, 0, NULL);
	const char *id = json_string_value(json_object_get(change, "id"));
	const char *state = json_string_value(json_object_get(change, "state"));
	if (str_eq(event->event, "reset"))
		return look_at_all(a, false, err);
	for (size_t i = 0; id && i < a->n; i++)
		if (str_eq(a->v[i].id, id) && !a->v[i].is_over) {
			a->v[i].is_ending = str_eq(state, "ended");
			int r = await_look(a, &a->v[i], err);
			return is_away(r) ? 0 : r;
		}
	return 0;
}

static int take_news(struct awaiting *a, struct client_stream *stream, struct err *err)
{
	for (int r = 0;;) {
		CLEANUP_SSE_EVENT struct sse_event event = { 0 };
		int news = client_stream_next(stream, &event, err);
		switch (news) {
		case CLIENT_EVENT:
			r = hear(a, &event, err);
			break;
		case CLIENT_OPENED:
			a->is_down = false;
			r = look_at_all(a, false, err);
			break;
		case CLIENT_LOST:
			say_down(a, &(struct err){ 0 });
			break;
		default:
			return news; /* nothing more, or refused */
		}
		if (r < 0 || await_is_done(a))
			return r;
	}
}

static bool is_blind(const struct awaiting *a)
{
	for (size_t i = 0; i < a->n; i++)
		if (!a->v[i].is_over && !a->v[i].is_watched)
			return true;
	return false;
}

int await_by_service(struct awaiting *a, struct err *err)
{
	CLEANUP_CLIENT_STREAM struct client_stream *stream = NULL;
	uint64_t asked_ns = clock_monotonic_ns();
	int r = client_stream_open(a->client, "/v1/events", NULL, &stream, err);
	if (r >= 0)
		r = look_at_all(a, false, err); /* says at once what can't be */
	while (r >= 0) {
		if (await_is_done(a))
			return 1;
		if (await_left_ms(a, -1) == 0)
			return 0;
		bool blind = is_blind(a);
		r = client_wait(a->client, await_left_ms(a, blind ? LOOK_MS : AGAIN_MS), err);
		if (r >= 0)
			r = take_news(a, stream, err);
		bool is_time = clock_monotonic_ns() - asked_ns >= AGAIN_MS * NS_PER_MS;
		if (r >= 0 && (blind || is_time) && !a->is_down && !await_is_done(a))
			r = look_at_all(a, !is_time, err);
		if (is_time)
			asked_ns = clock_monotonic_ns();
	}
	return r;
}

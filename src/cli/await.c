/* Waiting by records: a keeper, or whoever runs a pipeline, is waited for by pidfd. */
#include "cli/await.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/proc.h"
#include "flow/record.h"
#include "run/run.h"
#include "spec/id.h"
#include "view/runs_view.h"

#define LOOK_MS 1000 /* where the keeper can't be waited for */

void awaiting_release(struct awaiting *a)
{
	for (size_t i = 0; i < a->n; i++) {
		json_decref(a->v[i].told);
		cleanup_fd(&a->v[i].keeper_fd);
	}
	free(a->v);
	*a = (struct awaiting){ 0 };
}

void awaiting_add(struct awaiting *a, const char *id)
{
	for (size_t i = 0; i < a->n; i++)
		if (str_eq(a->v[i].id, id))
			return;
	a->v = xreallocarray(a->v, a->n + 1, sizeof *a->v);
	a->v[a->n++] = (struct awaited){ .id = id, .keeper_fd = -1 };
}

/* What `cupel run` would have ended with. One that never began has no status of its own. */
static int status_of(const json_t *told)
{
	const json_t *status = json_object_get(told, "exit_status");
	const char *cause = json_string_value(json_object_get(told, "cause"));
	if (json_is_integer(status))
		return (int)json_integer_value(status) & 0xff;
	return str_eq(cause, "ok") ? 0 : str_eq(cause, "cancelled") ? 143 : 125;
}

void await_take(struct awaited *w, json_t *told)
{
	const char *state = json_string_value(json_object_get(told, "state"));
	json_decref(w->told);
	w->told = told;
	w->is_over = state && !str_eq(state, "running") && !str_eq(state, "queued");
	w->is_begun = !str_eq(state, "queued");
	if (w->is_over)
		w->exit_status = status_of(told);
}

bool await_is_done(const struct awaiting *a)
{
	size_t over = 0;
	for (size_t i = 0; i < a->n; i++)
		over += a->until_begun ? a->v[i].is_begun : a->v[i].is_over;
	return over == a->n || (a->is_any && over);
}

int await_left_ms(const struct awaiting *a, int most_ms)
{
	uint64_t now = clock_monotonic_ns();
	if (!a->deadline_ns)
		return most_ms;
	if (now >= a->deadline_ns)
		return 0;
	uint64_t ms = (a->deadline_ns - now) / NS_PER_MS + 1;
	if (most_ms >= 0 && ms > (uint64_t)most_ms)
		return most_ms;
	return ms > 1000000000 ? 1000000000 : (int)ms;
}

static pid_t holder_of(const struct awaiting *a, const struct awaited *w)
{
	pid_t keeper = 0;
	if (w->is_pipeline)
		return flow_record_holder(a->config, w->id);
	return run_is_alive(a->config, w->id, &keeper) ? (keeper > 0 ? keeper : -1) : 0;
}

/* The lock is asked again when the descriptor is there: it is then of the process that held it, not of the next one with its number. */
static void find_keeper(struct awaiting *a, struct awaited *w)
{
	cleanup_fd(&w->keeper_fd);
	w->keeper = holder_of(a, w);
	if (w->keeper <= 0)
		return;
	int fd = proc_pidfd_open(w->keeper);
	if (fd >= 0 && holder_of(a, w) == w->keeper)
		w->keeper_fd = fd;
	else
		cleanup_fd(&fd);
}

/* A pipeline that nobody runs and that has no result was killed; only `cupel resume` goes on with it. */
static int look_pipeline(struct awaiting *a, struct awaited *w, struct err *err)
{
	CLEANUP_JSON json_t *result = NULL;
	struct err unused = { 0 };
	find_keeper(a, w);
	if (w->keeper) {
		await_take(w, json_pack("{s:s,s:s,s:s}", "id", w->id, "kind", "pipeline", "state",
					"running"));
		return 0;
	}
	int r = flow_record_read(a->config, w->id, "result.json", &result, &unused);
	if (r < 0 && r != -ENOENT) {
		*err = unused;
		return r;
	}
	json_t *told =
		json_pack("{s:s,s:s,s:s}", "id", w->id, "kind", "pipeline", "state", "lost?");
	if (r >= 0)
		json_object_update(told, result);
	await_take(w, told);
	return 0;
}

static int look_run(struct awaiting *a, struct awaited *w, struct err *err)
{
	json_t *told = NULL;
	find_keeper(
		a, w); /* before the record is read: what ends meanwhile is seen by the next look */
	int r = run_json(a->config, w->id, &told, err);
	if (r >= 0 && str_eq(json_string_value(json_object_get(told, "state")), "lost?")) {
		struct gc_report report;
		json_decref(told);
		r = run_sweep(a->config, &report, err);
		if (r >= 0)
			r = run_json(a->config, w->id, &told, err);
	}
	if (r < 0)
		return r;
	await_take(w, told);
	return 0;
}

int await_look_record(struct awaiting *a, struct awaited *w, struct err *err)
{
	int r = id_check(w->id, err);
	if (r < 0)
		return r;
	w->is_pipeline = flow_record_exists(a->config, w->id);
	r = w->is_pipeline ? look_pipeline(a, w, err) : look_run(a, w, err);
	return r < 0 ? r : 0;
}

int await_look(struct awaiting *a, struct awaited *w, struct err *err)
{
	bool was_over = w->is_over;
	int r = a->client ? await_look_service(a, w, err) : await_look_record(a, w, err);
	if (r >= 0 && w->is_over && !was_over && a->news)
		a->news(a->data, w);
	return r;
}

static int wait_for_keepers(struct awaiting *a, struct err *err)
{
	CLEANUP_FREE struct pollfd *fds = xcalloc(a->n, sizeof *fds);
	bool blind = false;
	for (size_t i = 0; i < a->n; i++) {
		fds[i] = (struct pollfd){ .fd = a->v[i].is_over ? -1 : a->v[i].keeper_fd,
					  .events = POLLIN };
		blind |= !a->v[i].is_over && a->v[i].keeper_fd < 0;
	}
	if (poll(fds, a->n, await_left_ms(a, blind ? LOOK_MS : -1)) < 0 && errno != EINTR)
		return err_errno(err, "wait for the runs");
	return 0;
}

int await_ends(struct awaiting *a, struct err *err)
{
	if (a->client)
		return await_by_service(a, err);
	for (;;) {
		for (size_t i = 0; i < a->n; i++) {
			int r = a->v[i].is_over ? 0 : await_look(a, &a->v[i], err);
			if (r < 0)
				return r;
		}
		if (await_is_done(a))
			return 1;
		if (await_left_ms(a, -1) == 0)
			return 0;
		int r = wait_for_keepers(a, err);
		if (r < 0)
			return r;
	}
}

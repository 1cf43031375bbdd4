#include "cli/remote.h"

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "view/live.h"
#include "view/runs_view.h"

#define PAGE 500

void remote_release(struct remote *r)
{
	client_freep(&r->client);
}

int remote_open(const struct config *config, struct remote *ret, struct err *err)
{
	CLEANUP_CLIENT struct client *client = NULL;
	CLEANUP_JSON json_t *about = NULL;
	const char *said = getenv("CUPEL_SERVICE");
	int r = client_open(config, &client, err);
	if (r > 0)
		r = client_call(client, &(struct client_request){ .path = "/v1" }, &about, err);
	if (r < 0 && !(said && *said)) {
		log_warning("%s; this is what the records tell", err->text);
		return 0;
	}
	if (r < 0 || !client)
		return r;
	const char *home = json_string_value(json_object_get(about, "home"));
	ret->is_here = str_eq(home, config->home) && access(config->home, R_OK | X_OK) == 0;
	ret->client = take_ptr(client);
	return 0;
}

static int get(struct client *c, const char *folder, const char *id, json_t **ret, struct err *err)
{
	CLEANUP_FREE char *name = client_escape(id);
	CLEANUP_FREE char *path = xasprintf("%s/%s", folder, name);
	return client_call(c, &(struct client_request){ .path = path }, ret, err);
}

static void copy(json_t *to, const json_t *from, const char *key)
{
	json_t *value = json_object_get(from, key);
	if (value && !json_is_null(value))
		json_object_set(to, key, value);
}

json_t *remote_run(const json_t *row)
{
	static const char *const keys[] = {
		"id",        "kind",     "state",     "cause",      "name",    "quest",
		"submitter", "priority", "submitted", "started",    "ended",   "exit_status",
		"attempt",   "attempts", "pending",   "not_before", "runtime", "completion_notes"
	};
	static const char *const used[] = { "wall_usec", "cpu_usec", "memory_peak_bytes" };
	json_t *told = json_object();
	json_t *usage = json_object();
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		copy(told, row, keys[i]);
	for (size_t i = 0; i < sizeof used / sizeof *used; i++)
		copy(usage, row, used[i]);
	if (json_object_size(usage))
		json_object_set(told, "usage", usage);
	if (json_is_string(json_object_get(row, "note"))) /* of one that never began: why */
		json_object_set(told, "completion_notes", json_object_get(row, "note"));
	json_decref(usage);
	return told;
}

/* The queue has a row of a pipeline as of any run, but how it ended is in its own record. */
int remote_show(struct client *c, const char *id, json_t **ret, struct err *err)
{
	CLEANUP_JSON json_t *answer = NULL;
	CLEANUP_JSON json_t *pipeline = NULL;
	struct err unused = { 0 };
	int r = get(c, "/v1/runs", id, &answer, err);
	if (r < 0 && r != -ENOENT)
		return r;
	bool has_record = json_is_object(json_object_get(answer, "verdict")) ||
			  json_is_object(json_object_get(answer, "receipt"));
	const char *state = json_string_value(json_object_get(answer, "state"));
	if (!has_record && !str_eq(state, "queued"))
		(void)get(c, "/v1/pipelines", id, &pipeline, &unused);
	if (r < 0 && !pipeline)
		return r;
	json_t *told = json_object();
	if (answer) {
		json_decref(told);
		told = remote_run(answer);
		run_json_add(told, json_object_get(answer, "analysis"),
			     json_object_get(answer, "verdict"));
	}
	if (pipeline && (!state || str_eq(state, "ended")))
		json_object_update(told, pipeline);
	else if (pipeline)
		json_object_update_missing(told, pipeline);
	*ret = told;
	return 0;
}

static json_t *find(json_t *runs, const char *id)
{
	size_t i;
	json_t *run;
	json_array_foreach(runs, i, run)
	{
		if (str_eq(json_string_value(json_object_get(run, "id")), id))
			return run;
	}
	return NULL;
}

static uint64_t cell(const json_t *usage, size_t row, const char *column)
{
	size_t i;
	json_t *name;
	json_array_foreach(json_object_get(usage, "columns"), i, name)
	{
		if (str_eq(json_string_value(name), column))
			return (uint64_t)json_number_value(json_array_get(
				json_array_get(json_object_get(usage, "rows"), row), i));
	}
	return 0;
}

/* What it uses now, for a caller who can't read the record. It may have ended meanwhile: then nothing is known. */
static void add_usage(struct client *c, json_t *run, const char *id)
{
	CLEANUP_FREE char *name = client_escape(id);
	CLEANUP_FREE char *path = xasprintf("/v1/runs/%s/usage?points=2", name);
	CLEANUP_JSON json_t *usage = NULL;
	struct err unused = { 0 };
	if (client_call(c, &(struct client_request){ .path = path }, &usage, &unused) < 0)
		return;
	size_t n = json_array_size(json_object_get(usage, "rows"));
	if (!n)
		return;
	uint64_t t = cell(usage, n - 1, "t_ms"), cpu = cell(usage, n - 1, "cpu_usec");
	uint64_t ms = n > 1 ? t - cell(usage, n - 2, "t_ms") : 0;
	uint64_t usec = n > 1 ? cpu - cell(usage, n - 2, "cpu_usec") : 0;
	json_object_set_new(run, "elapsed_ms", json_u64(t));
	json_object_set_new(run, "cpus", json_real(ms ? (double)usec / (double)ms / 1000 : 0));
	json_object_set_new(run, "cpu_usec", json_u64(cpu));
	json_object_set_new(run, "memory_bytes", json_u64(cell(usage, n - 1, "mem")));
	json_object_set_new(run, "pids", json_u64(cell(usage, n - 1, "pids")));
	json_object_set_new(run, "disk_bytes", json_u64(cell(usage, n - 1, "disk")));
	copy(run, usage, "memory_limit_bytes");
}

static void add_live(const struct remote *r, json_t *runs, const json_t *row)
{
	static const char *const keys[] = { "submitter", "submitted", "priority", "attempt",
					    "pending" };
	static const char *const runtime[] = { "runtime", "runtime_why" };
	static const char *const shown[] = { "started", "quest", "name", "memory_limit_bytes" };
	const char *id = json_string_value(json_object_get(row, "id"));
	bool waits = str_eq(json_string_value(json_object_get(row, "state")), "queued");
	json_t *run = id ? find(runs, id) : NULL;
	if (!id || (run && waits)) /* it has begun since */
		return;
	bool is_new = !run;
	if (is_new) {
		run = json_pack("{s:s,s:s}", "id", id, "phase",
				waits        ? "queued"
				: r->is_here ? "starting" /* no keeper has its record yet */
					     : "running");
		json_array_append_new(runs, run);
	}
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		copy(run, row, keys[i]);
	for (size_t i = 0; is_new && i < sizeof shown / sizeof *shown; i++)
		copy(run, row, shown[i]);
	for (size_t i = 0; is_new && i < sizeof runtime / sizeof *runtime; i++)
		if (json_is_string(json_object_get(row, runtime[i])))
			copy(run, row, runtime[i]);
	if (is_new && !waits && !r->is_here)
		add_usage(r->client, run, id);
}

/* All pages of one state, at most so many rows (0: all). */
static int add_state(const struct remote *r, const char *state, size_t max, json_t *runs,
		     struct err *err)
{
	CLEANUP_FREE char *after = NULL;
	for (size_t n = 0;;) {
		CLEANUP_JSON json_t *page = NULL;
		size_t limit = max && max - n < PAGE ? max - n : PAGE, i;
		CLEANUP_FREE char *path = xasprintf("/v1/runs?state=%s&order=oldest&limit=%zu%s%s",
						    state, limit, after ? "&after=" : "",
						    after ? after : "");
		json_t *row;
		int e = client_call(r->client, &(struct client_request){ .path = path }, &page,
				    err);
		if (e < 0)
			return e;
		json_array_foreach(json_object_get(page, "runs"), i, row)
		{
			add_live(r, runs, row);
		}
		n += i;
		const char *next = json_string_value(json_object_get(page, "next"));
		if (!next || !i || (max && n >= max))
			return 0;
		free(after);
		after = client_escape(next);
	}
}

int remote_live(const struct remote *r, json_t *runs, size_t max_waiting, struct err *err)
{
	int e = add_state(r, "running", 0, runs, err);
	return e < 0 ? e : add_state(r, "queued", max_waiting, runs, err);
}

/* A run's record as one object. */
#include "serve/recorded.h"

#include <string.h>

#include "base/fs.h"
#include "flow/record.h"
#include "ledger/page.h"
#include "serve/rows.h"
#include "serve/series.h"
#include "spec/id.h"

#define RECORD_MAX (8 << 20)
#define EVENTS_MAX (32 << 20)

static json_t *read_part(int run_fd, const char *name)
{
	json_t *value = NULL;
	return json_read_file(run_fd, name, RECORD_MAX, &value, NULL) >= 0 ? value : json_null();
}

json_t *recorded_events(int run_fd, uint64_t after, size_t max)
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	json_t *events = json_array();
	(void)fs_read_capped(run_fd, "events.jsonl", EVENTS_MAX, &text, &length, NULL);
	for (char *line = text, *end; line && (end = strchr(line, '\n')); line = end + 1) {
		json_t *event = json_loadb(line, (size_t)(end - line), 0, NULL);
		if (event && (uint64_t)json_integer_value(json_object_get(event, "n")) > after &&
		    json_array_size(events) < max)
			json_array_append(events, event);
		json_decref(event);
	}
	return events;
}

static json_t *time_of(const json_t *events, const char *name)
{
	size_t i;
	json_t *event;
	json_array_foreach(events, i, event)
	{
		if (json_object_get(event, "event") &&
		    strcmp(json_string_value(json_object_get(event, "event")), name) == 0)
			return json_object_get(event, "time");
	}
	return NULL;
}

static void add_phase(json_t *timeline, const char *phase, json_t *from, json_t *to)
{
	if (from)
		json_array_append_new(timeline, json_pack("{s:s,s:O,s:O?}", "phase", phase, "from",
							  from, "to", to));
}

static json_t *timeline_json(const json_t *row, const json_t *events)
{
	json_t *timeline = json_array();
	json_t *accepted = time_of(events, "accepted"), *started = time_of(events, "started");
	json_t *ended = time_of(events, "ended"), *verdict = time_of(events, "verdict");
	json_t *submitted = json_object_get(row, "submitted");
	if (json_is_string(submitted) && accepted && !json_equal(submitted, accepted))
		add_phase(timeline, "queue", submitted, accepted);
	add_phase(timeline, "prepare", accepted, started ? started : verdict);
	add_phase(timeline, "run", started, ended ? ended : verdict);
	add_phase(timeline, "collect", started ? ended : NULL, verdict);
	return timeline;
}

/* In the units that the limit has. */
static json_t *used_of(const char *name, const json_t *row, const json_t *usage, const json_t *last)
{
	static const struct {
		const char *limit, *usage, *sample;
	} names[] = {
		{ "memory", "memory_peak_bytes", "mem" },
		{ "pids", "pids_peak", "pids" },
		{ "disk", "disk_peak_bytes", "disk" },
		{ "inodes", "disk_peak_inodes", NULL },
	};
	uint64_t wall = (uint64_t)json_integer_value(json_object_get(row, "wall_usec"));
	uint64_t cpu = (uint64_t)json_integer_value(json_object_get(row, "cpu_usec"));
	if (strcmp(name, "time") == 0)
		return json_u64(wall * 1000);
	if (strcmp(name, "cpu_time") == 0)
		return json_u64(cpu * 1000);
	if (strcmp(name, "cpus") == 0)
		return json_u64(wall ? cpu * 1000 / wall : 0);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(name, names[i].limit) == 0) {
			json_t *used = json_object_get(usage, names[i].usage);
			if (!used && names[i].sample)
				used = json_object_get(last, names[i].sample);
			return json_incref(used);
		}
	return NULL;
}

static json_t *limits_json(int run_fd, const json_t *analysis, const json_t *row,
			   const json_t *verdict)
{
	CLEANUP_JSON json_t *last = series_last(run_fd);
	const json_t *usage = json_object_get(verdict, "usage");
	json_t *limits = json_object();
	const char *name;
	json_t *limit;
	json_object_foreach(json_object_get(analysis, "limits"), name, limit)
	{
		json_t *used = used_of(name, row, usage, last);
		json_object_set_new(limits, name,
				    json_pack("{s:O?,s:o,s:O?,s:O?}", "limit",
					      json_object_get(limit, "raw"), "used",
					      used ? used : json_null(), "text",
					      json_object_get(limit, "value"), "origin",
					      json_object_get(limit, "origin")));
	}
	return limits;
}

/* Of the two limits that a cause may stand for, the one that was used up more. */
static double part_of(const json_t *limit)
{
	double of = json_number_value(json_object_get(limit, "limit"));
	return of > 0 ? json_number_value(json_object_get(limit, "used")) / of : -1;
}

json_t *recorded_reached(const struct config *c, const char *id, const char *cause)
{
	static const struct {
		const char *cause, *limit, *other;
	} names[] = {
		{ "oom", "memory", NULL },   { "deadline", "time", NULL },
		{ "cpu", "cpu_time", NULL }, { "disk", "disk", "inodes" },
		{ "pids", "pids", NULL },    { "output-cap", "output_size", "output_count" },
	};
	CLEANUP_JSON json_t *row = NULL;
	CLEANUP_FD int fd = rows_open_run(c, id, NULL);
	if (fd < 0 || rows_of_run(c, id, fd, &row, NULL) < 0)
		return NULL;
	CLEANUP_JSON json_t *analysis = read_part(fd, "analysis.json");
	CLEANUP_JSON json_t *verdict = read_part(fd, "verdict.json");
	CLEANUP_JSON json_t *limits = limits_json(fd, analysis, row, verdict);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (!str_eq(cause, names[i].cause))
			continue;
		const json_t *other = names[i].other ? json_object_get(limits, names[i].other)
						     : NULL;
		const json_t *limit = json_object_get(limits, names[i].limit);
		bool is_other = other && part_of(other) > part_of(limit);
		const json_t *hit = is_other ? other : limit;
		return hit ? json_pack("{s:s,s:O?,s:O?}", "limit",
				       is_other ? names[i].other : names[i].limit, "used",
				       json_object_get(hit, "used"), "of",
				       json_object_get(hit, "limit"))
			   : NULL;
	}
	return NULL;
}

static json_t *provenance_json(const json_t *analysis)
{
	static const char *const keys[] = { "code",  "inputs",   "rerun_of",   "db_snapshot",
					    "env",   "command",  "parameters", "labels",
					    "steps", "work_dir", "secret_env" };
	json_t *o = json_object();
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (json_object_get(analysis, keys[i]))
			json_object_set(o, keys[i], json_object_get(analysis, keys[i]));
	const json_t *runtime = json_object_get(analysis, "runtime");
	if (json_object_get(runtime, "fingerprint"))
		json_object_set(o, "fingerprint", json_object_get(runtime, "fingerprint"));
	return o;
}

static json_t *links_json(const char *id)
{
	static const char *const names[] = { "cancel", "rerun",   "why",    "events",
					     "usage",  "outputs", "report", "crate" };
	json_t *links = json_object();
	json_object_set_new(links, "self", json_sprintf("/v1/runs/%s", id));
	json_object_set_new(links, "page", json_sprintf("/runs/%s", id));
	json_object_set_new(links, "stdout", json_sprintf("/v1/runs/%s/log/stdout", id));
	json_object_set_new(links, "stderr", json_sprintf("/v1/runs/%s/log/stderr", id));
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		json_object_set_new(links, names[i], json_sprintf("/v1/runs/%s/%s", id, names[i]));
	return links;
}

static json_t *outputs_json(const json_t *manifest)
{
	static const char *const keys[] = { "count",         "bytes",   "partial", "missing",
					    "refused_count", "invalid", "over_cap" };
	json_t *o = json_object();
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		json_object_set_new(o, keys[i],
				    json_object_get(manifest, keys[i])
					    ? json_incref(json_object_get(manifest, keys[i]))
					    : json_null());
	return o;
}

/* What the run directory has. */
static void add_record(json_t *row, int run_fd)
{
	json_t *analysis = read_part(run_fd, "analysis.json");
	json_t *verdict = read_part(run_fd, "verdict.json");
	json_t *events = recorded_events(run_fd, 0, RECORDED_EVENTS_MAX);
	CLEANUP_JSON json_t *manifest = read_part(run_fd, "outputs.json");
	json_t *runtime = json_object_get(analysis, "runtime");
	json_t *selection = json_object_get(runtime, "selection");
	json_object_set_new(row, "limits", limits_json(run_fd, analysis, row, verdict));
	json_object_set_new(row, "timeline", timeline_json(row, events));
	json_object_set_new(row, "provenance", provenance_json(analysis));
	json_object_set_new(row, "outputs", outputs_json(manifest));
	json_object_set_new(row, "runtime_detail", runtime ? json_incref(runtime) : json_null());
	json_object_set_new(row, "selection", selection ? json_incref(selection) : json_null());
	json_object_set_new(row, "analysis", analysis);
	json_object_set_new(row, "verdict", verdict);
	json_object_set_new(row, "receipt", read_part(run_fd, "receipt.json"));
	json_object_set_new(row, "events", events);
}

/* Of one that has no directory: it waits, or never came to it. */
static void add_nothing(json_t *row)
{
	static const char *const nulls[] = { "outputs", "runtime_detail", "selection", "verdict",
					     "receipt" };
	json_object_set_new(row, "limits", json_object());
	json_object_set_new(row, "provenance", json_object());
	json_object_set_new(row, "events", json_array());
	json_object_set_new(row, "timeline", json_array());
	for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++)
		json_object_set_new(row, nulls[i], json_null());
	json_t *submitted = json_object_get(row, "submitted");
	if (json_is_string(submitted))
		add_phase(json_object_get(row, "timeline"), "queue", submitted,
			  json_object_get(row, "ended"));
}

/* What the service or the ledger knows of the submission. */
static void add_submission(json_t *row, const json_t *of)
{
	static const char *const keys[] = { "submitter",  "priority", "submitted", "attempt",
					    "not_before", "kind",     "run",       "note" };
	static const char *const over[] = { "state",   "submitter", "priority", "submitted",
					    "attempt", "pending",   "note" };
	CLEANUP_JSON json_t *submission = json_object();
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (json_object_get(of, keys[i]))
			json_object_set(submission, keys[i], json_object_get(of, keys[i]));
	for (size_t i = 0; i < sizeof over / sizeof *over; i++)
		if (json_object_get(of, over[i]))
			json_object_set(row, over[i], json_object_get(of, over[i]));
	json_object_set(row, "submission",
			json_object_get(of, "submitter") ? submission : json_null());
}

static int row_without_run(const struct config *c, const char *id, const json_t *live,
			   const json_t *known, json_t **ret, struct err *err)
{
	if (!live && (!json_object_get(known, "submitter") || flow_record_exists(c, id)))
		return id_no_run(c->home, id, err); /* or it is a pipeline's */
	json_t *row = json_copy((json_t *)(live ? live : known));
	json_object_set_new(row, "id", json_string(id));
	const char *state = json_string_value(json_object_get(row, "state"));
	if (!str_eq(state, "queued") && !str_eq(state, "running"))
		json_object_set_new(row, "state", json_string("ended"));
	json_object_del(row, "accepted");
	json_object_del(row, "never");
	if (!json_object_get(row, "analysis"))
		json_object_set_new(row, "analysis", json_null());
	rows_complete(row);
	add_nothing(row);
	*ret = row;
	return 0;
}

int recorded_run(const struct config *c, const char *id, const json_t *live, json_t **ret,
		 struct err *err)
{
	json_t *row = NULL;
	CLEANUP_JSON json_t *known = NULL;
	CLEANUP_LEDGER struct ledger *l = NULL;
	CLEANUP_FD int fd = rows_open_run(c, id, NULL);
	/* One row: whether the ledger has all the others is no matter. */
	if (!live && ledger_open(c, &l, NULL) >= 0)
		(void)ledger_page_row(l, c, id, &known, NULL);
	int r = fd < 0 ? row_without_run(c, id, live, known, &row, err)
		       : rows_of_run(c, id, fd, &row, err);
	if (r < 0)
		return r;
	json_object_del(known, "state");
	add_submission(row, live ? live : known);
	if (fd >= 0)
		add_record(row, fd);
	json_t *attempts = json_object_get(live, "attempts");
	json_object_set_new(row, "attempts",
			    attempts ? json_incref(attempts) : json_pack("[s]", id));
	json_object_set_new(row, "links", links_json(id));
	CLEANUP_FREE char *owner = rows_owner(c);
	rows_set_owner(row, owner);
	rows_complete(row);
	*ret = row;
	return 0;
}

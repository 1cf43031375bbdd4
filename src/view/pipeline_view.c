/* One pipeline: where it stands, what failed and where to read why. */
#include "view/pipeline_view.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/num.h"
#include "view/dossier.h"
#include "view/state_colour.h"

#define FAILED_MAX  20 /* that are told of at length */
#define VERDICT_MAX (1 << 20)

/* The sentence of the verdict; "" if the run has none. Owned by the caller. */
static char *notes_of(const struct config *c, const char *run)
{
	CLEANUP_JSON json_t *verdict = NULL;
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s/verdict.json", c->home, run);
	if (run[0])
		(void)json_read_file(AT_FDCWD, path, VERDICT_MAX, &verdict, NULL);
	return xstrdup(dossier_text(verdict, "completion_notes"));
}

/* Where to read why: what it said on standard error, or else its record. Owned by the caller, NULL if there is none. */
static char *log_of(const struct config *c, const char *run)
{
	static const char *const names[] = { "stderr.log", "stdout.log", "verdict.json" };
	for (size_t i = 0; run[0] && i < 3; i++) {
		CLEANUP_FREE char *path = xasprintf("%s/runs/%s/%s", c->home, run, names[i]);
		struct stat st = { 0 };
		if (stat(path, &st) == 0 && st.st_size)
			return take_ptr(path);
	}
	return NULL;
}

static json_t *counts_json(const uint64_t *counts)
{
	json_t *o = json_object();
	for (int s = 0; s < TASK_STATE_COUNT_; s++)
		json_object_set_new(o, task_state_names[s], json_u64(counts[s]));
	return o;
}

static void set_text(json_t *o, const char *key, const char *text)
{
	json_object_set_new(o, key, text && text[0] ? json_text(text) : json_null());
}

static json_t *attempt_json(const struct dossier_attempt *a)
{
	char text[40];
	json_t *o = json_object();
	set_text(o, "run", a->run);
	set_text(o, "cause", a->cause);
	set_text(o, "started",
		 a->started_ms ? clock_write(a->started_ms * NS_PER_MS, text, sizeof text) : "");
	set_text(o, "ended",
		 a->ended_ms ? clock_write(a->ended_ms * NS_PER_MS, text, sizeof text) : "");
	json_object_set_new(o, "wall_ms", json_u64(a->wall_ms));
	json_object_set_new(o, "memory_peak_bytes", json_u64(a->memory_bytes));
	return o;
}

static json_t *task_json(const struct dossier_task *t)
{
	json_t *o = json_pack("{s:s,s:I,s:I}", "state", task_state_names[t->state], "wall_ms",
			      (json_int_t)t->wall_ms, "memory_peak_bytes",
			      (json_int_t)t->memory_bytes);
	json_t *attempts = json_array();
	set_text(o, "shard", t->shard);
	set_text(o, "run", t->run);
	set_text(o, "cause", t->cause);
	set_text(o, "key", t->key);
	set_text(o, "why", t->why);
	for (size_t i = 0; i < t->n_attempts; i++)
		json_array_append_new(attempts, attempt_json(&t->attempts[i]));
	json_object_set_new(o, "attempts", attempts);
	return o;
}

static json_t *step_json(const struct pipeline_dossier *d, const struct dossier_step *step)
{
	json_t *o = json_object(), *needs = json_array(), *tasks = json_array();
	set_text(o, "name", step->name);
	set_text(o, "summary", step->summary);
	set_text(o, "runtime", step->runtime);
	for (size_t i = 0; i < step->n_needs; i++)
		json_array_append_new(needs, json_text(d->steps[step->needs[i]].name));
	for (size_t i = 0; i < step->n_tasks; i++)
		json_array_append_new(tasks, task_json(&step->tasks[i]));
	json_object_set_new(o, "needs", needs);
	json_object_set_new(o, "scattered", json_boolean(step->is_scattered));
	json_object_set_new(o, "shards", json_u64(step->shards));
	json_object_set_new(o, "counts", counts_json(step->counts));
	json_object_set_new(o, "tasks", tasks);
	return o;
}

static json_t *failed_json(const struct config *c, const struct dossier_step *step,
			   const struct dossier_task *t)
{
	json_t *o = json_object();
	CLEANUP_FREE char *notes = t->run[0] ? notes_of(c, t->run) : xstrdup(t->why);
	CLEANUP_FREE char *log = log_of(c, t->run);
	set_text(o, "step", step->name);
	set_text(o, "shard", t->shard);
	set_text(o, "cause", t->cause);
	set_text(o, "run", t->run);
	set_text(o, "notes", notes);
	set_text(o, "log", log);
	return o;
}

static json_t *failures_json(const struct config *c, const struct pipeline_dossier *d)
{
	json_t *list = json_array();
	for (size_t i = 0; i < d->n_steps; i++)
		for (size_t j = 0; j < d->steps[i].n_tasks; j++)
			if (d->steps[i].tasks[j].state == TASK_FAILED &&
			    json_array_size(list) < FAILED_MAX)
				json_array_append_new(
					list, failed_json(c, &d->steps[i], &d->steps[i].tasks[j]));
	return list;
}

json_t *pipeline_json(const struct config *c, const struct pipeline_dossier *d)
{
	static const char *const of_pipeline[] = { "name",       "quest",    "labels",
						   "file",       "previous", "file_sha256",
						   "parameters", "created",  "uid" };
	static const char *const of_result[] = { "cause", "exit_status", "started", "ended" };
	json_t *o = json_pack("{s:s,s:s,s:o,s:s}", "id", d->id, "kind", "pipeline", "directory",
			      json_text(d->directory), "state", d->state);
	json_t *steps = json_array(), *counts = counts_json(d->counts);
	for (size_t i = 0; i < sizeof of_pipeline / sizeof *of_pipeline; i++)
		if (json_object_get(d->pipeline, of_pipeline[i]))
			json_object_set(o, of_pipeline[i],
					json_object_get(d->pipeline, of_pipeline[i]));
	for (size_t i = 0; i < sizeof of_result / sizeof *of_result; i++)
		if (json_object_get(d->result, of_result[i]))
			json_object_set(o, of_result[i], json_object_get(d->result, of_result[i]));
	json_object_set_new(counts, "total", json_u64(d->total));
	json_object_set_new(o, "counts", counts);
	for (size_t i = 0; i < d->n_steps; i++)
		json_array_append_new(steps, step_json(d, &d->steps[i]));
	json_object_set_new(o, "steps", steps);
	json_object_set_new(o, "failed", failures_json(c, d));
	return o;
}

/* "3 ok, 1 failed"; "" if there are none. */
static void describe_counts(const uint64_t *counts, struct str *s)
{
	static const enum task_state order[] = { TASK_OK,     TASK_REUSED,    TASK_RUNNING,
						 TASK_FAILED, TASK_CANCELLED, TASK_SKIPPED,
						 TASK_WAITING };
	for (size_t i = 0; i < sizeof order / sizeof *order; i++)
		if (counts[order[i]])
			str_addf(s, "%s%llu %s", s->length ? ", " : "",
				 (unsigned long long)counts[order[i]], task_state_names[order[i]]);
}

static void add_step_row(struct table *t, const struct dossier_step *step)
{
	char wall[32] = "", memory[32] = "", attempts[32] = "";
	uint64_t wall_ms = 0, memory_bytes = 0, n_attempts = 0;
	const struct dossier_task *last = step->n_tasks ? &step->tasks[step->n_tasks - 1] : NULL;
	CLEANUP_STR struct str state = { 0 };
	for (size_t i = 0; i < step->n_tasks; i++) {
		const struct dossier_task *task = &step->tasks[i];
		wall_ms = task->wall_ms > wall_ms ? task->wall_ms : wall_ms;
		memory_bytes = task->memory_bytes > memory_bytes ? task->memory_bytes
								 : memory_bytes;
		n_attempts += task->n_attempts;
	}
	if (wall_ms)
		num_print_duration(wall_ms * NS_PER_MS, wall, sizeof wall);
	if (memory_bytes)
		num_print_size(memory_bytes, memory, sizeof memory);
	if (n_attempts)
		(void)snprintf(attempts, sizeof attempts, "%llu", (unsigned long long)n_attempts);
	if (step->is_scattered)
		describe_counts(step->counts, &state);
	else
		str_add(&state, task_state_names[last ? last->state : TASK_WAITING]);
	table_add(t, step->name);
	table_add(t, str_text(&state));
	table_add(t, step->is_scattered || !last ? "" : last->cause);
	table_add(t, attempts);
	table_add(t, wall);
	table_add(t, memory);
	table_add(t, step->is_scattered || !last ? "" : last->run);
}

static int print_steps(const struct pipeline_dossier *d, struct err *err)
{
	static const struct table_column columns[] = {
		{ "STEP", TABLE_TEXT },        { "STATE", TABLE_TEXT, true },
		{ "CAUSE", TABLE_TEXT, true }, { "ATTEMPTS", TABLE_NUMBER },
		{ "WALL", TABLE_NUMBER },      { "MEMORY", TABLE_NUMBER },
		{ "RUN", TABLE_CUT },
	};
	CLEANUP_TABLE struct table t = { columns, sizeof columns / sizeof *columns };
	for (size_t i = 0; i < d->n_steps; i++)
		add_step_row(&t, &d->steps[i]);
	printf("\n");
	return table_print(&t, err);
}

static void print_failures(const struct config *c, const struct pipeline_dossier *d)
{
	size_t i;
	json_t *o;
	CLEANUP_JSON json_t *list = failures_json(c, d);
	json_array_foreach(list, i, o)
	{
		const char *shard = dossier_text(o, "shard");
		CLEANUP_FREE char *name = xasprintf("%s%s%s%s", dossier_text(o, "step"),
						    shard[0] ? "[" : "", shard,
						    shard[0] ? "]" : "");
		CLEANUP_FREE char *shown = str_visible(name);
		CLEANUP_FREE char *notes = str_visible(dossier_text(o, "notes"));
		CLEANUP_FREE char *log = str_visible(dossier_text(o, "log"));
		printf("\nfailed   %s: %s%s%s\n", shown, dossier_text(o, "cause"),
		       notes[0] ? ": " : "", notes);
		if (log[0])
			printf("log      %s\n", log);
	}
	if (d->counts[TASK_FAILED] > json_array_size(list))
		printf("\nand %llu more\n",
		       (unsigned long long)(d->counts[TASK_FAILED] - json_array_size(list)));
}

int pipeline_print(const struct config *c, const struct pipeline_dossier *d, struct err *err)
{
	char wall[32];
	CLEANUP_STR struct str counts = { 0 };
	CLEANUP_FREE char *name = str_visible(dossier_text(d->pipeline, "name"));
	CLEANUP_FREE char *file = str_visible(dossier_text(d->pipeline, "file"));
	CLEANUP_FREE char *cause = str_visible(dossier_text(d->result, "cause"));
	describe_counts(d->counts, &counts);
	printf("pipeline %s\n", d->id);
	if (name[0])
		printf("name     %s\n", name);
	printf("state    ");
	terminal_print(stdout, state_colour(d->state), "%s", d->state);
	printf("%s%s\nfile     %s\n", cause[0] && !str_eq(cause, d->state) ? ": " : "",
	       cause[0] && !str_eq(cause, d->state) ? cause : "", file);
	if (d->began_ms)
		printf("started  %s\n", clock_write(d->began_ms * NS_PER_MS, wall, sizeof wall));
	if (d->result && d->ended_ms)
		printf("ended    %s\n", clock_write(d->ended_ms * NS_PER_MS, wall, sizeof wall));
	if (d->ended_ms > d->began_ms)
		printf("time     %s\n", num_print_duration((d->ended_ms - d->began_ms) * NS_PER_MS,
							   wall, sizeof wall));
	printf("steps    %llu of %llu done: %s\nrecord   %s\n",
	       (unsigned long long)pipeline_done(d), (unsigned long long)d->total,
	       str_text(&counts), d->directory);
	if (d->state[0] == 'l')
		printf("note     it was killed; `cupel resume %s` goes on with it\n", d->id);
	int r = print_steps(d, err);
	if (r >= 0)
		print_failures(c, d);
	return r;
}

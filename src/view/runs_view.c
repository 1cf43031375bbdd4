#include "view/runs_view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "base/path.h"
#include "spec/id.h"
#include "view/state_colour.h"

#define RECORD_MAX (8 << 20)

/* The events stand in their order, so the two that count are in the beginning, however long it goes on. */
json_t *run_times_json(int dir_fd)
{
	char text[2049];
	json_t *times = json_object();
	CLEANUP_FD int fd = openat(dir_fd, "events.jsonl", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof text - 1, 0);
	text[n < 0 ? 0 : n] = 0;
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
		*end = 0;
		CLEANUP_JSON json_t *event = json_loads(line, 0, NULL);
		const char *name = json_string_value(json_object_get(event, "event"));
		if (str_eq(name, "accepted") || str_eq(name, "started"))
			json_object_set(times, name, json_object_get(event, "time"));
	}
	return times;
}

static void copy_keys(json_t *to, const json_t *from, const char *const *keys, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		json_t *value = json_object_get(from, keys[i]);
		if (value)
			json_object_set(to, keys[i], value);
	}
}

void run_json_add(json_t *to, const json_t *analysis, const json_t *verdict)
{
	static const char *const of_verdict[] = { "cause",    "exit_status",      "exit_code",
						  "signal",   "accepted",         "started",
						  "ended",    "completion_notes", "post_process",
						  "usage",    "missing_layers",   "input_changed",
						  "notebook", "executor" };
	static const char *const of_analysis[] = { "name",     "quest",       "labels",
						   "runtime",  "command",     "code",
						   "rerun_of", "db_snapshot", "executor" };
	copy_keys(to, analysis, of_analysis, sizeof of_analysis / sizeof *of_analysis);
	copy_keys(to, verdict, of_verdict, sizeof of_verdict / sizeof *of_verdict);
}

int run_json(const struct config *c, const char *id, json_t **ret, struct err *err)
{
	CLEANUP_FREE char *directory = xasprintf("%s/runs/%s", c->home, id);
	CLEANUP_JSON json_t *verdict = NULL;
	CLEANUP_JSON json_t *analysis = NULL;
	int r = id_check(id, err);
	if (r < 0)
		return r;
	CLEANUP_FD int fd = open(directory, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return id_no_run(c->home, id, err);
	(void)json_read_file(fd, "analysis.json", RECORD_MAX, &analysis, NULL);
	r = json_read_file(fd, "verdict.json", RECORD_MAX, &verdict, NULL);
	const char *state = r >= 0 ? "ended" : run_is_alive(c, id, NULL) ? "running" : "lost?";
	json_t *o = json_pack("{s:s,s:s,s:o}", "id", id, "state", state, "directory",
			      json_text(directory));
	run_json_add(o, analysis, verdict);
	if (!json_object_get(o, "accepted")) { /* it still goes on, or was lost */
		CLEANUP_JSON json_t *times = run_times_json(fd);
		json_object_update_missing(o, times);
	}
	*ret = o;
	return 0;
}

static const char *text_of(const json_t *o, const char *key, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : otherwise;
}

static uint64_t number_of(const json_t *o, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(o, key));
}

int runs_print(const json_t *runs, struct table *t, struct err *err)
{
	static const struct table_column columns[] = {
		{ "RUN", TABLE_TEXT },    { "CAUSE", TABLE_TEXT, true }, { "STARTED", TABLE_TEXT },
		{ "WALL", TABLE_NUMBER }, { "MEMORY", TABLE_NUMBER },    { "NAME", TABLE_CUT },
	};
	size_t i;
	json_t *run;
	t->columns = columns;
	t->n_columns = sizeof columns / sizeof *columns;
	json_array_foreach(runs, i, run)
	{
		char wall[32] = "", memory[32] = "";
		const json_t *usage = json_object_get(run, "usage");
		/* Nothing is not what it used but what nobody could measure: it never started, or was lost. */
		if (number_of(usage, "wall_usec"))
			num_print_duration(number_of(usage, "wall_usec") * 1000, wall, sizeof wall);
		if (number_of(usage, "memory_peak_bytes"))
			num_print_size(number_of(usage, "memory_peak_bytes"), memory,
				       sizeof memory);
		table_add(t, text_of(run, "id", "?"));
		table_add(t, text_of(run, "cause", text_of(run, "state", "?")));
		table_add(t, text_of(run, "started", NULL));
		table_add(t, wall);
		table_add(t, memory);
		table_add(t, text_of(run, "name", NULL));
	}
	return table_print(t, err);
}

/* Which one, and which rule chose it. */
static void print_runtime(const json_t *runtime)
{
	const json_t *selection = json_object_get(runtime, "selection");
	CLEANUP_FREE char *why = str_visible(text_of(selection, "why", ""));
	if (json_is_string(runtime)) /* as it was asked for, before it was looked at */
		printf("runtime  %s\n", json_string_value(runtime));
	else if (runtime)
		printf("runtime  %s (by %s%s%s)\n", text_of(runtime, "name", "?"),
		       text_of(runtime, "rule", "?"), *why ? ": " : "", why);
}

/* Where there is a choice. */
static void print_executor(const json_t *executor)
{
	CLEANUP_FREE char *engine = str_visible(text_of(executor, "engine", ""));
	if (json_is_string(executor)) /* as it was asked for; the verdict tells more */
		printf("executor %s\n", json_string_value(executor));
	else if (executor)
		printf("executor %s (%s%s%s)\n", text_of(executor, "name", "?"),
		       text_of(executor, "kind", "?"), *engine ? ", " : "", engine);
}

static void print_database(const json_t *run)
{
	const json_t *step = json_object_get(run, "post_process");
	const json_t *snapshot = json_object_get(run, "db_snapshot");
	if (snapshot) {
		CLEANUP_FREE char *path = str_visible(text_of(snapshot, "path", "?"));
		printf("snapshot %s, SHA-256 %.12s\n", path,
		       text_of(snapshot, "sha256", "unknown"));
	}
	if (!step)
		return;
	CLEANUP_FREE char *name = str_visible(text_of(step, "step", "?"));
	printf("post     %s: %s (run %s)\n", name, text_of(step, "cause", "?"),
	       text_of(step, "run", "none"));
}

/* What only a service knows. */
static void print_submission(const json_t *run)
{
	const json_t *pending = json_object_get(run, "pending");
	CLEANUP_FREE char *by = str_visible(text_of(run, "submitter", ""));
	CLEANUP_FREE char *why = str_visible(text_of(pending, "text", ""));
	if (*by)
		printf("by       %s, %s, priority %lld\n", by, text_of(run, "submitted", "?"),
		       (long long)json_integer_value(json_object_get(run, "priority")));
	if (*why)
		printf("waits    %s\n", why);
}

static void print_end(const json_t *run)
{
	const json_t *status = json_object_get(run, "exit_status");
	CLEANUP_FREE char *notes = str_visible(text_of(run, "completion_notes", ""));
	printf("cause    ");
	terminal_print(stdout, state_colour(text_of(run, "cause", "")), "%s",
		       text_of(run, "cause", ""));
	if (json_is_integer(status)) /* what never began has none */
		printf(" (exit status %lld)", (long long)json_integer_value(status));
	printf("\nnotes    %s\nstarted  %s\nended    %s\n", *notes ? notes : "-",
	       text_of(run, "started", "-"), text_of(run, "ended", "-"));
}

void run_print(const json_t *run)
{
	static const char *const files[] = { "analysis.json", "plan.json",    "receipt.json",
					     "events.jsonl",  "stdout.log",   "stderr.log",
					     "usage.jsonl",   "verdict.json", "outputs.json",
					     "outputs",       "partial",      "work" };
	const char *directory = text_of(run, "directory", NULL);
	const char *title = "files";
	printf("run      %s\nstate    %s\n", text_of(run, "id", "?"), text_of(run, "state", "?"));
	print_submission(run);
	print_runtime(json_object_get(run, "runtime"));
	print_executor(json_object_get(run, "executor"));
	if (json_object_get(run, "cause"))
		print_end(run);
	print_database(run);
	for (size_t i = 0; directory && i < sizeof files / sizeof *files; i++) {
		CLEANUP_FREE char *path = path_join(directory, files[i]);
		if (access(path, F_OK) < 0)
			continue;
		printf("%-8s %s\n", title, path);
		title = "";
	}
}

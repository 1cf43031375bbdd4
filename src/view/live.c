#include "view/live.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/num.h"
#include "base/path.h"
#include "spec/id.h"
#include "view/runs_view.h"
#include "view/status.h"
#include "view/table.h"

#define RECORD_MAX    (8 << 20)
#define TAIL_ROOM     4096
#define N_OWN_COLUMNS 11 /* the others are only there where a service tells of them */

const char *const live_order_names[] = { [LIVE_BY_ID] = "id",
					 [LIVE_BY_CPU] = "cpu",
					 [LIVE_BY_MEMORY] = "memory",
					 [LIVE_BY_TIME] = "time" };

/* The last two lines that are whole. */
static void read_tail(int dir_fd, const char *name, json_t **ret_last, json_t **ret_before)
{
	char text[TAIL_ROOM + 1];
	struct stat st;
	CLEANUP_FD int fd = fs_open_beneath(dir_fd, name, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	off_t from = st.st_size > TAIL_ROOM ? st.st_size - TAIL_ROOM : 0;
	ssize_t n = pread(fd, text, TAIL_ROOM, from);
	text[n < 0 ? 0 : n] = 0;
	char *end = strrchr(text, '\n');
	for (int i = 0; i < 2 && end; i++) {
		*end = 0;
		char *begin = strrchr(text, '\n');
		json_t *line = json_loads(begin ? begin + 1 : text, 0, NULL);
		*(i ? ret_before : ret_last) = line;
		end = begin;
	}
}

static uint64_t number_of(const json_t *o, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(o, key));
}

static const char *phase_of(const char *event)
{
	static const char *const phases[][2] = {
		{ "accepted", "starting" }, { "started", "running" },
		{ "warned", "running" },    { "stopping", "stopping" },
		{ "ended", "collecting" },  { "collected", "collecting" },
		{ "kept", "collecting" },   { "removed", "collecting" },
	};
	for (size_t i = 0; event && i < sizeof phases / sizeof *phases; i++)
		if (str_eq(event, phases[i][0]))
			return phases[i][1];
	return event ? "collecting" : "starting";
}

static void add_sample(int dir_fd, json_t *run)
{
	CLEANUP_JSON json_t *last = NULL;
	CLEANUP_JSON json_t *before = NULL;
	read_tail(dir_fd, "usage.jsonl", &last, &before);
	if (!last)
		return;
	uint64_t ms = number_of(last, "t_ms") - number_of(before, "t_ms");
	uint64_t usec = number_of(last, "cpu_usec") - number_of(before, "cpu_usec");
	json_object_set_new(run, "cpus", json_real(ms ? (double)usec / (double)ms / 1000 : 0));
	json_object_set_new(run, "cpu_usec", json_u64(number_of(last, "cpu_usec")));
	json_object_set_new(run, "memory_bytes", json_u64(number_of(last, "mem")));
	json_object_set_new(run, "pids", json_u64(number_of(last, "pids")));
	json_object_set_new(run, "disk_bytes", json_u64(number_of(last, "disk")));
}

static void add_analysis(int dir_fd, json_t *run)
{
	CLEANUP_JSON json_t *analysis = NULL;
	if (json_read_file(dir_fd, "analysis.json", RECORD_MAX, &analysis, NULL) < 0)
		return;
	json_t *limits = json_object_get(analysis, "limits");
	json_t *memory = json_object_get(json_object_get(limits, "memory"), "raw");
	json_t *runtime = json_object_get(json_object_get(analysis, "runtime"), "name");
	const struct {
		const char *key;
		json_t *value;
	} found[] = { { "memory_limit_bytes", memory },
		      { "runtime", runtime },
		      { "quest", json_object_get(analysis, "quest") },
		      { "name", json_object_get(analysis, "name") } };
	for (size_t i = 0; i < sizeof found / sizeof *found; i++)
		if (found[i].value)
			json_object_set(run, found[i].key, found[i].value);
}

static json_t *one_json(int dir_fd, const char *id, pid_t keeper)
{
	CLEANUP_JSON json_t *last = NULL;
	CLEANUP_JSON json_t *before = NULL;
	uint64_t started_ns = 0;
	read_tail(dir_fd, "events.jsonl", &last, &before);
	const char *event = json_string_value(json_object_get(last, "event"));
	json_t *run = json_pack("{s:s,s:s,s:i}", "id", id, "phase", phase_of(event), "keeper_pid",
				(int)keeper);
	CLEANUP_JSON json_t *times = run_times_json(dir_fd);
	json_object_update(run, times);
	const char *started = json_string_value(json_object_get(run, "started"));
	if (started && clock_read(started, &started_ns) >= 0) {
		uint64_t now = clock_real_ns();
		json_object_set_new(
			run, "elapsed_ms",
			json_u64(now > started_ns ? (now - started_ns) / NS_PER_MS : 0));
	}
	add_sample(dir_fd, run);
	add_analysis(dir_fd, run);
	return run;
}

static double rank(const json_t *run, enum live_order order)
{
	static const char *const keys[] = { [LIVE_BY_CPU] = "cpus",
					    [LIVE_BY_MEMORY] = "memory_bytes",
					    [LIVE_BY_TIME] = "elapsed_ms" };
	return json_number_value(json_object_get(run, keys[order]));
}

static int compare_runs(const void *a, const void *b, void *data)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	enum live_order order = *(const enum live_order *)data;
	double of_x = order == LIVE_BY_ID ? 0 : rank(x, order);
	double of_y = order == LIVE_BY_ID ? 0 : rank(y, order);
	if (of_x != of_y)
		return of_x > of_y ? -1 : 1;
	return strcmp(json_string_value(json_object_get(x, "id")),
		      json_string_value(json_object_get(y, "id")));
}

json_t *live_sort(json_t *runs, enum live_order order)
{
	size_t n = json_array_size(runs);
	CLEANUP_FREE json_t **list = xcalloc(n + 1, sizeof *list);
	for (size_t i = 0; i < n; i++)
		list[i] = json_array_get(runs, i);
	qsort_r(list, n, sizeof *list, compare_runs, &order);
	json_t *result = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append(result, list[i]);
	return result;
}

int live_json(const struct config *c, enum live_order order, json_t **ret, struct err *err)
{
	CLEANUP_FREE char *path = path_join(c->home, "active");
	CLEANUP_JSON json_t *runs = json_array();
	CLEANUP_DIR DIR *dir = opendir(path);
	if (!dir && errno != ENOENT)
		return err_errno(err, "open %s", path);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		pid_t keeper = 0;
		if (id_check(entry->d_name, NULL) < 0 || !run_is_alive(c, entry->d_name, &keeper))
			continue;
		CLEANUP_FREE char *directory = xasprintf("%s/runs/%s", c->home, entry->d_name);
		CLEANUP_FD int fd = open(directory, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
		if (fd >= 0)
			json_array_append_new(runs, one_json(fd, entry->d_name, keeper));
	}
	*ret = live_sort(runs, order);
	return 0;
}

bool live_is_waiting(const json_t *run)
{
	return str_eq(json_string_value(json_object_get(run, "phase")), "queued");
}

static void add_size(struct table *t, const json_t *run, const char *key)
{
	char text[32] = "";
	if (json_object_get(run, key))
		num_print_size(number_of(run, key), text, sizeof text);
	table_add(t, text);
}

static void add_row(struct table *t, const json_t *run)
{
	char elapsed[32] = "", cpus[32] = "", pids[32] = "";
	if (json_object_get(run, "elapsed_ms")) /* whole seconds: it is for a glance */
		(void)status_elapsed(number_of(run, "elapsed_ms") * NS_PER_MS, elapsed,
				     sizeof elapsed);
	if (json_object_get(run, "cpus"))
		(void)snprintf(cpus, sizeof cpus, "%.2f",
			       json_number_value(json_object_get(run, "cpus")));
	if (json_object_get(run, "pids"))
		(void)snprintf(pids, sizeof pids, "%llu",
			       (unsigned long long)number_of(run, "pids"));
	table_add(t, json_string_value(json_object_get(run, "id")));
	table_add(t, json_string_value(json_object_get(run, "phase")));
	table_add(t, elapsed);
	table_add(t, cpus);
	add_size(t, run, "memory_bytes");
	add_size(t, run, "memory_limit_bytes");
	table_add(t, pids);
	add_size(t, run, "disk_bytes");
	table_add(t, json_string_value(json_object_get(run, "runtime")));
	table_add(t, json_string_value(json_object_get(run, "quest")));
	table_add(t, json_string_value(json_object_get(run, "name")));
	if (t->n_columns > N_OWN_COLUMNS)
		table_add(t, json_string_value(json_object_get(run, "submitter")));
}

int live_print(const json_t *runs, size_t lines, struct err *err)
{
	static const struct table_column columns[] = {
		{ "RUN", TABLE_TEXT },    { "PHASE", TABLE_TEXT, true }, { "TIME", TABLE_NUMBER },
		{ "CPUS", TABLE_NUMBER }, { "MEMORY", TABLE_NUMBER },    { "OF", TABLE_NUMBER },
		{ "PIDS", TABLE_NUMBER }, { "DISK", TABLE_NUMBER },      { "RUNTIME", TABLE_CUT },
		{ "QUEST", TABLE_CUT },   { "NAME", TABLE_CUT },         { "SUBMITTER", TABLE_CUT },
	};
	CLEANUP_TABLE struct table t = { columns, N_OWN_COLUMNS };
	size_t i, n = 0;
	json_t *run;
	json_array_foreach(runs, i, run)
	{
		if (json_object_get(run, "submitter") && !live_is_waiting(run))
			t.n_columns = N_OWN_COLUMNS + 1;
	}
	json_array_foreach(runs, i, run)
	{
		if (live_is_waiting(run) || (lines && n + 1 >= lines))
			continue;
		add_row(&t, run);
		n++;
	}
	return table_print(&t, err);
}

void live_print_total(const struct config *c, const json_t *runs)
{
	size_t i, n = 0;
	json_t *run;
	uint64_t memory = 0, pids = 0;
	double cpus = 0;
	char used[32], allowed[32];
	json_array_foreach(runs, i, run)
	{
		n += !live_is_waiting(run);
		memory += number_of(run, "memory_bytes");
		pids += number_of(run, "pids");
		cpus += json_number_value(json_object_get(run, "cpus"));
	}
	printf("%zu run%s  memory %s of %s  cpus %.2f of %.2f  processes %llu of %llu\n", n,
	       n == 1 ? "" : "s", num_print_size(memory, used, sizeof used),
	       num_print_size(c->aggregate.at[LIMIT_MEMORY].value, allowed, sizeof allowed), cpus,
	       (double)c->aggregate.at[LIMIT_CPUS].value / 1000, (unsigned long long)pids,
	       (unsigned long long)c->aggregate.at[LIMIT_PIDS].value);
}

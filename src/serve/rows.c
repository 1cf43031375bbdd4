/* Rows from run directories. */
#include "serve/rows.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "keeper/alive.h"
#include "serve/series.h"
#include "spec/id.h"
#include "view/runs_query.h"
#include "view/runs_view.h"

#define RECORD_MAX (8 << 20)

void rows_query_release(struct rows_query *q)
{
	strv_release(&q->states);
	strv_release(&q->causes);
	strv_release(&q->runtimes);
	strv_release(&q->quests);
	strv_release(&q->submitters);
	cleanup_free(&q->name);
	cleanup_free(&q->text);
	cleanup_free(&q->after);
}

char *rows_owner(const struct config *c)
{
	struct stat st = { 0 };
	struct passwd entry, *found = NULL;
	char text[4096];
	if (stat(c->home, &st) < 0)
		st.st_uid = geteuid();
	if (getpwuid_r(st.st_uid, &entry, text, sizeof text, &found) == 0 && found &&
	    str_is_utf8(found->pw_name, strlen(found->pw_name)))
		return xstrdup(found->pw_name);
	return xasprintf("uid:%u", (unsigned)st.st_uid); /* as auth.c names a user of the socket */
}

void rows_set_owner(json_t *row, const char *owner)
{
	if (!json_is_string(json_object_get(row, "submitter")))
		json_object_set_new(row, "submitter", json_text(owner));
}

int rows_open_run(const struct config *c, const char *id, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", c->home, id);
	int r = id_check(id, err);
	if (r < 0)
		return r;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? id_no_run(c->home, id, err) : fd;
}

void rows_complete(json_t *row)
{
	static const char *const keys[] = { "id",
					    "state",
					    "cause",
					    "name",
					    "runtime",
					    "runtime_why",
					    "quest",
					    "submitter",
					    "priority",
					    "submitted",
					    "started",
					    "ended",
					    "wall_usec",
					    "cpu_usec",
					    "memory_peak_bytes",
					    "memory_limit_bytes",
					    "exit_status",
					    "attempt",
					    "pending",
					    "spark" };
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (!json_object_get(row, keys[i]))
			json_object_set_new(row, keys[i], json_null());
}

static void copy(json_t *to, const char *key, const json_t *from, const char *name)
{
	json_t *value = json_object_get(from, name);
	if (value)
		json_object_set(to, key, value);
}

/* Of one that goes on: its last sample. */
static void add_use(json_t *row, int run_fd)
{
	CLEANUP_JSON json_t *last = series_last(run_fd);
	uint64_t ms = (uint64_t)json_integer_value(json_object_get(last, "t_ms"));
	if (!last)
		return;
	json_object_set_new(row, "wall_usec", json_u64(ms * 1000));
	copy(row, "cpu_usec", last, "cpu_usec");
	copy(row, "memory_peak_bytes", last, "mem");
}

static void add_verdict(json_t *row, const json_t *verdict)
{
	static const char *const keys[] = { "cause", "exit_status", "started", "ended" };
	static const char *const uses[] = { "wall_usec", "cpu_usec", "memory_peak_bytes" };
	const json_t *usage = json_object_get(verdict, "usage");
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		copy(row, keys[i], verdict, keys[i]);
	for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
		copy(row, uses[i], usage, uses[i]);
	copy(row, "submitted", verdict, "accepted");
}

int rows_of_run(const struct config *c, const char *id, int run_fd, json_t **ret, struct err *err)
{
	CLEANUP_JSON json_t *verdict = NULL;
	CLEANUP_JSON json_t *analysis = NULL;
	CLEANUP_JSON json_t *row = json_pack("{s:s}", "id", id);
	(void)json_read_file(run_fd, "analysis.json", RECORD_MAX, &analysis, NULL);
	bool has_ended = json_read_file(run_fd, "verdict.json", RECORD_MAX, &verdict, NULL) >= 0;
	const json_t *memory = json_object_get(json_object_get(analysis, "limits"), "memory");
	copy(row, "name", analysis, "name");
	copy(row, "quest", analysis, "quest");
	copy(row, "submitter", analysis, "submitter");
	copy(row, "runtime", json_object_get(analysis, "runtime"), "name");
	copy(row, "memory_limit_bytes", memory, "raw");
	if (has_ended) {
		add_verdict(row, verdict);
		json_object_set_new(row, "state", json_string("ended"));
	} else {
		CLEANUP_JSON json_t *times = run_times_json(run_fd);
		bool is_alive = run_is_alive(c, id, NULL);
		add_use(row, run_fd);
		copy(row, "submitted", times, "accepted");
		copy(row, "started", times, "started");
		/* One whose keeper died is lost, even before the sweep that records it. */
		json_object_set_new(row, "state", json_string(is_alive ? "running" : "ended"));
		if (!is_alive)
			json_object_set_new(row, "cause", json_string("lost"));
	}
	json_t *spark =
		series_spark(run_fd, (uint64_t)json_integer_value(json_object_get(memory, "raw")));
	if (spark)
		json_object_set_new(row, "spark", spark);
	rows_complete(row);
	*ret = take_ptr(row);
	return 0;
}

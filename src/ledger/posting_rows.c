/* The rows of a run, each in the order of its table's columns behind home and run (put.c). */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fs.h"
#include "ledger/parts.h"

/* `n` values follow by row_text and row_number. */
static struct row *add_row(struct posting *e, enum table table)
{
	e->rows = xreallocarray(e->rows, e->n_rows + 1, sizeof *e->rows);
	e->rows[e->n_rows] = (struct row){ .table = table };
	return &e->rows[e->n_rows++];
}

static void add_value(struct row *row, char *owned)
{
	row->values = xreallocarray(row->values, row->n + 1, sizeof *row->values);
	row->values[row->n++] = owned;
}

static void add_text(struct row *row, const char *text)
{
	add_value(row, text ? xstrdup(text) : NULL);
}

static void add_number(struct row *row, long long number)
{
	add_value(row, xasprintf("%lld", number));
}

static void add_json(struct row *row, const json_t *value)
{
	add_value(row, value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL);
}

/* What is not of the column's kind is NULL: PostgreSQL would refuse the whole run for it. */
static void add_member(struct row *row, const json_t *object, const char *key)
{
	add_text(row, json_string_value(json_object_get(object, key)));
}

static void add_integer(struct row *row, const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	if (json_is_integer(value))
		add_number(row, json_integer_value(value));
	else
		add_text(row, NULL);
}

static const char *text_of(const json_t *object, const char *key, const char *otherwise)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : otherwise;
}

/* What the events tell of the run as a whole. */
struct told {
	char *accepted, *started; /* owned or NULL; their times */
	char chain[HASH_HEX];     /* digest of the last line */
};

static void told_release(struct told *t)
{
	cleanup_free(&t->accepted);
	cleanup_free(&t->started);
}

static void note_time(char **to, const json_t *event, const char *name)
{
	if (!*to && text_of(event, "time", NULL) && str_eq(text_of(event, "event", NULL), name))
		*to = xstrdup(text_of(event, "time", NULL));
}

/* The lines of events.jsonl. A torn one has no more than its digest. */
static void add_events(const struct record_files *f, struct posting *e, struct told *told)
{
	memset(told->chain, '0', HASH_HEX - 1);
	long long number = 0;
	for (size_t at = 0; at < f->events_length;) {
		const char *line = f->events + at;
		const char *end = memchr(line, '\n', f->events_length - at);
		size_t n = end ? (size_t)(end - line) : f->events_length - at;
		CLEANUP_JSON json_t *event = json_loadb(line, n, 0, NULL);
		hash_bytes(line, n, told->chain);
		struct row *row = add_row(e, TABLE_EVENTS);
		add_number(row, ++number);
		add_member(row, event, "time");
		add_member(row, event, "event");
		add_json(row, json_object_get(event, "data"));
		add_text(row, told->chain);
		note_time(&told->accepted, event, "accepted");
		note_time(&told->started, event, "started");
		at += n + 1;
	}
}

/* A lost run's verdict has no times but its end. */
static void add_run(const struct record_files *f, struct row *row, const struct told *told)
{
	static const char *const of_usage[] = { "wall_usec",         "cpu_usec",
						"memory_peak_bytes", "pids_peak",
						"disk_peak_bytes",   "io_read_bytes",
						"io_write_bytes" };
	const json_t *v = f->verdict, *usage = json_object_get(v, "usage");
	add_text(row, text_of(v, "accepted", told->accepted ? told->accepted : ""));
	add_text(row, text_of(v, "started", told->started));
	add_member(row, v, "ended");
	add_text(row, text_of(v, "name", text_of(f->analysis, "name", NULL)));
	add_text(row, text_of(v, "quest", text_of(f->analysis, "quest", NULL)));
	add_member(row, v, "runtime");
	add_text(row, text_of(v, "cause", "?"));
	add_number(row, json_integer_value(json_object_get(v, "exit_status")));
	add_text(row, text_of(v, "completion_notes", ""));
	CLEANUP_JSON json_t *none = json_object();
	const json_t *evidence = json_object_get(v, "evidence");
	const json_t *labels = json_object_get(f->analysis, "labels");
	add_json(row, evidence ? evidence : none);
	add_text(row, text_of(v, "missing_layers", ""));
	add_json(row, labels ? labels : none);
	for (size_t i = 0; i < sizeof of_usage / sizeof *of_usage; i++)
		add_integer(row, usage, of_usage[i]);
	add_text(row, f->analysis ? f->analysis_sha256 : NULL);
	add_text(row, f->verdict_sha256);
	add_text(row, told->chain);
}

/* Each run has one as yet. */
static void add_attempt(const struct record_files *f, struct posting *e)
{
	struct row *row = add_row(e, TABLE_ATTEMPTS);
	add_number(row, 1);
	add_text(row, text_of(json_object_get(f->verdict, "executor"), "name", "local"));
	add_member(row, f->verdict, "started");
	add_member(row, f->verdict, "ended");
	add_text(row, text_of(f->verdict, "cause", "?"));
	add_integer(row, f->verdict, "exit_code");
	add_integer(row, f->verdict, "signal");
}

static void add_outputs(const struct record_files *f, struct posting *e)
{
	size_t i;
	json_t *file;
	json_array_foreach(json_object_get(f->outputs, "files"), i, file)
	{
		struct row *row = add_row(e, TABLE_OUTPUTS);
		add_number(row, (long long)i + 1);
		add_text(row, text_of(file, "path", ""));
		add_number(row, json_integer_value(json_object_get(file, "size")));
		add_text(row, text_of(file, "sha256", ""));
		add_member(row, file, "media_type");
	}
}

/* The logs are complete when the verdict is there. */
static int add_logs(const struct record_files *f, struct posting *e, struct err *err)
{
	static const char *const names[] = { "stdout.log", "stderr.log" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char sha256[HASH_HEX];
		struct stat st = { 0 };
		CLEANUP_FD int fd = fs_open_beneath(f->dir_fd, names[i], O_RDONLY | O_CLOEXEC, 0);
		if (fd == -ENOENT)
			continue; /* it never came to that */
		int r = fd < 0 ? fd : fstat(fd, &st) < 0 ? -errno : hash_file(fd, sha256);
		if (r < 0)
			return err_set(err, ERR_HOST, -r, "run %s: read %s: %s", e->id, names[i],
				       strerrordesc_np(-r));
		struct row *row = add_row(e, TABLE_LOGS);
		add_number(row, (long long)i + 1);
		add_text(row, names[i]);
		add_number(row, (long long)st.st_size);
		add_text(row, sha256);
	}
	return 0;
}

static void add_runtime(const struct record_files *f, struct posting *e)
{
	const json_t *runtime = json_object_get(f->analysis, "runtime");
	const char *name = text_of(runtime, "name", NULL);
	const char *identity = text_of(json_object_get(runtime, "fingerprint"), "identity", NULL);
	if (!name)
		return;
	struct row *row = add_row(e, TABLE_SELECTIONS);
	add_number(row, 1);
	add_text(row, name);
	add_text(row, identity);
	add_member(row, runtime, "rule");
	add_member(row, json_object_get(runtime, "selection"), "why");
	add_member(row, runtime, "allowed_drift");
	if (!identity)
		return;
	row = add_row(e, TABLE_RUNTIMES);
	add_text(row, name);
	add_text(row, identity);
	add_member(row, runtime, "kind");
	add_member(row, runtime, "version");
}

int posting_add_rows(const struct record_files *f, struct posting *e, struct err *err)
{
	CLEANUP(told_release) struct told told = { 0 };
	(void)add_row(
		e,
		TABLE_RUNS); /* first: the others refer to it; filled when the events are known */
	add_attempt(f, e);
	add_events(f, e, &told);
	add_run(f, &e->rows[0], &told);
	add_outputs(f, e);
	if (text_of(f->analysis, "submitter", NULL))
		e->submitter = xstrdup(text_of(f->analysis, "submitter", NULL));
	int r = add_logs(f, e, err);
	add_runtime(f, e);
	return r;
}

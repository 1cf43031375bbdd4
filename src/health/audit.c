/* Follows the links of records. */
#include "health/audit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/path.h"
#include "collect/fetch.h"
#include "collect/outputs.h"
#include "keeper/record.h"
#include "spec/id.h"

#define EVENTS_MAX ((size_t)64 << 20)
#define RECORD_MAX MANIFEST_MAX /* the largest of them */

struct audit {
	const char *id; /* borrowed */
	int dir_fd;     /* owned */
	enum audit_depth depth;
	struct audit_report *report; /* borrowed */
	uint64_t n;                  /* lines so far */
	char head[HASH_HEX];         /* of the last line */
	json_t *last;                /* owned; the last event that could be read */
};

static void audit_release(struct audit *a)
{
	cleanup_fd(&a->dir_fd);
	json_decrefp(&a->last);
}

void audit_report_release(struct audit_report *r)
{
	json_decrefp(&r->links);
	strv_release(&r->runs_broken);
	cleanup_free(&r->uncompared);
}

void audit_broken(struct audit_report *report, const char *run, const char *file, uint64_t line,
		  const char *reason)
{
	if (run)
		strv_add(&report->runs_broken, run);
	if (report->broken++ < AUDIT_BROKEN_MAX)
		json_array_append_new(report->links, json_pack("{s:o,s:o,s:o,s:o}", "run",
							       run ? json_text(run) : json_null(),
							       "file", json_text(file), "line",
							       line ? json_u64(line) : json_null(),
							       "reason", json_text(reason)));
}

/* Always 1: the run is done with. */
static int broken(struct audit *a, const char *file, uint64_t line, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
static int broken(struct audit *a, const char *file, uint64_t line, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	CLEANUP_FREE char *reason = xvasprintf(format, args);
	va_end(args);
	audit_broken(a->report, a->id, file, line, reason);
	return 1;
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}

/* One line: 0, or 1 if its link does not hold. */
static int check_line(struct audit *a, const char *line, size_t length)
{
	CLEANUP_JSON json_t *event = json_loadb(line, length, JSON_REJECT_DUPLICATES, NULL);
	a->n++;
	if (!json_is_object(event)) {
		a->report->torn++;
		hash_bytes(line, length, a->head);
		return 0;
	}
	if (!str_eq(text_of(event, "prev"), a->head))
		return broken(a, "events.jsonl", a->n,
			      "the event '%s' does not carry the SHA-256 of what is before it",
			      text_of(event, "event"));
	if (json_integer_value(json_object_get(event, "n")) != (json_int_t)a->n)
		return broken(a, "events.jsonl", a->n, "the event is not number %llu",
			      (unsigned long long)a->n);
	if (!str_eq(text_of(event, "run"), a->id))
		return broken(a, "events.jsonl", a->n, "the event is of another run");
	hash_bytes(line, length, a->head);
	json_decrefp(&a->last);
	a->last = json_incref(event);
	a->report->events++;
	return 0;
}

/* A line without its end is being written, or was cut by a crash that nobody has swept up after: a complete run has none. */
static int check_events(struct audit *a, bool is_complete)
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	struct err err = { 0 };
	memset(a->head, '0', HASH_HEX - 1);
	if (fs_read_capped(a->dir_fd, "events.jsonl", EVENTS_MAX, &text, &length, &err) < 0)
		return broken(a, "events.jsonl", 0, "%s", err.text);
	for (char *line = text; line < text + length;) {
		char *end = memchr(line, '\n', (size_t)(text + length - line));
		if (!end)
			return is_complete ? broken(a, "events.jsonl", a->n + 1,
						    "the last line is cut off")
					   : 0;
		int r = check_line(a, line, (size_t)(end - line));
		if (r)
			return r;
		line = end + 1;
	}
	return 0;
}

static int check_digest(struct audit *a, const char *path, const char *sha256)
{
	char hex[HASH_HEX];
	CLEANUP_FD int fd =
		fs_open_beneath(a->dir_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
	int r = fd < 0 ? fd : hash_file(fd, hex);
	if (r < 0)
		return broken(a, path, 0, "%s", strerrordesc_np(-r));
	a->report->files++;
	return str_eq(hex, sha256)
		       ? 0
		       : broken(a, path, 0, "its SHA-256 is not the one that was recorded");
}

static int check_files(struct audit *a, const json_t *data)
{
	const char *name;
	json_t *digest;
	json_object_foreach(json_object_get(data, "files"), name, digest)
	{
		const char *text = json_string_value(digest);
		int r = check_digest(a, name, text ? text : "");
		if (r)
			return r;
	}
	return 0;
}

/* By name and size, which costs no reading. */
static int check_size(struct audit *a, const char *path, const json_t *size)
{
	struct stat st = { 0 };
	CLEANUP_FD int fd = fs_open_beneath(a->dir_fd, path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
	if (fd < 0 || fstat(fd, &st) < 0)
		return broken(a, path, 0, "%s", strerrordesc_np(fd < 0 ? -fd : errno));
	if (!S_ISREG(st.st_mode))
		return broken(a, path, 0, "it is not a regular file any more");
	return st.st_size == json_integer_value(size)
		       ? 0
		       : broken(a, path, 0, "it has %lld bytes; %lld were recorded",
				(long long)st.st_size, (long long)json_integer_value(size));
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A directory of outputs, and what may be in it. */
struct listing {
	struct audit *a;
	struct strv names; /* sorted; with "outputs/" or "partial/" before them */
};

/* Takes the descriptor. Directories are no content: one without a file is what an output that was refused left. */
static int check_listing(const struct listing *l, int fd, const char *directory, int depth)
{
	DIR *dir = fd >= 0 && depth <= OUTPUT_DEPTH_MAX ? fdopendir(fd) : NULL;
	int r = 0;
	if (!dir) {
		cleanup_fd(&fd);
		return broken(l->a, directory, 0, "the directory can't be read");
	}
	for (const struct dirent *e; !r && (e = readdir(dir));) {
		struct stat st = { 0 };
		CLEANUP_FREE char *path = xasprintf("%s/%s", directory, e->d_name);
		if (str_eq(e->d_name, ".") || str_eq(e->d_name, ".."))
			continue;
		if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISDIR(st.st_mode))
			r = check_listing(l,
					  openat(dirfd(dir), e->d_name,
						 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
					  path, depth + 1);
		else if (!l->names.n ||
			 !bsearch(&path, l->names.v, l->names.n, sizeof *l->names.v, compare_texts))
			r = broken(
				l->a, path, 0,
				"it was not collected from the run: outputs.json does not have it");
	}
	(void)closedir(dir);
	return r;
}

static int check_recorded(struct audit *a, const json_t *manifest, const char *directory,
			  struct strv *ret_names)
{
	size_t i;
	json_t *file;
	json_array_foreach(json_object_get(manifest, "files"), i, file)
	{
		CLEANUP_FREE char *name = fetch_path(file);
		CLEANUP_FREE char *path = xasprintf("%s/%s", directory, name ? name : "?");
		int r = a->depth == AUDIT_OUTPUTS
				? check_digest(a, path, text_of(file, "sha256"))
				: check_size(a, path, json_object_get(file, "size"));
		if (r)
			return r;
		strv_take(ret_names, take_ptr(path));
	}
	if (ret_names->n)
		qsort(ret_names->v, ret_names->n, sizeof *ret_names->v, compare_texts);
	return 0;
}

static bool has(const struct audit *a, const char *name)
{
	struct stat st = { 0 };
	return fstatat(a->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* What a manifest names is there, and nothing else. */
static int check_outputs(struct audit *a)
{
	CLEANUP_JSON json_t *manifest = NULL;
	CLEANUP_STRV struct strv names = { 0 };
	struct err err = { 0 };
	bool is_aside = !has(a, "outputs");
	const char *directory = is_aside ? "partial" : "outputs";
	int r = json_read_file(a->dir_fd, "outputs.json", RECORD_MAX, &manifest, &err);
	if (r < 0 && r != -ENOENT)
		return broken(a, "outputs.json", 0, "%s", err.text);
	if (r == -ENOENT && is_aside)
		return 0; /* a crash came before the list; what it left is no result */
	if (is_aside && has(a, "partial.expired"))
		return 0; /* removed by gc, for their age: they were never results */
	if (!is_aside && has(a, "partial"))
		return broken(a, "partial", 0, "a run has outputs or partial outputs, never both");
	r = check_recorded(a, manifest, directory, &names);
	if (r || (is_aside && !has(a, directory)))
		return r; /* nothing was collected */
	const struct listing l = { .a = a, .names = names };
	return check_listing(
		&l, openat(a->dir_fd, directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
		directory, 0);
}

/* The verdict names the last event, and the last event the verdict. */
static int check_verdict(struct audit *a, const json_t *verdict)
{
	char hex[HASH_HEX];
	const json_t *events = json_object_get(verdict, "events");
	const json_t *data = json_object_get(a->last, "data");
	json_int_t count = json_integer_value(json_object_get(events, "count"));
	if (!str_eq(text_of(events, "head"), a->head) || count != (json_int_t)a->n)
		return broken(
			a, "events.jsonl", a->n,
			"this is not the last event that verdict.json names: that is number %lld",
			(long long)count);
	record_verdict_digest(verdict, hex);
	if (!str_eq(text_of(data, "verdict_sha256"), hex))
		return broken(a, "verdict.json", 0,
			      "it is not the verdict that the last event vouches for");
	return check_files(a, data);
}

static int check_run(struct audit *a)
{
	CLEANUP_JSON json_t *verdict = NULL;
	struct err err = { 0 };
	int found = json_read_file(a->dir_fd, "verdict.json", RECORD_MAX, &verdict, &err);
	if (found < 0 && found != -ENOENT)
		return broken(a, "verdict.json", 0, "%s", err.text);
	int r = check_events(a, found >= 0);
	if (r || found < 0) {
		a->report->unfinished += found < 0;
		return r;
	}
	r = check_verdict(a, verdict);
	return r || a->depth == AUDIT_RECORDS ? r : check_outputs(a);
}

static int verify_one(const struct config *c, const char *id, enum audit_depth depth,
		      struct audit_report *report, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", c->home, id);
	CLEANUP(audit_release)
	struct audit a = { .id = id, .depth = depth, .report = report, .dir_fd = -1 };
	a.dir_fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (a.dir_fd < 0)
		return errno == ENOENT ? id_no_run(c->home, id, err)
				       : err_errno(err, "open %s", path);
	report->runs++;
	(void)check_run(&a);
	return 0;
}

int audit_verify(const struct config *c, const char *id, enum audit_depth depth,
		 struct audit_report *ret, struct err *err)
{
	CLEANUP_AUDIT_REPORT struct audit_report report = { .links = json_array() };
	CLEANUP_STRV struct strv ids = { 0 };
	int r = id ? id_check(id, err) : id_list(c->home, "runs", &ids, err);
	if (r >= 0 && id)
		r = verify_one(c, id, depth, &report, err);
	for (size_t i = 0; r >= 0 && i < ids.n; i++) {
		r = verify_one(c, ids.v[i], depth, &report, err);
		r = r == -ENOENT ? 0 : r; /* removed meanwhile */
	}
	if (r >= 0 && !id)
		r = audit_chain(c, &report, err);
	if (r < 0)
		return r;
	*ret = report;
	report = (struct audit_report){ 0 };
	return 0;
}

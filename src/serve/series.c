/* Samples of a run. */
#include "serve/series.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/str.h"

#define SERIES_MAX (64 << 20)
#define LINE_MAX_  512

static const char *const columns[] = { "t_ms",     "mem",  "anon",    "file",     "shmem",
				       "cpu_usec", "pids", "io_read", "io_write", "disk" };
#define N_COLUMNS (sizeof columns / sizeof *columns)
#define MEMORY    1

/* A line as the keeper writes it: flat, numbers only. Cheaper than a tree of values for each second of a day. */
static bool parse_line(const char *line, const char *end, uint64_t values[N_COLUMNS])
{
	bool is_any = false;
	for (size_t i = 0; i < N_COLUMNS; i++) {
		char key[24];
		size_t n = (size_t)snprintf(key, sizeof key, "\"%s\":", columns[i]);
		const char *at = memmem(line, (size_t)(end - line), key, n);
		values[i] = 0;
		if (!at)
			continue;
		for (at += n; at < end && *at >= '0' && *at <= '9'; at++) {
			values[i] = values[i] * 10 + (uint64_t)(*at - '0');
			is_any = true;
		}
	}
	return is_any;
}

static json_t *row_json(const uint64_t values[N_COLUMNS])
{
	json_t *row = json_array();
	for (size_t i = 0; i < N_COLUMNS; i++)
		json_array_append_new(row, json_u64(values[i]));
	return row;
}

static size_t count_lines(const char *text, size_t length)
{
	size_t n = 0;
	for (const char *at = text; (at = memchr(at, '\n', length - (size_t)(at - text))); at++)
		n++;
	return n;
}

/* Of each stretch of lines the one with the most memory: a peak is not to vanish between two points. */
static void add_rows(const char *text, size_t length, size_t points, json_t *rows)
{
	size_t lines = count_lines(text, length), done = 0;
	const char *at = text;
	for (size_t i = 0; i < points && done < lines; i++) {
		size_t until = lines <= points ? done + 1 : (i + 1) * lines / points;
		uint64_t best[N_COLUMNS] = { 0 };
		bool is_any = false;
		for (; done < until; done++) {
			const char *end = memchr(at, '\n', length - (size_t)(at - text));
			uint64_t values[N_COLUMNS];
			if (parse_line(at, end, values) &&
			    (!is_any || values[MEMORY] > best[MEMORY])) {
				memcpy(best, values, sizeof best);
				is_any = true;
			}
			at = end + 1;
		}
		if (is_any)
			json_array_append_new(rows, row_json(best));
	}
}

json_t *series_read(int run_fd, size_t points)
{
	json_t *names = json_array(), *rows = json_array();
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	for (size_t i = 0; i < N_COLUMNS; i++)
		json_array_append_new(names, json_string(columns[i]));
	if (fs_read_capped(run_fd, "usage.jsonl", SERIES_MAX, &text, &length, NULL) >= 0)
		add_rows(text, length, points ? points : 1, rows);
	return json_pack("{s:o,s:o}", "columns", names, "rows", rows);
}

/* The first whole line from there on. */
static bool sample_at(int fd, off_t offset, uint64_t values[N_COLUMNS])
{
	char text[2 * LINE_MAX_];
	ssize_t n = pread(fd, text, sizeof text, offset);
	const char *begin = text, *stop = text + (n < 0 ? 0 : n);
	if (offset > 0) {
		begin = memchr(text, '\n', (size_t)(stop - text));
		if (!begin)
			return false;
		begin++;
	}
	const char *end = memchr(begin, '\n', (size_t)(stop - begin));
	return end && parse_line(begin, end, values);
}

static int open_usage(int run_fd, off_t *ret_size)
{
	struct stat st = { 0 };
	CLEANUP_FD int fd = fs_open_beneath(run_fd, "usage.jsonl",
					    O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -EINVAL;
	*ret_size = st.st_size;
	return take_fd(&fd);
}

json_t *series_spark(int run_fd, uint64_t limit_bytes)
{
	off_t size = 0;
	CLEANUP_FD int fd = open_usage(run_fd, &size);
	if (fd < 0 || !size || !limit_bytes)
		return NULL;
	json_t *spark = json_array();
	uint64_t last_ms = UINT64_MAX;
	for (off_t i = 0; i < SERIES_SPARK; i++) {
		uint64_t values[N_COLUMNS];
		off_t before = i ? size * i / SERIES_SPARK : 0;
		if (!sample_at(fd, before, values) || values[0] == last_ms)
			continue;
		last_ms = values[0];
		double part = (double)values[MEMORY] / (double)limit_bytes;
		part = part > 1 ? 1 : part;
		json_array_append_new(spark, json_real((double)(int)(part * 1000 + 0.5) / 1000));
	}
	return spark;
}

json_t *series_last(int run_fd)
{
	off_t size = 0;
	uint64_t values[N_COLUMNS];
	bool is_any = false;
	char text[2 * LINE_MAX_];
	CLEANUP_FD int fd = open_usage(run_fd, &size);
	off_t from = size > (off_t)sizeof text ? size - (off_t)sizeof text : 0;
	ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof text, from);
	for (const char *at = text, *stop = text + (n < 0 ? 0 : n), *end;
	     (end = memchr(at, '\n', (size_t)(stop - at))); at = end + 1)
		is_any = parse_line(at, end, values) || is_any;
	if (!is_any)
		return NULL;
	json_t *o = json_object();
	for (size_t i = 0; i < N_COLUMNS; i++)
		json_object_set_new(o, columns[i], json_u64(values[i]));
	return o;
}

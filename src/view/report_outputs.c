/* Outputs with previews, and the ends of the logs. All of it was written by the analysis: it is read within bounds and shown as text, or
 * as a picture that a browser draws without running anything. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/num.h"
#include "base/path.h"
#include "collect/fetch.h"
#include "view/report_parts.h"

#define LISTED_MAX      500
#define PREVIEWS_MAX    40
#define PICTURE_MAX     ((size_t)2 << 20)
#define PICTURES_MAX    ((size_t)12 << 20) /* in all */
#define TEXT_MAX        4096
#define TABLE_READ_MAX  16384
#define TABLE_ROWS_MAX  12
#define TABLE_CELLS_MAX 12
#define LOG_MAX         16384

/* The first `max` bytes, or the last; *ret_cut says whether there is more. NULL if it cannot be read. */
enum part { PART_HEAD, PART_TAIL };
static char *read_part(int dir_fd, const char *path, enum part part, size_t max, size_t *ret_length,
		       bool *ret_cut)
{
	struct stat st = { 0 };
	CLEANUP_FD int fd =
		fs_open_beneath(dir_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return NULL;
	size_t size = (size_t)st.st_size;
	*ret_cut = size > max;
	off_t from = part == PART_TAIL && size > max ? (off_t)(size - max) : 0;
	CLEANUP_FREE char *text = xmalloc(max + 1);
	ssize_t n = pread(fd, text, max, from);
	if (n < 0)
		return NULL;
	text[n] = 0;
	*ret_length = (size_t)n;
	return take_ptr(text);
}

/* Colours and cursor movements of terminals are left out, returns are new lines. */
static void add_terminal_text(struct str *s, const char *text, size_t length)
{
	CLEANUP_STR struct str plain = { 0 };
	for (size_t at = 0; at < length; at++) {
		if (text[at] == 033 && at + 1 < length && text[at + 1] == '[') {
			for (at += 2; at < length && (text[at] < '@' || text[at] > '~'); at++)
				;
			continue;
		}
		if (text[at] == '\r' && at + 1 < length && text[at + 1] == '\n')
			continue;
		str_add_n(&plain, text[at] == '\r' ? "\n" : &text[at], 1);
	}
	html_add_n(s, str_text(&plain), plain.length);
}

/* By what the file is, not by what it is called: a name may promise anything. */
static const char *picture_type(const char *bytes, size_t length, const char *media_type)
{
	static const struct {
		const char *magic;
		size_t length;
		const char *type;
	} known[] = { { "\x89PNG\r\n\x1a\n", 8, "image/png" },
		      { "\xff\xd8\xff", 3, "image/jpeg" },
		      { "GIF8", 4, "image/gif" } };
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (length > known[i].length && memcmp(bytes, known[i].magic, known[i].length) == 0)
			return known[i].type;
	/* As a picture an SVG file runs no scripts and loads nothing. */
	return str_eq(media_type, "image/svg+xml") ? media_type : NULL;
}

bool report_picture(struct previews *p, int dir_fd, const char *path, const json_t *file,
		    struct str *s)
{
	bool cut = false;
	size_t length = 0;
	const char *media_type = dossier_text(file, "media_type");
	if (!str_starts(media_type, "image/") || dossier_number(file, "size") > PICTURE_MAX ||
	    p->picture_bytes + dossier_number(file, "size") > PICTURES_MAX)
		return false;
	CLEANUP_FREE char *bytes = read_part(dir_fd, path, PART_HEAD, PICTURE_MAX, &length, &cut);
	const char *type = bytes && !cut ? picture_type(bytes, length, media_type) : NULL;
	if (!type)
		return false;
	p->picture_bytes += length;
	str_addf(s, "<img src=\"data:%s;base64,", type);
	html_add_base64(s, bytes, length);
	str_add(s, "\" alt=\"");
	html_add(s, dossier_text(file, "path"));
	str_add(s, "\">\n");
	return true;
}

/* One row of CSV or TSV; quotes as in RFC 4180. Returns where the next begins. */
static const char *add_table_row(struct str *s, const char *at, const char *end, char separator,
				 const char *tag)
{
	size_t cells = 0;
	str_add(s, "<tr>");
	for (bool more = true; more; cells++) {
		CLEANUP_STR struct str cell = { 0 };
		bool quoted = false;
		for (; at < end && (quoted || (*at != separator && *at != '\n')); at++) {
			if (*at != '"')
				str_add_n(&cell, at, 1);
			else if (quoted && at + 1 < end && at[1] == '"')
				str_add_n(&cell, at++, 1);
			else
				quoted = !quoted;
		}
		more = at < end && *at == separator;
		at += at < end;
		if (cell.length && cell.text[cell.length - 1] == '\r')
			cell.length--;
		if (cells < TABLE_CELLS_MAX) {
			str_addf(s, "<%s>", tag);
			html_add_n(s, str_text(&cell), cell.length < 80 ? cell.length : 80);
			str_addf(s, "</%s>", tag);
		}
	}
	if (cells > TABLE_CELLS_MAX)
		str_addf(s, "<%s class=\"soft\">and %zu more</%s>", tag, cells - TABLE_CELLS_MAX,
			 tag);
	str_add(s, "</tr>\n");
	return at;
}

static void add_table(const char *text, size_t length, bool cut, char separator, struct str *s)
{
	const char *at = text, *end = text + length;
	if (cut) /* the last row is not whole */
		while (end > text && end[-1] != '\n')
			end--;
	str_add(s, "<div class=\"scroll\"><table>\n");
	size_t rows = 0;
	for (; at < end && rows < TABLE_ROWS_MAX; rows++)
		at = add_table_row(s, at, end, separator, rows ? "td" : "th");
	str_add(s, "</table></div>\n");
	if (at < end || cut)
		str_addf(s, "<p class=\"soft\">the first %zu rows</p>\n", rows ? rows - 1 : 0);
}

static void add_preview(struct previews *p, int dir_fd, const char *path, const json_t *file,
			struct str *s)
{
	const char *type = dossier_text(file, "media_type");
	bool is_csv = str_eq(type, "text/csv");
	bool is_table = is_csv || str_eq(type, "text/tab-separated-values");
	bool is_text = str_starts(type, "text/") || strstr(type, "json") || strstr(type, "yaml");
	size_t length = 0;
	bool cut = false;
	if (p->n >= PREVIEWS_MAX || report_picture(p, dir_fd, path, file, s))
		p->n++;
	else if (is_text) {
		CLEANUP_FREE char *text = read_part(dir_fd, path, PART_HEAD,
						    is_table ? TABLE_READ_MAX : TEXT_MAX, &length,
						    &cut);
		p->n++;
		if (!text || !length)
			return;
		if (is_table) {
			add_table(text, length, cut, is_csv ? ',' : '\t', s);
			return;
		}
		str_add(s, "<pre>");
		html_add_n(s, text, length);
		str_addf(s, "</pre>\n%s", cut ? "<p class=\"soft\">the beginning</p>\n" : "");
	}
}

static void add_output(struct previews *p, const struct dossier *d, const char *dir,
		       const json_t *file, struct str *s)
{
	char size[40];
	CLEANUP_FREE char *path = fetch_path(file);
	CLEANUP_FREE char *below = dir && path ? path_join(dir, path) : NULL;
	num_print_size(dossier_number(file, "size"), size, sizeof size);
	str_add(s, "<article>\n<h3><bdi>");
	html_add(s, dossier_text(file, "path"));
	str_addf(s, "</bdi></h3>\n<p class=\"soft\">%s", size);
	if (dossier_text(file, "media_type")[0])
		html_addf(s, ", %s", dossier_text(file, "media_type"));
	str_add(s, ", SHA-256 <code>");
	html_add(s, dossier_text(file, "sha256"));
	str_add(s, "</code></p>\n");
	if (below)
		add_preview(p, d->dir_fd, below, file, s);
	str_add(s, "</article>\n");
}

static void add_refused(const struct dossier *d, struct str *s)
{
	size_t i;
	json_t *refused;
	uint64_t n = dossier_number(d->outputs, "refused_count");
	if (!n)
		return;
	str_addf(s, "<details><summary>%llu refused</summary>\n<table>\n", (unsigned long long)n);
	json_array_foreach(json_object_get(d->outputs, "refused"), i, refused)
	{
		str_add(s, "<tr><td><bdi>");
		html_add(s, dossier_text(refused, "path"));
		str_add(s, "</bdi></td><td>");
		html_add(s, dossier_text(refused, "reason"));
		str_add(s, "</td></tr>\n");
	}
	str_add(s, "</table></details>\n");
}

void report_outputs(const struct dossier *d, struct str *s)
{
	struct previews previews = { 0 };
	size_t i;
	json_t *file;
	const json_t *files = json_object_get(d->outputs, "files");
	const char *dir = dossier_outputs_dir(d);
	size_t n = json_array_size(files);
	str_addf(s, "<section>\n<h2>Outputs</h2>\n%s",
		 n ? "" : "<p class=\"soft\">None were collected.</p>\n");
	if (n && str_eq(dir, "partial"))
		str_add(s,
			"<p class=\"warn\">Partial: the run did not succeed, and nothing vouches for these.</p>\n");
	json_array_foreach(files, i, file)
	{
		if (i == LISTED_MAX) {
			str_addf(s, "<p class=\"soft\">and %zu more, in outputs.json</p>\n", n - i);
			break;
		}
		add_output(&previews, d, dir, file, s);
	}
	add_refused(d, s);
	str_add(s, "</section>\n");
}

bool report_tail(int dir_fd, const char *name, size_t max, struct str *s)
{
	size_t length = 0;
	bool cut = false;
	CLEANUP_FREE char *text = read_part(dir_fd, name, PART_TAIL, max, &length, &cut);
	if (!text || !length)
		return false;
	str_addf(s, "%s<pre>", cut ? "<p class=\"soft\">the end</p>\n" : "");
	add_terminal_text(s, text, length);
	str_add(s, "</pre>\n");
	return true;
}

void report_logs(const struct dossier *d, struct str *s)
{
	static const char *const names[] = { "stdout.log", "stderr.log" };
	str_add(s, "<section>\n<h2>Logs</h2>\n");
	for (size_t i = 0; i < 2; i++) {
		str_addf(s, "<article>\n<h3>%s</h3>\n", names[i]);
		if (!report_tail(d->dir_fd, names[i], LOG_MAX, s))
			str_add(s, "<p class=\"soft\">empty</p>\n");
		str_add(s, "</article>\n");
	}
	str_add(s, "</section>\n");
}

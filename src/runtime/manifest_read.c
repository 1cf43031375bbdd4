/* Reading a manifest back, strictly: what is not exactly in its form is damage, and is said with its line. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fs.h"
#include "base/num.h"
#include "runtime/fingerprint_parts.h"

#define MANIFEST_MAX ((size_t)4 << 30)
#define FIELDS_MAX   8

struct reading {
	const char *file;
	size_t line;
	struct snapshot *ret; /* borrowed */
	size_t room;
	struct err *err;
};

static int damaged(const struct reading *r, const char *what)
{
	return err_caller(r->err, "%s:%zu: %s; it is damaged: lock the runtime again", r->file,
			  r->line, what);
}

/* Cuts the line at its tabs and unescapes each field; the number of fields, 0 if there are too many. */
static size_t cut(char *line, char *fields[FIELDS_MAX])
{
	size_t n = 0;

	for (char *at = line; at;) {
		char *tab = strchr(at, '\t');
		if (n == FIELDS_MAX)
			return 0;
		if (tab)
			*tab++ = '\0';
		if (!text_unescape(at))
			return 0;
		fields[n++] = at;
		at = tab;
	}
	return n;
}

static bool octal(const char *text, uint32_t *ret)
{
	if (strlen(text) != 4 || strspn(text, "01234567") != 4)
		return false;
	*ret = 0;
	for (; *text; text++)
		*ret = *ret << 3 | (uint32_t)(*text - '0');
	return true;
}

/* Times before 1970 have a sign. */
static bool signed_number(const char *text, int64_t *ret)
{
	uint64_t value = 0;
	bool minus = *text == '-';

	if (num_u64(text + minus, INT64_MAX, &value) < 0)
		return false;
	*ret = minus ? -(int64_t)value : (int64_t)value;
	return true;
}

static bool digest_ok(const char *text)
{
	return strlen(text) == HASH_HEX - 1 && strspn(text, "0123456789abcdef") == HASH_HEX - 1;
}

static int add_entry(struct reading *r, char *fields[FIELDS_MAX], size_t n)
{
	struct tree *t = &r->ret->tree;
	struct entry e = { .kind = fields[0][0] };
	bool link = e.kind == 'l';

	if (n != (link ? 8U : 7U) || fields[0][1] || !fields[6][0])
		return damaged(r, "not a line of a manifest");
	if (!octal(fields[1], &e.mode) || num_u64(fields[2], UINT64_MAX, &e.size) < 0 ||
	    !signed_number(fields[3], &e.mtime_ns) || !signed_number(fields[4], &e.ctime_ns))
		return damaged(r, "a number is wrong");
	if (!str_eq(fields[5], "-") && !digest_ok(fields[5]))
		return damaged(r, "a digest is wrong");
	if (fields[5][1])
		memcpy(e.sha256, fields[5], HASH_HEX);
	e.path = arena_text(&t->arena, "", fields[6]);
	e.target = link ? arena_text(&t->arena, "", fields[7]) : NULL;
	if (t->n > 0 && entry_order(&t->v[t->n - 1], &e) >= 0)
		return damaged(r, "the lines are out of order");
	if (t->n == r->room) {
		r->room = r->room ? 2 * r->room : 1024;
		t->v = xreallocarray(t->v, r->room, sizeof(*t->v));
	}
	t->v[t->n++] = e;
	return 0;
}

static int read_line(struct reading *r, char *line, bool *ended)
{
	char *fields[FIELDS_MAX] = { 0 };
	size_t n = cut(line, fields);
	uint64_t count = 0;

	if (n == 0)
		return damaged(r, "not a line of a manifest");
	if (str_eq(fields[0], "i") && n == 6) {
		items_add(&r->ret->items, fields[1], fields[2], fields[3], fields[4], fields[5]);
		return 0;
	}
	if (str_eq(fields[0], "end") && n == 2) {
		*ended = true;
		if (num_u64(fields[1], UINT64_MAX, &count) < 0 ||
		    count != r->ret->items.n + r->ret->tree.n)
			return damaged(r, "lines are missing");
		return 0;
	}
	if (strlen(fields[0]) == 1 && strchr("fdlmo", fields[0][0]))
		return add_entry(r, fields, n);
	return damaged(r, "not a line of a manifest");
}

static int read_head(struct reading *r, char *line, const char *runtime)
{
	char *fields[FIELDS_MAX] = { 0 };
	size_t n = cut(line, fields);

	if (n != 3 || !str_eq(fields[0], "cupel-manifest"))
		return damaged(r, "not a manifest");
	if (!str_eq(fields[1], "1"))
		return err_caller(r->err, "%s: a manifest of version %s, which is not known here",
				  r->file, fields[1]);
	if (!str_eq(fields[2], runtime))
		return err_caller(r->err, "%s: the manifest of runtime '%s', not of '%s'", r->file,
				  fields[2], runtime);
	return 0;
}

int manifest_parse(const char *file, const char *runtime, const char *text, size_t length,
		   struct snapshot *ret, struct err *err)
{
	CLEANUP_SNAPSHOT struct snapshot s = SNAPSHOT_INIT;
	struct reading r = { .file = file, .ret = &s, .err = err };
	CLEANUP_STR struct str line = { 0 };
	bool ended = false;

	for (const char *at = text, *end = text + length; at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		r.line++;
		if (!newline || memchr(at, '\0', (size_t)(newline - at)))
			return damaged(&r, "the line does not end");
		if (ended)
			return damaged(&r, "there is more after the end");
		line.length = 0;
		str_add_n(&line, at, (size_t)(newline - at));
		int code = r.line == 1 ? read_head(&r, line.text, runtime)
				       : read_line(&r, line.text, &ended);
		if (code < 0)
			return code;
		at = newline + 1;
	}
	if (!ended)
		return damaged(&r, "the end is missing");
	*ret = s;
	s = (struct snapshot)SNAPSHOT_INIT;
	return 0;
}

int manifest_read(const char *file, const char *runtime, const char *sha256, struct snapshot *ret,
		  struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	char hex[HASH_HEX];

	CLEANUP_FD int fd = open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int r = fd < 0 ? -errno : text_read(fd, MANIFEST_MAX, &text, &length);
	if (r < 0)
		return err_set(err, ERR_CALLER, -r, "read '%s': %s; lock the runtime again", file,
			       strerrordesc_np(-r));
	hash_bytes(text, length, hex);
	if (!str_eq(hex, sha256))
		return err_caller(
			err,
			"%s: it is not the manifest that was locked (SHA-256 %.12s..., not "
			"%.12s...); lock the runtime again",
			file, hex, sha256);
	return manifest_parse(file, runtime, text, length, ret, err);
}

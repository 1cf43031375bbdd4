/* Inline script metadata (PEP 723): finds the block, reads what cupel needs of its TOML. */
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "runtime/select_parts.h"
#include "runtime/select_toml.h"
#include "spec/show.h"

#define DEPENDENCIES_MAX 1000

void script_meta_release(struct script_meta *m)
{
	free(m->requires_python);
	free(m->runtime);
	strv_release(&m->dependencies);
	*m = (struct script_meta){ 0 };
}

struct line {
	const char *text;
	size_t length; /* without its end */
	const char *next;
};

static struct line line_at(const char *p, const char *end)
{
	const char *newline = memchr(p, '\n', (size_t)(end - p));
	struct line l = { p, (size_t)((newline ? newline : end) - p), newline ? newline + 1 : end };
	if (newline && l.length > 0 && p[l.length - 1] == '\r')
		l.length--;
	return l;
}

static bool is_word(const struct line *l, const char *text)
{
	return l->length == strlen(text) && memcmp(l->text, text, l->length) == 0;
}

/* "# /// TYPE"; the type begins at 6. */
static bool is_start(const struct line *l)
{
	if (l->length <= 6 || memcmp(l->text, "# /// ", 6) != 0)
		return false;
	for (size_t i = 6; i < l->length; i++) {
		char c = l->text[i];
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      c == '-'))
			return false;
	}
	return true;
}

static bool is_content(const struct line *l)
{
	return l->length > 0 && l->text[0] == '#' && (l->length == 1 || l->text[1] == ' ');
}

/* The last "# ///" of the comment lines from p on, which is the one that closes; NULL: none does, nor for another that begins before
 * the lines end. */
static const char *find_close(const char *p, const char *end, const char **ret_lines_end)
{
	const char *close = NULL;
	while (p < end) {
		struct line l = line_at(p, end);
		if (!is_content(&l))
			break;
		if (is_word(&l, "# ///"))
			close = p;
		p = l.next;
	}
	*ret_lines_end = p;
	return close;
}

static int count_lines(const char *p, const char *end)
{
	int n = 0;
	while ((p = memchr(p, '\n', (size_t)(end - p)))) {
		n++;
		p++;
	}
	return n;
}

struct block {
	const char *start, *close; /* of the content; NULL: there is none */
	int line;                  /* of the first line, from 1 */
};

/* One block of type `script`; those of other types are passed over whole. */
static int find_block(const char *file, const char *text, size_t length, struct block *ret,
		      struct err *err)
{
	const char *end = text + length;
	for (const char *p = text; p < end;) {
		/* Most lines begin otherwise; this is all that most scripts cost. */
		if (*p != '#') {
			const char *newline = memchr(p, '\n', (size_t)(end - p));
			p = newline ? newline + 1 : end;
			continue;
		}
		struct line l = line_at(p, end);
		const char *next = l.next;
		const char *close = is_start(&l) ? find_close(l.next, end, &next) : NULL;
		bool ours = close && l.length == 12 && memcmp(l.text + 6, "script", 6) == 0;
		if (ours && ret->start)
			return err_caller(
				err,
				"%s:%d: a second block of script metadata; the first is in line %d",
				file, 1 + count_lines(text, p), ret->line);
		if (ours)
			*ret = (struct block){ l.next, close, 1 + count_lines(text, p) };
		p = close ? line_at(close, end).next : next;
	}
	return 0;
}

struct reading {
	const char *file;
	int line; /* of the block's first line */
	struct script_meta *meta;
	bool seen_dependencies;
};

static int wrong(const struct reading *to, const struct toml_value *v, struct err *err,
		 const char *what)
{
	return err_caller(err, "%s:%d: in the script's metadata: %s", to->file, to->line + v->line,
			  what);
}

static bool path_is(const struct toml_value *v, const char *const *path, size_t n)
{
	bool is = v->depth >= n;
	for (size_t i = 0; is && i < n; i++)
		is = str_eq(v->path[i], path[i]);
	return is;
}

static int set_text(struct reading *to, const struct toml_value *v, const char *name, char **ret,
		    struct err *err)
{
	char text[128];
	(void)snprintf(text, sizeof text,
		       *ret ? "%s is said twice" : "%s must be one string in quotes", name);
	if (*ret || v->kind != TOML_STRING)
		return wrong(to, v, err, text);
	*ret = xstrdup(v->text);
	return 0;
}

static int take_dependency(struct reading *to, const struct toml_value *v, struct err *err)
{
	if (v->depth == 1) {
		if (v->kind != TOML_ARRAY)
			return wrong(to, v, err, "dependencies must be a list of strings");
		if (to->seen_dependencies)
			return wrong(to, v, err, "dependencies is said twice");
		to->seen_dependencies = true;
		return 0;
	}
	if (v->kind != TOML_STRING || v->depth != 2 || v->path[1])
		return wrong(to, v, err, "dependencies must be a list of strings");
	char first = v->text[0];
	if (!((first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') ||
	      (first >= '0' && first <= '9')))
		return wrong(to, v, err, "a dependency begins with the name of a distribution");
	if (to->meta->dependencies.n == DEPENDENCIES_MAX)
		return wrong(to, v, err, "too many dependencies");
	strv_add(&to->meta->dependencies, v->text);
	return 0;
}

static int take_runtime(struct reading *to, const struct toml_value *v, struct err *err)
{
	int r = set_text(to, v, "tool.cupel.runtime", &to->meta->runtime, err);
	if (r < 0)
		return r;
	if (!path_name_ok(to->meta->runtime) || !text_is_label(to->meta->runtime, 255))
		return wrong(to, v, err, "tool.cupel.runtime is not the name of a runtime");
	to->meta->runtime_line = to->line + v->line;
	return 0;
}

static int take_limit(struct reading *to, const struct toml_value *v, struct err *err)
{
	char text[256], origin[128], shown[SHOW_ROOM];
	uint64_t value = 0;
	const char *key = v->path[3];
	int id = key ? limit_find(key) : -1;
	if (id < 0) {
		(void)snprintf(text, sizeof text, "there is no limit '%s'", show_text(key, shown));
		return wrong(to, v, err, text);
	}
	(void)snprintf(text, sizeof text,
		       to->meta->limits.at[id].value
			       ? "tool.cupel.limits.%s is said twice"
			       : "tool.cupel.limits.%s must be one string in quotes",
		       key);
	if (to->meta->limits.at[id].value || v->kind != TOML_STRING || v->depth != 4)
		return wrong(to, v, err, text);
	int r = limit_parse((enum limit_id)id, v->text, &value, err);
	if (r < 0)
		return err_wrap(err, "%s:%d: tool.cupel.limits.%s", to->file, to->line + v->line,
				key);
	(void)snprintf(origin, sizeof origin, "%s:%d", to->file, to->line + v->line);
	limits_set(&to->meta->limits, (enum limit_id)id, value, origin);
	return 0;
}

static int take_cupel(struct reading *to, const struct toml_value *v, struct err *err)
{
	static const char *const keys[] = { "runtime", "limits" };
	char text[256], shown[SHOW_ROOM];
	if (v->depth == 2)
		return v->kind == TOML_TABLE
			       ? 0
			       : wrong(to, v, err, "tool.cupel must be a table: [tool.cupel]");
	const char *key = v->path[2];
	if (v->depth == 3 && str_eq(key, "runtime"))
		return take_runtime(to, v, err);
	if (v->depth == 3 && str_eq(key, "limits"))
		return v->kind == TOML_TABLE
			       ? 0
			       : wrong(to, v, err, "tool.cupel.limits must be a table");
	if (str_eq(key, "limits"))
		return take_limit(to, v, err);
	const char *near = key ? str_nearest(key, keys, sizeof keys / sizeof *keys) : NULL;
	(void)snprintf(text, sizeof text, "[tool.cupel] has no '%s'%s%s; it has runtime and limits",
		       show_text(key, shown), near ? "; did you mean " : "", near ? near : "");
	return wrong(to, v, err, text);
}

static int take(void *data, const struct toml_value *v, struct err *err)
{
	static const char *const python[] = { "requires-python" };
	static const char *const dependencies[] = { "dependencies" };
	static const char *const cupel[] = { "tool", "cupel" };
	struct reading *to = data;
	if (path_is(v, python, 1))
		return v->depth == 1
			       ? set_text(to, v, "requires-python", &to->meta->requires_python, err)
			       : wrong(to, v, err, "requires-python must be one string");
	if (path_is(v, dependencies, 1))
		return take_dependency(to, v, err);
	return path_is(v, cupel, 2) ? take_cupel(to, v, err) : 0;
}

static int read_block(const char *file, const struct block *b, struct script_meta *m,
		      struct err *err)
{
	CLEANUP_STR struct str content = { 0 };
	for (const char *p = b->start; p < b->close;) {
		struct line l = line_at(p, b->close);
		size_t cut = l.length > 1 ? 2 : 1;
		str_add_n(&content, l.text + cut, l.length - cut);
		str_add(&content, "\n");
		p = l.next;
	}
	if (!str_is_utf8(str_text(&content), content.length))
		return err_caller(err, "%s:%d: the script's metadata is not UTF-8", file, b->line);
	struct reading to = { file, b->line, m, false };
	struct toml_reader reader = { file, b->line, &to, take };
	return toml_read(&reader, str_text(&content), content.length, err);
}

int script_meta_read(const char *file, const char *text, size_t length, struct script_meta *ret,
		     struct err *err)
{
	CLEANUP_SCRIPT_META struct script_meta m = { 0 };
	struct block block = { 0 };
	int r = find_block(file, text, length, &block, err);
	if (r >= 0 && block.start) {
		m.line = block.line;
		r = read_block(file, &block, &m, err);
	}
	if (r < 0)
		return r;
	*ret = m;
	m = (struct script_meta){ 0 };
	return 0;
}

#include "view/diff_view.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/num.h"
#include "spec/id.h"
#include "view/table.h"

#define RECORD_MAX (8 << 20)

struct side {
	const char *id;
	int dir_fd;       /* owned */
	json_t *analysis; /* owned or NULL: it did not come to that */
	json_t *verdict;  /* owned or NULL: it still goes on */
};

static void side_release(struct side *s)
{
	cleanup_fd(&s->dir_fd);
	json_decref(s->analysis);
	json_decref(s->verdict);
}

static int side_open(const struct config *c, const char *id, struct side *ret, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", c->home, id);
	int r = id_check(id, err);
	if (r < 0)
		return r;
	ret->id = id;
	ret->dir_fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (ret->dir_fd < 0)
		return id_no_run(c->home, id, err);
	(void)json_read_file(ret->dir_fd, "analysis.json", RECORD_MAX, &ret->analysis, NULL);
	(void)json_read_file(ret->dir_fd, "verdict.json", RECORD_MAX, &ret->verdict, NULL);
	return 0;
}

/* Every value with its path as key: {"limits.memory":"2G"}. */
static void flatten(json_t *to, const char *path, json_t *value)
{
	const char *key;
	json_t *item;
	size_t i;
	const char *dot = *path ? "." : "";
	if (json_is_object(value)) {
		json_object_foreach(value, key, item)
		{
			CLEANUP_FREE char *below = xasprintf("%s%s%s", path, dot, key);
			flatten(to, below, item);
		}
	} else if (json_is_array(value)) {
		json_array_foreach(value, i, item)
		{
			CLEANUP_FREE char *below = xasprintf("%s[%zu]", path, i);
			flatten(to, below, item);
		}
	} else if (value) {
		json_object_set(to, path, value);
	}
}

/* What was asked, without what names the run or is told elsewhere. */
static json_t *asked(const struct side *s)
{
	static const char *const parts[] = { "name",        "quest",         "profile",
					     "code",        "args",          "command",
					     "outputs",     "env",           "secret_env",
					     "labels",      "network",       "scratch",
					     "warn_signal", "allow_missing", "allow_drift" };
	json_t *flat = json_object();
	const char *key;
	json_t *value;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		flatten(flat, parts[i], json_object_get(s->analysis, parts[i]));
	json_object_foreach(json_object_get(s->analysis, "limits"), key, value)
	{
		CLEANUP_FREE char *path = xasprintf("limits.%s", key);
		flatten(flat, path, json_object_get(value, "value"));
	}
	return flat;
}

static json_t *runtime_of(const struct side *s)
{
	static const char *const parts[] = { "name",   "kind",   "version",
					     "prefix", "digest", "fingerprint" };
	json_t *flat = json_object();
	const json_t *runtime = json_object_get(s->analysis, "runtime");
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		flatten(flat, parts[i], json_object_get(runtime, parts[i]));
	return flat;
}

static void add_contents(json_t *flat, const char *name, const json_t *of)
{
	static const char *const parts[] = { "kind", "files", "bytes", "sha256" };
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		CLEANUP_FREE char *key = xasprintf("%s.%s", name, parts[i]);
		flatten(flat, key, json_object_get(of, parts[i]));
	}
	if (json_is_string(json_object_get(of, "sha256")))
		return;
	CLEANUP_FREE char *key = xasprintf("%s.stat", name); /* all there is to tell them apart */
	flatten(flat, key, json_object_get(of, "stat"));
}

static json_t *inputs_of(const struct side *s)
{
	json_t *flat = json_object();
	size_t i;
	json_t *one;
	json_array_foreach(json_object_get(s->analysis, "code_contents"), i, one)
	{
		const char *path = json_string_value(json_object_get(one, "path"));
		const char *last = path ? strrchr(path, '/') : NULL;
		CLEANUP_FREE char *name = xasprintf("code%s", last ? last : "");
		add_contents(flat, name, one);
	}
	json_array_foreach(json_object_get(s->analysis, "inputs"), i, one)
	{
		const char *said = json_string_value(json_object_get(one, "name"));
		CLEANUP_FREE char *name = xasprintf("data/%s", said ? said : "");
		add_contents(flat, name, one);
	}
	if (json_object_get(s->analysis, "db_snapshot"))
		add_contents(flat, "db_snapshot", json_object_get(s->analysis, "db_snapshot"));
	return flat;
}

static json_t *verdict_of(const struct side *s)
{
	static const char *const parts[] = { "cause",       "exit_status",    "exit_code",
					     "signal",      "missing_layers", "input_changed",
					     "post_process" };
	json_t *flat = json_object();
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		flatten(flat, parts[i], json_object_get(s->verdict, parts[i]));
	return flat;
}

static json_t *usage_of(const struct side *s)
{
	json_t *flat = json_object();
	flatten(flat, "", json_object_get(s->verdict, "usage"));
	return flat;
}

enum rows { ROWS_DIFFERENT, ROWS_ALL };

static void add_row(json_t *rows, const char *key, json_t *a, json_t *b)
{
	json_array_append_new(rows, json_pack("{s:s,s:O,s:O}", "key", key, "a", a ? a : json_null(),
					      "b", b ? b : json_null()));
}

/* Takes both. */
static json_t *beside(json_t *a, json_t *b, enum rows which)
{
	CLEANUP_JSON json_t *of_a = a;
	CLEANUP_JSON json_t *of_b = b;
	json_t *rows = json_array();
	const char *key;
	json_t *value;
	json_object_foreach(of_a, key, value)
	{
		json_t *other = json_object_get(of_b, key);
		if (which == ROWS_ALL || !json_equal(value, other))
			add_row(rows, key, value, other);
	}
	json_object_foreach(of_b, key, value)
	{
		if (!json_object_get(of_a, key))
			add_row(rows, key, NULL, value);
	}
	return rows;
}

static const struct section {
	const char *key;
	json_t *(*of)(const struct side *s);
	enum rows rows;
} sections[] = { { "analysis", asked, ROWS_DIFFERENT },
		 { "runtime", runtime_of, ROWS_DIFFERENT },
		 { "inputs", inputs_of, ROWS_DIFFERENT },
		 { "verdict", verdict_of, ROWS_DIFFERENT },
		 { "usage", usage_of, ROWS_ALL } };

/* Null where one of them has no list of outputs: it still goes on, or was lost. */
static int outputs_json(const struct side *a, const struct side *b,
			const struct tolerance *tolerance, json_t **ret, struct err *err)
{
	struct compare_side of_a = { a->dir_fd, a->id }, of_b = { b->dir_fd, b->id };
	struct err why = { 0 };
	int r = compare_outputs(&of_a, &of_b, tolerance, ret, &why);
	if (r == -ENOENT) {
		*ret = json_null();
		return 0;
	}
	if (r < 0)
		*err = why;
	return r;
}

int diff_json(const struct config *c, const char *a, const char *b,
	      const struct tolerance *tolerance, json_t **ret, struct err *err)
{
	CLEANUP(side_release) struct side of_a = { .dir_fd = -1 };
	CLEANUP(side_release) struct side of_b = { .dir_fd = -1 };
	CLEANUP_JSON json_t *outputs = NULL;
	int r = side_open(c, a, &of_a, err);
	if (r >= 0)
		r = side_open(c, b, &of_b, err);
	if (r >= 0)
		r = outputs_json(&of_a, &of_b, tolerance, &outputs, err);
	if (r < 0)
		return r;
	bool same = json_is_object(outputs) && compare_is_equal(outputs);
	json_t *diff = json_pack("{s:s,s:s}", "a", a, "b", b);
	for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
		const struct section *s = &sections[i];
		json_t *rows = beside(s->of(&of_a), s->of(&of_b), s->rows);
		same = same && (s->rows == ROWS_ALL || json_array_size(rows) == 0);
		json_object_set_new(diff, s->key, rows);
	}
	json_object_set(diff, "outputs", outputs);
	json_object_set_new(diff, "same", json_boolean(same));
	*ret = diff;
	return 0;
}

static void print_value(struct table *t, const char *key, const json_t *value)
{
	char text[32];
	if (json_is_string(value)) {
		table_add(t, json_string_value(value));
	} else if (json_is_integer(value) && str_ends(key, "_bytes")) {
		table_add(t,
			  num_print_size((uint64_t)json_integer_value(value), text, sizeof text));
	} else if (json_is_integer(value) && str_ends(key, "_usec")) {
		uint64_t usec = (uint64_t)json_integer_value(value);
		table_add(t, num_print_duration(usec * 1000, text, sizeof text));
	} else {
		CLEANUP_FREE char *dump =
			value && !json_is_null(value)
				? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY)
				: NULL;
		table_add(t, dump);
	}
}

static int print_section(const json_t *diff, const char *key, struct err *err)
{
	const json_t *rows = json_object_get(diff, key);
	CLEANUP_FREE char *head = str_visible(key);
	const struct table_column columns[] = {
		{ head, TABLE_WRAP },
		{ json_string_value(json_object_get(diff, "a")), TABLE_WRAP },
		{ json_string_value(json_object_get(diff, "b")), TABLE_WRAP },
	};
	CLEANUP_TABLE struct table t = { columns, sizeof columns / sizeof *columns };
	size_t i;
	json_t *row;
	if (json_array_size(rows) == 0) {
		printf("%s: the same\n", key);
		return 0;
	}
	for (char *at = head; *at; at++)
		*at = (char)(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
	json_array_foreach(rows, i, row)
	{
		const char *name = json_string_value(json_object_get(row, "key"));
		table_add(&t, name);
		print_value(&t, name, json_object_get(row, "a"));
		print_value(&t, name, json_object_get(row, "b"));
	}
	return table_print(&t, err);
}

int diff_print(const json_t *diff, struct err *err)
{
	const json_t *outputs = json_object_get(diff, "outputs");
	int r = 0;
	for (size_t i = 0; r >= 0 && i < sizeof sections / sizeof *sections; i++)
		r = print_section(diff, sections[i].key, err);
	if (r < 0)
		return r;
	if (json_is_object(outputs))
		compare_print(outputs, json_string_value(json_object_get(diff, "a")),
			      json_string_value(json_object_get(diff, "b")));
	else
		printf("outputs: one of them has none yet\n");
	return 0;
}

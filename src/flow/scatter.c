/* One step over many values: a list, a range, the files of a pattern, a parameter that is a list, or the shards of another step. Several variables
 * are every combination. */
#include <errno.h>
#include <glob.h>
#include <string.h>

#include "base/num.h"
#include "base/path.h"
#include "flow/parts.h"
#include "spec/parameters.h"
#include "spec/show.h"

void shards_release(struct shards *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].name);
		json_decref(s->v[i].values);
	}
	free(s->v);
	strv_release(&s->variables);
	*s = (struct shards){ 0 };
}

static int too_many(const struct document *d, const struct node *n, struct err *err)
{
	return node_error(d, n, err, "more than %d shards", FLOW_TASKS_MAX);
}

/* A list of scalars, of a parameter or of the file. */
static int check_list(const struct document *d, const struct node *n, const json_t *list,
		      struct err *err)
{
	size_t i;
	json_t *item;
	if (!json_is_array(list))
		return node_error(d, n, err, "expected a list of values");
	if (json_array_size(list) == 0)
		return node_error(d, n, err, "the list is empty: there would be nothing to run");
	if (json_array_size(list) > FLOW_TASKS_MAX)
		return too_many(d, n, err);
	json_array_foreach(list, i, item)
	{
		if (json_is_array(item) || json_is_object(item) || json_is_null(item))
			return node_error(d, n, err,
					  "value %zu of the list is no text, number or boolean",
					  i + 1);
	}
	return 0;
}

static int bound(const struct document *d, const struct node *n, long long *ret, struct err *err)
{
	CLEANUP_JSON json_t *value = NULL;
	char shown[SHOW_ROOM];
	int r = node_json(d, n, &value, err);
	if (r < 0)
		return r;
	if (!json_is_integer(value))
		return node_error(d, n, err, "'%s' is no whole number",
				  n->kind == NODE_SCALAR ? show_text(n->text, shown) : "this");
	*ret = json_integer_value(value);
	return 0;
}

static int read_range(const struct document *d, const struct node *n, json_t *list, struct err *err)
{
	long long at[3] = { 0, 0, 1 };
	if (n->kind != NODE_LIST || n->n < 2 || n->n > 3)
		return node_error(d, n, err, "expected range: [FIRST, LAST] or [FIRST, LAST, BY]");
	for (size_t i = 0; i < n->n; i++) {
		int r = bound(d, n->values[i], &at[i], err);
		if (r < 0)
			return r;
		if (at[i] > 1000000000000 || at[i] < -1000000000000)
			return node_error(d, n->values[i], err, "too large for a range");
	}
	if (at[2] < 1 || at[1] < at[0])
		return node_error(
			d, n, err,
			"the range is empty: FIRST is not above LAST, and BY is at least 1");
	if ((at[1] - at[0]) / at[2] >= FLOW_TASKS_MAX)
		return too_many(d, n, err);
	for (long long value = at[0]; value <= at[1]; value += at[2])
		json_array_append_new(list, json_integer(value));
	return 0;
}

/* Each wildcard in a directory multiplies what has to be looked at. */
static bool is_bounded(const char *pattern)
{
	unsigned wild = 0;
	for (const char *c = pattern; *c;) {
		size_t n = strcspn(c, "/");
		wild += strcspn(c, "*?[") < n;
		c += n + (c[n] == '/');
	}
	return wild <= 3;
}

static int read_glob(const struct document *d, const struct node *n, const char *base, json_t *list,
		     struct err *err)
{
	CLEANUP_FREE char *pattern = NULL;
	char shown[SHOW_ROOM];
	int r = node_string(d, n, &pattern, err);
	if (r < 0)
		return r;
	if (!is_bounded(pattern))
		return node_error(d, n, err, "'%s' has wildcards in more than three components",
				  show_text(pattern, shown));
	bool relative = pattern[0] != '/';
	CLEANUP_FREE char *full = relative ? path_join(base, pattern) : xstrdup(pattern);
	glob_t found = { 0 };
	r = glob(full, 0, NULL, &found);
	size_t prefix = relative ? strlen(base) + 1 : 0;
	for (size_t i = 0; r == 0 && i < found.gl_pathc && i <= FLOW_TASKS_MAX; i++)
		json_array_append_new(list, json_text(found.gl_pathv[i] + prefix));
	globfree(&found);
	if (r == GLOB_NOMATCH)
		return node_error(d, n, err, "no file matches '%s' in %s",
				  show_text(pattern, shown), base);
	if (r != 0)
		return node_error(d, n, err, "'%s' can't be looked for", show_text(pattern, shown));
	return json_array_size(list) > FLOW_TASKS_MAX ? too_many(d, n, err) : 0;
}

static int read_parameter(const struct document *d, const struct node *n, const json_t *parameters,
			  json_t **list, struct err *err)
{
	char shown[SHOW_ROOM];
	const json_t *value = n->kind == NODE_SCALAR ? json_object_get(parameters, n->text) : NULL;
	if (!value)
		return node_error(d, n, err, "there is no parameter '%s' at the top of the file",
				  n->kind == NODE_SCALAR ? show_text(n->text, shown) : "?");
	json_decref(*list);
	*list = json_deep_copy(value);
	return check_list(d, n, *list, err);
}

/* The values of one variable. */
static int read_values(const struct document *d, const struct node *n, const char *base,
		       const json_t *parameters, json_t **ret, struct err *err)
{
	CLEANUP_JSON json_t *list = json_array();
	const char *how = n->kind == NODE_MAP && n->n == 1 ? n->keys[0]->text : NULL;
	int r;
	if (n->kind == NODE_LIST) {
		json_decref(list);
		list = NULL;
		r = node_json(d, n, &list, err);
		if (r >= 0)
			r = check_list(d, n, list, err);
	} else if (str_eq(how, "range")) {
		r = read_range(d, n->values[0], list, err);
	} else if (str_eq(how, "glob")) {
		r = read_glob(d, n->values[0], base, list, err);
	} else if (str_eq(how, "parameter")) {
		r = read_parameter(d, n->values[0], parameters, &list, err);
	} else {
		r = node_error(
			d, n, err,
			"expected a list, or one of {range: [FIRST, LAST]}, {glob: PATTERN}, {parameter: NAME}, {of: STEP}");
	}
	if (r >= 0)
		*ret = take_ptr(list);
	return r;
}

/* Every combination of what there was with the values of one more variable. */
static int multiply(const struct document *d, const struct node *n, const char *variable,
		    const json_t *list, struct shards *s, struct err *err)
{
	size_t n_values = json_array_size(list), n_before = s->n ? s->n : 1;
	if (n_values * n_before > FLOW_TASKS_MAX)
		return too_many(d, n, err);
	struct shard *made = xcalloc(n_values * n_before, sizeof *made);
	for (size_t i = 0; i < n_before; i++)
		for (size_t k = 0; k < n_values; k++) {
			struct shard *one = &made[i * n_values + k];
			json_t *value = json_array_get(list, k);
			CLEANUP_FREE char *text = template_value(value);
			one->values = s->n ? json_copy(s->v[i].values) : json_object();
			json_object_set(one->values, variable, value);
			one->name = s->n ? xasprintf("%s,%s", s->v[i].name, path_base(text))
					 : xstrdup(path_base(text));
		}
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].name);
		json_decref(s->v[i].values);
	}
	free(s->v);
	s->v = made;
	s->n = n_values * n_before;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct shard *const *)a)->name, (*(struct shard *const *)b)->name);
}

/* The names of shards are directories in the box of whoever gathers them. */
static int check_names(const struct document *d, const struct node *n, struct shards *s,
		       struct err *err)
{
	CLEANUP_FREE struct shard **sorted = xcalloc(s->n, sizeof(struct shard *));
	char shown[SHOW_ROOM];
	for (size_t i = 0; i < s->n; i++) {
		sorted[i] = &s->v[i];
		if (!path_name_ok(s->v[i].name) || strlen(s->v[i].name) > 200)
			return node_error(
				d, n, err,
				"'%s' can't be the name of a shard: it is to be the name of a directory",
				show_text(s->v[i].name, shown));
	}
	qsort(sorted, s->n, sizeof *sorted, by_name);
	for (size_t i = 1; i < s->n; i++)
		if (str_eq(sorted[i - 1]->name, sorted[i]->name))
			return node_error(
				d, n, err,
				"two shards would be named '%s', after the last component of their value",
				show_text(sorted[i]->name, shown));
	return 0;
}

/* {of: STEP} without a variable before it: "of" was meant as the word of the language, not as a name. */
static int check_variable(const struct document *d, const struct node *n, size_t i, struct err *err)
{
	static const char *const words[] = { "of", "range", "glob", "parameter" };
	const struct node *value = n->values[i];
	char shown[SHOW_ROOM];
	for (size_t w = 0; w < sizeof words / sizeof *words; w++)
		if (str_eq(n->keys[i]->text, words[w]) &&
		    (value->kind == NODE_SCALAR || str_eq(words[w], "range")))
			return node_error(
				d, n->keys[i], err,
				"the variable is missing: write scatter: {VARIABLE: {%s: %s}}, where VARIABLE is a name that you "
				"choose for {{VARIABLE}} in the step",
				words[w],
				value->kind == NODE_SCALAR ? show_text(value->text, shown) : "...");
	return 0;
}

int scatter_read(const struct document *d, const struct node *n, const char *base,
		 const json_t *parameters, struct shards *ret, struct err *err)
{
	CLEANUP_SHARDS struct shards s = { 0 };
	if (n->kind != NODE_MAP || n->n == 0)
		return node_error(
			d, n, err,
			"expected {VARIABLE: VALUES}, where VARIABLE is a name that you choose: scatter: {sample: [a, b]}");
	for (size_t i = 0; i < n->n; i++) {
		const struct node *values = n->values[i];
		CLEANUP_JSON json_t *list = NULL;
		char shown[SHOW_ROOM];
		int r = check_variable(d, n, i, err);
		if (r < 0)
			return r;
		if (env_name_check(n->keys[i]->text, err) < 0)
			return node_error(d, n->keys[i], err, "'%s' is no name of a variable",
					  show_text(n->keys[i]->text, shown));
		strv_add(&s.variables, n->keys[i]->text);
		const struct node *of = map_get(values->kind == NODE_MAP ? values : NULL, "of");
		if (of && n->n > 1)
			return node_error(
				d, of, err,
				"the shards of another step can't be combined with other variables");
		if (of) {
			s.of = of;
			break;
		}
		r = read_values(d, values, base, parameters, &list, err);
		if (r >= 0)
			r = multiply(d, values, n->keys[i]->text, list, &s, err);
		if (r < 0)
			return r;
	}
	int r = s.of ? 0 : check_names(d, n, &s, err);
	if (r < 0)
		return r;
	*ret = s;
	s = (struct shards){ 0 };
	return 0;
}

/* The lists and maps of an analysis file: inputs, outputs, env, labels. */
#include <string.h>

#include "base/path.h"
#include "spec/analysis_reading.h"
#include "spec/show.h"

int reading_label(const struct document *d, const struct node *n, char **ret, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	char shown[SHOW_ROOM];
	int r = node_string(d, n, &text, err);

	if (r < 0)
		return r;
	if (!text_is_label(text, ANALYSIS_LABEL_MAX))
		return node_error(d, n, err,
				  "'%s' must be 1 to %d bytes of UTF-8 without control characters",
				  show_text(text, shown), ANALYSIS_LABEL_MAX);
	*ret = take_ptr(text);
	return 0;
}

int reading_checked(const struct document *d, const struct node *n, int r, const struct err *why,
		    struct err *err)
{
	return r < 0 ? node_error(d, n, err, "%s", why->text) : 0;
}

int reading_path(const struct document *d, const struct node *n, const char *base, char **ret,
		 struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	char shown[SHOW_ROOM];
	int r = node_string(d, n, &text, err);

	if (r < 0)
		return r;
	CLEANUP_FREE char *path = strlen(text) < 4096 ? path_normal(base, text) : NULL;
	if (!path || strpbrk(path, "\n\r"))
		return node_error(d, n, err, "'%s' is not a usable path; correct it",
				  show_text(text, shown));
	*ret = take_ptr(path);
	return 0;
}

struct input_map {
	const char *base;
	char *path; /* owned */
	char *name; /* owned or NULL */
	char *step; /* owned or NULL */
};

static void input_map_release(struct input_map *map)
{
	free(map->path);
	free(map->name);
	free(map->step);
}

static int read_input_path(const struct document *d, const struct node *n, void *target,
			   struct err *err)
{
	struct input_map *to = target;

	return reading_path(d, n, to->base, &to->path, err);
}

static int read_input_name(const struct document *d, const struct node *n, void *target,
			   struct err *err)
{
	return node_string(d, n, &((struct input_map *)target)->name, err);
}

static int read_input_step(const struct document *d, const struct node *n, void *target,
			   struct err *err)
{
	return reading_label(d, n, &((struct input_map *)target)->step, err);
}

/* What a step made may be shown below directories of its own: analysis_check() looks at such a name. */
static int name_read_check(const struct document *d, const struct node *n,
			   const struct input_map *map, struct err *err)
{
	char shown[SHOW_ROOM];
	if (map->step || !map->name || path_name_ok(map->name))
		return 0;
	return node_error(d, map_get(n, "name"), err, "'%s' is not a name of one path component",
			  show_text(map->name, shown));
}

static int input_map_read(const struct document *d, const struct node *n, struct reading *to,
			  struct input *ret, struct err *err)
{
	static const struct key_row rows[] = { { "path", read_input_path },
					       { "name", read_input_name },
					       { "step", read_input_step } };
	CLEANUP(input_map_release) struct input_map map = { .base = to->base };
	int r = map_read(d, n, rows, sizeof(rows) / sizeof(rows[0]), &map, err);
	if (r >= 0)
		r = name_read_check(d, n, &map, err);

	if (r < 0)
		return r;
	if (!map.path)
		return node_error(d, n, err, "an input needs a path; add 'path: PATH'");
	if (!map.name)
		map.name = xstrdup(path_base(map.path));
	if (!map.step && !path_name_ok(map.name))
		return node_error(d, n, err, "the input has no usable name; add 'name: NAME'");
	ret->step = take_ptr(map.step);
	ret->path = take_ptr(map.path);
	ret->name = take_ptr(map.name);
	return 0;
}

static int input_read(const struct document *d, const struct node *n, struct reading *to,
		      struct err *err)
{
	CLEANUP_FREE char *origin = node_place(d, n);
	CLEANUP_FREE char *text = NULL;
	struct err why = { 0 };
	struct input input = { 0 };
	int r;

	if (n->kind == NODE_MAP) {
		r = input_map_read(d, n, to, &input, err);
		if (r < 0)
			return r;
		input.origin = take_ptr(origin);
	} else {
		r = node_string(d, n, &text, err);
		if (r < 0)
			return r;
		r = reading_checked(d, n, input_parse(text, to->base, origin, &input, &why), &why,
				    err);
		if (r < 0)
			return r;
	}
	analysis_add_input(&to->analysis, &input);
	return 0;
}

static int list_check(const struct document *d, const struct node *n, size_t max, struct err *err)
{
	if (n->kind != NODE_LIST)
		return node_error(d, n, err,
				  "expected a list: [ENTRY, ...], or one '- ENTRY' a line");
	if (n->n > max)
		return node_error(d, n, err, "a list of %zu; at most %zu are allowed", n->n, max);
	return 0;
}

int reading_inputs(const struct document *d, const struct node *n, void *target, struct err *err)
{
	int r = list_check(d, n, ANALYSIS_INPUTS_MAX, err);

	for (size_t i = 0; r >= 0 && i < n->n; i++)
		r = input_read(d, n->values[i], target, err);
	return r;
}

int reading_step_inputs(const struct document *d, const struct node *n, void *target,
			struct err *err)
{
	int r = list_check(d, n, ANALYSIS_INPUTS_MAX, err);

	for (size_t i = 0; r >= 0 && i < n->n; i++) {
		if (n->values[i]->kind != NODE_MAP || !map_get(n->values[i], "step"))
			r = input_read(d, n->values[i], target, err);
	}
	return r;
}

static bool media_type_ok(const char *text)
{
	const char *allowed =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$&^_.+-";
	size_t type = strspn(text, allowed);

	if (type == 0 || text[type] != '/' || strlen(text) > 127)
		return false;
	size_t subtype = strspn(text + type + 1, allowed);
	return subtype > 0 && text[type + 1 + subtype] == '\0';
}

struct output_map {
	char *pattern;    /* owned */
	char *media_type; /* owned or NULL */
	bool required;
	enum output_check check;
};

static void output_map_release(struct output_map *map)
{
	free(map->pattern);
	free(map->media_type);
}

static int read_output_path(const struct document *d, const struct node *n, void *target,
			    struct err *err)
{
	struct output_map *to = target;
	struct err why = { 0 };
	int r = node_string(d, n, &to->pattern, err);

	if (r < 0)
		return r;
	return reading_checked(d, n, output_pattern_check(to->pattern, &why), &why, err);
}

static int read_output_required(const struct document *d, const struct node *n, void *target,
				struct err *err)
{
	return node_bool(d, n, &((struct output_map *)target)->required, err);
}

static int read_output_media_type(const struct document *d, const struct node *n, void *target,
				  struct err *err)
{
	struct output_map *to = target;
	char shown[SHOW_ROOM];
	int r = node_string(d, n, &to->media_type, err);

	if (r < 0)
		return r;
	if (!media_type_ok(to->media_type))
		return node_error(d, n, err, "'%s' is not a media type; write one such as text/csv",
				  show_text(to->media_type, shown));
	return 0;
}

static int read_output_check(const struct document *d, const struct node *n, void *target,
			     struct err *err)
{
	int word = node_word(d, n, output_check_names, OUTPUT_CHECK_REQUIRE + 1, err);

	if (word < 0)
		return word;
	((struct output_map *)target)->check = (enum output_check)word;
	return 0;
}

static int output_read(const struct document *d, const struct node *n, struct analysis *a,
		       struct err *err)
{
	static const struct key_row rows[] = { { "path", read_output_path },
					       { "required", read_output_required },
					       { "media_type", read_output_media_type },
					       { "check", read_output_check } };
	CLEANUP(output_map_release) struct output_map map = { 0 };
	int r = n->kind == NODE_MAP
			? map_read(d, n, rows, sizeof(rows) / sizeof(rows[0]), &map, err)
			: read_output_path(d, n, &map, err);

	if (r < 0)
		return r;
	if (!map.pattern)
		return node_error(d, n, err, "an output needs a path; add 'path: PATTERN'");
	analysis_add_output(a, map.pattern, map.media_type, map.required);
	a->outputs[a->n_outputs - 1].check = map.check;
	return 0;
}

int reading_outputs(const struct document *d, const struct node *n, void *target, struct err *err)
{
	struct reading *to = target;
	int r = list_check(d, n, ANALYSIS_OUTPUTS_MAX, err);

	for (size_t i = 0; r >= 0 && i < n->n; i++)
		r = output_read(d, n->values[i], &to->analysis, err);
	return r;
}

static int map_check(const struct document *d, const struct node *n, struct err *err)
{
	if (n->kind != NODE_MAP)
		return node_error(d, n, err, "expected a map, one 'NAME: VALUE' a line");
	if (n->n > ANALYSIS_ENV_MAX)
		return node_error(d, n, err, "%zu entries; at most %d are allowed", n->n,
				  ANALYSIS_ENV_MAX);
	return 0;
}

int reading_env(const struct document *d, const struct node *n, void *target, struct err *err)
{
	struct reading *to = target;
	int r = map_check(d, n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n->n; i++) {
		CLEANUP_FREE char *value = NULL;
		struct err why = { 0 };
		r = reading_checked(d, n->keys[i], env_name_check(n->keys[i]->text, &why), &why,
				    err);
		if (r < 0)
			return r;
		r = node_string(d, n->values[i], &value, err);
		if (r < 0)
			return r;
		pairs_set(&to->analysis.env, n->keys[i]->text, value);
	}
	return 0;
}

int reading_labels(const struct document *d, const struct node *n, void *target, struct err *err)
{
	struct reading *to = target;
	int r = map_check(d, n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n->n; i++) {
		CLEANUP_FREE char *key = NULL, *value = NULL;
		r = reading_label(d, n->keys[i], &key, err);
		if (r < 0)
			return r;
		r = reading_label(d, n->values[i], &value, err);
		if (r < 0)
			return r;
		pairs_set(&to->analysis.labels, key, value);
	}
	return 0;
}

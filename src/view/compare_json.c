/* Two JSON documents key by key. */
#include <string.h>

#include "view/compare.h"

#define DOCUMENT_MAX ((size_t)64 << 20)
#define PATH_ROOM    400

struct json_walk {
	struct compare_files *f;
	struct str path;
};

static void quote_value(struct str *to, const json_t *value)
{
	CLEANUP_FREE char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
	compare_quote(to, text ? text : "?");
}

static bool tell(struct json_walk *w, const json_t *a, const json_t *b)
{
	struct str *to = &w->f->detail;
	compare_quote(to, w->path.length ? w->path.text : "(the whole)");
	str_add(to, ": ");
	if (a && b) {
		quote_value(to, a);
		str_add(to, " and ");
		quote_value(to, b);
	} else {
		str_addf(to, "only in %s", a ? "A" : "B");
	}
	return false;
}

static bool same(struct json_walk *w, const json_t *a, const json_t *b);

static bool same_member(struct json_walk *w, const char *name, const json_t *a, const json_t *b)
{
	size_t before = w->path.length;
	if (before < PATH_ROOM)
		str_addf(&w->path, "%s", name);
	bool equal = a && b ? same(w, a, b) : tell(w, a, b);
	w->path.length = before;
	if (w->path.text)
		w->path.text[before] = 0;
	return equal;
}

static bool same_objects(struct json_walk *w, const json_t *a, const json_t *b)
{
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)a, key, value)
	{
		CLEANUP_FREE char *name = xasprintf("%s%.80s", w->path.length ? "." : "", key);
		if (!same_member(w, name, value, json_object_get(b, key)))
			return false;
	}
	json_object_foreach((json_t *)b, key, value)
	{
		CLEANUP_FREE char *name = xasprintf("%s%.80s", w->path.length ? "." : "", key);
		if (!json_object_get(a, key))
			return same_member(w, name, NULL, value);
	}
	return true;
}

static bool same_arrays(struct json_walk *w, const json_t *a, const json_t *b)
{
	size_t n_a = json_array_size(a), n_b = json_array_size(b);
	for (size_t i = 0; i < n_a || i < n_b; i++) {
		char name[32];
		(void)snprintf(name, sizeof name, "[%zu]", i);
		if (!same_member(w, name, json_array_get(a, i), json_array_get(b, i)))
			return false;
	}
	return true;
}

static bool same(struct json_walk *w, const json_t *a, const json_t *b)
{
	const struct tolerance *t = w->f->tolerance;
	if (json_is_object(a) && json_is_object(b))
		return same_objects(w, a, b);
	if (json_is_array(a) && json_is_array(b))
		return same_arrays(w, a, b);
	if (json_equal(a, b))
		return true;
	if (t->is_said && json_is_number(a) && json_is_number(b) &&
	    tolerance_near_numbers(t, json_number_value(a), json_number_value(b)))
		return true;
	return tell(w, a, b);
}

static json_t *load(FILE *file)
{
	CLEANUP_STR struct str text = { 0 };
	char block[16384];
	for (size_t n; (n = fread(block, 1, sizeof block, file)) > 0;) {
		if (text.length + n > DOCUMENT_MAX)
			return NULL;
		str_add_n(&text, block, n);
	}
	return json_loadb(str_text(&text), text.length, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES,
			  NULL);
}

enum compared compare_json(struct compare_files *f)
{
	CLEANUP_JSON json_t *a = load(f->a);
	CLEANUP_JSON json_t *b = a ? load(f->b) : NULL;
	struct json_walk w = { .f = f };
	if (!a || !b)
		return COMPARED_UNKNOWN;
	bool equal = same(&w, a, b);
	str_release(&w.path);
	if (!equal)
		return COMPARED_DIFFERS;
	if (f->tolerance->is_said)
		return COMPARED_NEAR;
	str_add(&f->detail, "the same values, written differently");
	return COMPARED_DIFFERS;
}

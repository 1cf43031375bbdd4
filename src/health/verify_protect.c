/* What is protected, against what was accepted. */
#include "base/cleanup.h"
#include "health/protection.h"
#include "health/verify_parts.h"

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));
	return text ? text : "";
}

static void name_changes(struct verifying *v, const json_t *o)
{
	CLEANUP_FREE char *remedy =
		xasprintf("put it back, or if it is right: %s", text_of(o, "remedy"));
	const char *what = text_of(o, "what");
	uint64_t all = (uint64_t)json_integer_value(json_object_get(o, "changes"));
	const json_t *first = json_object_get(o, "first");
	size_t i;
	const json_t *one;
	json_array_foreach(first, i, one)
	{
		const char *name = text_of(one, "what"), *detail = text_of(one, "detail");
		CLEANUP_FREE char *where = str_eq(name, what) ? xstrdup(what)
							      : xasprintf("%s: %s", what, name);
		const struct verify_finding f = { text_of(one, "kind"), where, remedy };
		verify_found(v, &f, "%s since %s%s%s%s", f.kind, text_of(o, "accepted"),
			     detail[0] ? " (" : "", detail, detail[0] ? ")" : "");
	}
	if (all > json_array_size(first))
		verify_found(v, &(struct verify_finding){ "changed", what, remedy },
			     "and %llu more", (unsigned long long)(all - json_array_size(first)));
}

static void verify_thing(struct verifying *v, const char *what)
{
	const struct verify_viewer *viewer = v->q->viewer;
	const struct fingerprint_progress progress = { viewer ? viewer->data : NULL,
						       viewer ? viewer->files : NULL };
	const struct protect_look q = { .config = v->q->config,
					.what = what,
					.depth = v->q->deep ? DEPTH_CONTENT : DEPTH_STAT,
					.max = PROTECT_FILES_MAX,
					.progress = &progress };
	CLEANUP_JSON json_t *o = NULL;
	struct err err = { 0 };
	if (protection_check(&q, &o, &err) < 0) {
		verify_unchecked(v, err.text);
		return;
	}
	const char *status = text_of(o, "status");
	if (str_eq(status, "changed")) {
		name_changes(v, o);
	} else if (!str_eq(status, "ok")) {
		CLEANUP_FREE char *note =
			xasprintf("%s: %s%s%s", text_of(o, "what"), text_of(o, "error"),
				  str_eq(status, "new") ? "; then: " : "", text_of(o, "remedy"));
		verify_unchecked(v, note);
	}
}

void verify_protect(struct verifying *v)
{
	const struct strv *watch = &v->q->config->watch;
	for (size_t i = 0; i < watch->n; i++)
		verify_thing(v, watch->v[i]);
	verify_number(v, "things", watch->n);
	if (watch->n == 0)
		verify_say(v, "nothing is protected");
	else
		verify_say(v, "%zu thing%s%s: %llu change%s", watch->n, watch->n == 1 ? "" : "s",
			   v->q->deep ? ", by content" : "", (unsigned long long)v->found,
			   v->found == 1 ? "" : "s");
}

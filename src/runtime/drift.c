/* Differences between a runtime as it was locked, or as its package managers recorded it, and as it is. */
#include <string.h>

#include "runtime/fingerprint_parts.h"

void drifts_release(struct drifts *d)
{
	for (size_t i = 0; i < d->n; i++) {
		free(d->v[i].what);
		free(d->v[i].detail);
		free(d->v[i].owner);
	}
	free(d->v);
	*d = (struct drifts){ 0 };
}

/* `what` is shown as it is. */
static void add_shown(struct drifts *d, enum drift_kind kind, const char *what, const char *detail,
		      const char *owner)
{
	if (d->n_all++ >= DRIFT_MAX)
		return;
	d->v = xreallocarray(d->v, d->n + 1, sizeof(*d->v));
	d->v[d->n++] = (struct drift){
		.kind = kind,
		.what = xstrdup(what),
		.detail = detail ? xstrdup(detail) : NULL,
		.owner = owner ? xstrdup(owner) : NULL,
	};
}

void drifts_add(struct drifts *d, enum drift_kind kind, const char *path, const char *detail,
		const char *owner)
{
	CLEANUP_STR struct str shown = { 0 };

	if (d->n_all < DRIFT_MAX)
		text_escape(&shown, path);
	add_shown(d, kind, str_text(&shown), detail, owner);
}

json_t *drifts_json(const struct drifts *d)
{
	static const char *const kinds[] = { "changed", "missing", "added", "package" };
	json_t *result = json_object(), *list = json_array();

	for (size_t i = 0; i < d->n; i++) {
		json_t *one = json_object();
		json_object_set_new(one, "kind", json_string(kinds[d->v[i].kind]));
		json_object_set_new(one, "what", json_text(d->v[i].what));
		json_object_set_new(one, "detail", json_text(d->v[i].detail));
		json_object_set_new(one, "owner", json_text(d->v[i].owner));
		json_array_append_new(list, one);
	}
	json_object_set_new(result, "count", json_u64(d->n_all));
	json_object_set_new(result, "drifts", list);
	return result;
}

/* "numpy 1.26 -> 1.27"; files and programs by their names. `version` is the new one, if it is another. */
static void item_drift(struct drifts *d, const struct item *item, enum drift_kind kind,
		       const char *happened, const char *version)
{
	CLEANUP_STR struct str what = { 0 };

	if (!item_is_package(item)) {
		const char *detail = str_eq(item->kind, "file") ? "content" : item->kind;
		drifts_add(d, kind, item->name, detail, NULL);
		return;
	}
	text_escape(&what, item->name);
	str_add(&what, " ");
	text_escape(&what, item->version);
	if (version) {
		str_add(&what, " -> ");
		text_escape(&what, version);
	}
	CLEANUP_FREE char *detail = xasprintf("%s package %s", item->kind, happened);
	add_shown(d, DRIFT_PACKAGE, what.text, detail, NULL);
}

static void compare_items(struct drifts *d, const struct item *then, const struct item *now)
{
	if (!str_eq(then->version, now->version))
		item_drift(d, then, DRIFT_CHANGED, "of another version", now->version);
	else if (!str_eq(then->digest, now->digest))
		item_drift(d, then, DRIFT_CHANGED, "installed anew", NULL);
}

void drifts_items(struct drifts *d, const struct items *then, const struct items *now)
{
	for (size_t i = 0, k = 0; i < then->n || k < now->n;) {
		int c = i == then->n ? 1 : k == now->n ? -1 : item_order(&then->v[i], &now->v[k]);

		if (c < 0)
			item_drift(d, &then->v[i], DRIFT_MISSING, "removed", NULL);
		else if (c > 0)
			item_drift(d, &now->v[k], DRIFT_ADDED, "added", NULL);
		else
			compare_items(d, &then->v[i], &now->v[k]);
		i += c <= 0;
		k += c >= 0;
	}
}

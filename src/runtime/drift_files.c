/* Differences of files: two trees in the same order, or a tree and what package managers recorded. */
#include <string.h>

#include "runtime/fingerprint_parts.h"

static const char *kind_name(char kind)
{
	return kind == 'f'   ? "a file"
	       : kind == 'd' ? "a directory"
	       : kind == 'l' ? "a link"
	       : kind == 'm' ? "a mount point"
			     : "a special file";
}

static void add_part(struct str *detail, const char *text)
{
	if (detail->length > 0)
		str_add(detail, ", ");
	str_add(detail, text);
}

static void say_link(struct str *detail, const struct entry *then, const struct entry *now)
{
	if (!then->target || !now->target || str_eq(then->target, now->target))
		return;
	add_part(detail, "link ");
	text_escape(detail, then->target);
	str_add(detail, " -> ");
	text_escape(detail, now->target);
}

static void say_mode(struct str *detail, const struct entry *then, const struct entry *now)
{
	CLEANUP_FREE char *text = xasprintf("mode %04o -> %04o", then->mode, now->mode);

	if (then->mode != now->mode)
		add_part(detail, text);
}

static void say_size(struct str *detail, const struct entry *then, const struct entry *now)
{
	CLEANUP_FREE char *text = xasprintf("size %llu -> %llu", (unsigned long long)then->size,
					    (unsigned long long)now->size);

	if (then->kind == 'f' && then->size != now->size)
		add_part(detail, text);
}

static void say_times(struct str *detail, const struct entry *then, const struct entry *now)
{
	if (then->mtime_ns != now->mtime_ns)
		add_part(detail, "mtime");
	else if (now->suspect && !str_eq(then->sha256, now->sha256))
		add_part(detail, "content, and the mtime put back");
}

size_t drifts_suspects(const struct tree *then, struct tree *now)
{
	size_t n = 0;

	for (size_t i = 0, k = 0; i < then->n && k < now->n;) {
		const struct entry *a = &then->v[i];
		struct entry *b = &now->v[k];
		int c = entry_order(a, b);
		b->suspect = c == 0 && a->kind == 'f' && b->kind == 'f' && a->mode == b->mode &&
			     a->size == b->size && a->mtime_ns == b->mtime_ns &&
			     a->ctime_ns != b->ctime_ns;
		n += b->suspect;
		i += c <= 0;
		k += c >= 0;
	}
	return n;
}

static void compare(struct drifts *d, const struct entry *then, const struct entry *now,
		    enum depth depth)
{
	CLEANUP_STR struct str detail = { 0 };

	if (then->kind != now->kind) {
		str_addf(&detail, "was %s, is %s", kind_name(then->kind), kind_name(now->kind));
	} else {
		say_mode(&detail, then, now);
		say_link(&detail, then, now);
		if (depth >= DEPTH_CONTENT && !str_eq(then->sha256, now->sha256))
			add_part(&detail, "content");
		if (detail.length == 0 || depth < DEPTH_CONTENT || then->size != now->size)
			say_size(&detail, then, now);
		if (depth < DEPTH_CONTENT)
			say_times(&detail, then, now);
	}
	if (detail.length > 0)
		drifts_add(d, DRIFT_CHANGED, now->path, detail.text, NULL);
}

/* Whether one of the first n, which come from the items, says so already. */
static bool is_named(const struct drifts *d, size_t n, const char *path)
{
	for (size_t i = 0; i < n; i++)
		if (d->v[i].kind != DRIFT_PACKAGE && str_eq(d->v[i].what, path))
			return true;
	return false;
}

void drifts_trees(struct drifts *d, const struct tree *then, const struct tree *now,
		  enum depth depth)
{
	const size_t n_items = d->n;

	for (size_t i = 0, k = 0; i < then->n || k < now->n;) {
		int c = i == then->n ? 1 : k == now->n ? -1 : entry_order(&then->v[i], &now->v[k]);
		const char *path = c > 0 ? now->v[k].path : then->v[i].path;
		bool named = is_named(d, n_items, path);

		if (!named && c == 0)
			compare(d, &then->v[i], &now->v[k], depth);
		else if (!named)
			drifts_add(d, c < 0 ? DRIFT_MISSING : DRIFT_ADDED, path, NULL, NULL);
		i += c <= 0;
		k += c >= 0;
	}
}

/* One path in the other's order: strcmp of whole paths, as records are sorted. */
static const struct entry *find_entry(const struct tree *t, const char *path, size_t *ret_at)
{
	const struct entry wanted = { .path = path };
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (entry_order(&t->v[middle], &wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_at = low;
	return low < t->n && str_eq(t->v[low].path, path) ? &t->v[low] : NULL;
}

static bool agrees(const struct record *r, const struct tree *t, size_t at)
{
	if (!r->hex[0] || t->v[at].kind != 'f')
		return true; /* said to be there, and it is */
	return str_eq(r->hex, r->source == RECORD_DPKG ? t->md5[at] : t->v[at].sha256);
}

static char *disagreement(const struct record *r)
{
	switch (r->source) {
	case RECORD_CONDA:
		return xasprintf("content: not what conda-meta says of %s", r->owner);
	case RECORD_PYTHON:
		return xasprintf("content: not what %s's RECORD says", r->owner);
	default:
		return xasprintf("content: not what dpkg's md5sums of %s say", r->owner);
	}
}

/* All records of one path. A file that several packages wrote is right if it is as one of them says. */
static void compare_path(struct drifts *d, const struct record *v, size_t n, const struct tree *now)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++)
		if (v[i].source == RECORD_DPKG_LIST) {
			n = i; /* these come last, and say nothing of the content */
			break;
		}
	if (n == 0)
		return;
	if (!find_entry(now, v->path, &at)) {
		drifts_add(d, DRIFT_MISSING, v->path, NULL, v->owner);
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (agrees(&v[i], now, at))
			return;
	CLEANUP_FREE char *detail = disagreement(v);
	drifts_add(d, DRIFT_CHANGED, v->path, detail, v->owner);
}

void drifts_records(struct drifts *d, const struct records *records, const struct tree *now)
{
	for (size_t i = 0, n = 0; i < records->n; i += n) {
		for (n = 1;
		     i + n < records->n && str_eq(records->v[i].path, records->v[i + n].path);)
			n++;
		compare_path(d, &records->v[i], n, now);
	}
	for (size_t i = 0; i < records->refused.n; i++)
		drifts_add(d, DRIFT_CHANGED, records->refused.v[i],
			   "a record that leads outside the runtime; it was not looked at", NULL);
}

void drifts_owners(struct drifts *d, const struct records *records)
{
	for (size_t i = 0; i < d->n; i++) {
		CLEANUP_FREE char *path = xstrdup(d->v[i].what);
		if (d->v[i].owner || d->v[i].kind == DRIFT_PACKAGE || !text_unescape(path))
			continue;
		const struct record *r = records_find(records, path);
		if (r)
			d->v[i].owner = xstrdup(r->owner);
	}
}

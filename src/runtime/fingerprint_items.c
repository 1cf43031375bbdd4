/* The items of an identity: a sorted list and its digest. */
#include <string.h>

#include "runtime/fingerprint_parts.h"

static void item_release(struct item *i)
{
	free(i->kind);
	free(i->name);
	free(i->version);
	free(i->where);
	free(i->digest);
}

void items_release(struct items *list)
{
	for (size_t i = 0; i < list->n; i++)
		item_release(&list->v[i]);
	free(list->v);
	*list = (struct items){ 0 };
}

void items_add(struct items *list, const char *kind, const char *name, const char *version,
	       const char *where, const char *digest)
{
	if (list->n == list->room) {
		list->room = list->room ? 2 * list->room : 64;
		list->v = xreallocarray(list->v, list->room, sizeof(*list->v));
	}
	list->v[list->n++] = (struct item){
		.kind = xstrdup(kind),
		.name = xstrdup(name),
		.version = xstrdup(version),
		.where = xstrdup(where),
		.digest = xstrdup(digest),
	};
}

int item_order(const struct item *a, const struct item *b)
{
	int c = strcmp(a->kind, b->kind);

	if (c == 0)
		c = strcmp(a->name, b->name);
	return c ? c : strcmp(a->where, b->where);
}

static int whole_order(const void *left, const void *right)
{
	const struct item *a = left, *b = right;
	int c = item_order(a, b);

	if (c == 0)
		c = strcmp(a->version, b->version);
	return c ? c : strcmp(a->digest, b->digest);
}

void items_sort(struct items *list)
{
	if (list->n > 1)
		qsort(list->v, list->n, sizeof(*list->v), whole_order);
}

bool item_is_package(const struct item *i)
{
	return str_eq(i->kind, "conda") || str_eq(i->kind, "python") || str_eq(i->kind, "dpkg");
}

/* With its NUL, so that two fields can't be read as one. */
static void add_field(struct hash *h, const char *text)
{
	hash_add(h, text, strlen(text) + 1);
}

void items_digest(const struct items *list, char ret_hex[HASH_HEX])
{
	CLEANUP_HASH struct hash *h = hash_new();

	add_field(h, "cupel-identity-1");
	for (size_t i = 0; i < list->n; i++) {
		add_field(h, list->v[i].kind);
		add_field(h, list->v[i].name);
		add_field(h, list->v[i].version);
		add_field(h, list->v[i].where);
		add_field(h, list->v[i].digest);
	}
	hash_end(h, ret_hex);
}

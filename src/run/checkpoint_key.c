/* Each value goes in with its length and each list with its number, so that no two analyses make the same bytes. */
#include "run/checkpoint_key.h"

#include <string.h>

#include "base/path.h"

#define DOMAIN "cupel checkpoint 1"
#define OWNED  "cupel checkpoint of a submitter 1"

static void add_number(struct hash *h, uint64_t number)
{
	unsigned char bytes[8];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (unsigned char)(number >> (8 * i));
	hash_add(h, bytes, sizeof bytes);
}

static void add_text(struct hash *h, const char *text)
{
	size_t length = text ? strlen(text) : 0;
	add_number(h, text ? length + 1 : 0); /* nothing said is not the empty text */
	hash_add(h, text ? text : "", length);
}

static void add_list(struct hash *h, const struct strv *list)
{
	add_number(h, list->n);
	for (size_t i = 0; i < list->n; i++)
		add_text(h, list->v[i]);
}

/* By name, in whatever order they were said. The key is recorded: of a secret value it holds the keyed digest. */
static void add_env(struct hash *h, const struct analysis *a)
{
	const struct pairs *pairs = &a->env;
	CLEANUP_STRV struct strv names = { 0 };
	for (size_t i = 0; i < pairs->n; i++)
		strv_add(&names, pairs->v[i].key);
	strv_sort(&names);
	add_number(h, names.n);
	for (size_t i = 0; i < names.n; i++) {
		const char *digest = pairs_get(&a->secrets, names.v[i]);
		add_text(h, names.v[i]);
		add_text(h, digest ? digest : pairs_get(&a->env, names.v[i]));
	}
}

/* What is too large to be read is known by its place, size and times. */
static void add_contents(struct hash *h, const char *name, const char *path,
			 const struct contents *c)
{
	add_text(h, name);
	add_number(h, c->kind);
	add_text(h, c->sha256);
	add_text(h, c->sha256[0] ? "" : path);
	add_text(h, c->sha256[0] ? "" : c->stat);
}

void checkpoint_key_for(const char *submitter, char hex[HASH_HEX])
{
	if (!submitter[0] || !hex[0])
		return;
	CLEANUP_HASH struct hash *h = hash_new();
	add_text(h, OWNED);
	add_text(h, submitter);
	add_text(h, hex);
	hash_end(h, hex);
}

void checkpoint_key(const struct analysis *a, const struct resolved *r, char ret_hex[HASH_HEX])
{
	CLEANUP_HASH struct hash *h = hash_new();
	add_text(h, DOMAIN);
	add_text(h, a->checkpoint);
	add_number(h, a->code.n);
	for (size_t i = 0; i < a->code.n; i++)
		add_contents(h, path_base(a->code.v[i]), a->code.v[i], &a->code_contents[i]);
	add_list(h, &a->args);
	CLEANUP_STRV struct strv argv = { 0 };
	analysis_argv(a, &argv);
	add_list(h, &argv);
	add_number(h, a->n_inputs);
	for (size_t i = 0; i < a->n_inputs; i++)
		add_contents(h, a->inputs[i].name, a->inputs[i].path, &a->inputs[i].contents);
	add_text(h, a->db_snapshot);
	add_env(h, a);
	add_text(h, a->parameters);
	add_number(h, a->network);
	add_text(h, r->runtime.name);
	add_text(h, r->chosen.fingerprint.hex[DEPTH_IDENTITY]);
	hash_end(h, ret_hex);
}

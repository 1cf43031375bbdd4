/* What the runs say the store has: names whose a damaged object is, how long it should be, and what is missing. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/path.h"
#include "collect/fetch.h"
#include "health/verify_store.h"
#include "spec/id.h"

#define MANIFEST_MAX ((size_t)64 << 20)

/* A damaged object, and the first run that says it has it. */
struct damage {
	const struct object *object; /* borrowed */
	char run[ID_MAX + 1];
	uint64_t size; /* as recorded */
};

struct damages {
	struct damage *v; /* owned */
	size_t n;
};

static void damages_release(struct damages *d)
{
	free(d->v);
}

static bool is_damaged(const struct object *o)
{
	return o->result != -ENOENT && !str_eq(o->hex, o->seen);
}

static void find_damage(const struct storing *s, struct damages *ret)
{
	for (size_t i = 0; i < s->done; i++) {
		if (!is_damaged(&s->objects[i]))
			continue;
		ret->v = xreallocarray(ret->v, ret->n + 1, sizeof *ret->v);
		ret->v[ret->n++] = (struct damage){ .object = &s->objects[i] };
	}
}

static const struct object *object_of_bytes(const struct storing *s, const struct object *o)
{
	for (size_t i = 0; o->seen[0] && i < s->n; i++)
		if (str_eq(s->objects[i].hex, o->seen))
			return &s->objects[i];
	return NULL;
}

/* In words, by what is known. */
static void say_damage(struct str *text, const struct storing *s, const struct damage *d)
{
	const struct object *o = d->object, *other = object_of_bytes(s, o);
	if (o->result < 0)
		str_addf(text, "it can't be read: %s",
			 o->result == -ELOOP ? "it is no file" : strerrordesc_np(-o->result));
	else if (other)
		str_addf(text, "it has the bytes of the object %s: they were swapped", other->hex);
	else if (d->run[0] && o->size < d->size)
		str_addf(text, "it is cut off: %llu bytes of %llu", (unsigned long long)o->size,
			 (unsigned long long)d->size);
	else
		str_addf(text, "its bytes are not those of its name: their SHA-256 is %s", o->seen);
	if (d->run[0])
		str_addf(text, "; the run %s has it too", d->run);
}

static void name_damage(struct storing *s, const struct damages *damages)
{
	for (size_t i = 0; i < damages->n && i < VERIFY_NAMED_MAX; i++) {
		const struct damage *d = &damages->v[i];
		CLEANUP_STR struct str text = { 0 };
		CLEANUP_FREE char *where = xasprintf("%s/" STORE "/%.2s/%s", s->v->q->config->home,
						     d->object->hex, d->object->hex + 2);
		CLEANUP_FREE char *word = str_shell(where);
		CLEANUP_FREE char *remedy =
			d->run[0] ? xasprintf("restore it from a backup, or repeat the run: rm -f "
					      "%s && cupel rerun %s",
					      word, d->run)
				  : xasprintf("no run has it: rm -f %s", word);
		say_damage(&text, s, d);
		verify_found(s->v, &(struct verify_finding){ "damaged", where, remedy }, "%s",
			     str_text(&text));
	}
	if (damages->n > VERIFY_NAMED_MAX)
		s->v->found += damages->n - VERIFY_NAMED_MAX;
}

struct kept_output {
	const char *run, *path, *sha256;
	uint64_t size;
};

static bool is_stored(const struct storing *s, const char *sha256)
{
	char path[HASH_HEX + 1];
	(void)snprintf(path, sizeof path, "%.2s/%s", sha256, sha256 + 2);
	return s->root_fd >= 0 &&
	       (faccessat(s->root_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT);
}

/* The analysis chose the name of its output: what people copy into a shell must hold it. */
static char *link_again(const char *home, const struct kept_output *o, const char *where)
{
	CLEANUP_FREE char *from = xasprintf("%s/runs/%s/outputs/%s", home, o->run, o->path);
	CLEANUP_FREE char *shelf = path_parent(where);
	CLEANUP_FREE char *from_word = str_shell(from);
	CLEANUP_FREE char *shelf_word = str_shell(shelf);
	CLEANUP_FREE char *to_word = str_shell(where);
	return xasprintf("mkdir -p %s && ln %s %s", shelf_word, from_word, to_word);
}

/* The run's own name of an object that the store has. */
static void check_name(struct storing *s, const struct kept_output *o)
{
	const char *home = s->v->q->config->home;
	CLEANUP_FREE char *where = xasprintf("%s/runs/%s/outputs/%s", home, o->run, o->path);
	struct stat st = { 0 };
	if (lstat(where, &st) == 0 || errno != ENOENT)
		return;
	CLEANUP_FREE char *object =
		xasprintf("%s/" STORE "/%.2s/%s", home, o->sha256, o->sha256 + 2);
	CLEANUP_FREE char *from_word = str_shell(object);
	CLEANUP_FREE char *to_word = str_shell(where); /* the analysis chose its name */
	CLEANUP_FREE char *remedy = xasprintf("ln %s %s", from_word, to_word);
	verify_found(s->v, &(struct verify_finding){ "missing", where, remedy },
		     "the output of the run is gone; the store still has it");
}

static void check_output(struct storing *s, struct damages *damages, const struct kept_output *o)
{
	char digits[3] = { o->sha256[0], o->sha256[1], '\0' };
	unsigned long shelf = strtoul(digits, NULL, 16);
	for (size_t i = 0; i < damages->n && i < VERIFY_NAMED_MAX; i++) {
		struct damage *d = &damages->v[i];
		if (d->run[0] || !str_eq(d->object->hex, o->sha256))
			continue;
		(void)snprintf(d->run, sizeof d->run, "%s", o->run);
		d->size = o->size;
	}
	const char *home = s->v->q->config->home;
	if (s->root_fd >= 0 && !s->chosen[shelf & 0xff])
		return;
	if (is_stored(s, o->sha256)) {
		check_name(s, o);
		return;
	}
	CLEANUP_FREE char *where =
		xasprintf("%s/" STORE "/%.2s/%s", home, o->sha256, o->sha256 + 2);
	CLEANUP_FREE char *remedy = link_again(home, o, where);
	verify_found(s->v, &(struct verify_finding){ "missing", where, remedy },
		     "the run %s stored its output %s there, and it is gone", o->run, o->path);
}

static void check_run(struct storing *s, struct damages *damages, const char *id)
{
	CLEANUP_JSON json_t *manifest = NULL;
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s/outputs.json", s->v->q->config->home, id);
	size_t i;
	const json_t *file;
	if (json_read_file(AT_FDCWD, path, MANIFEST_MAX, &manifest, NULL) < 0)
		return; /* no outputs, or what the chain of events tells of */
	json_array_foreach(json_object_get(manifest, "files"), i, file)
	{
		CLEANUP_FREE char *name = fetch_path(file);
		struct kept_output o = {
			.run = id,
			.path = name ? name : "?",
			.sha256 = json_string_value(json_object_get(file, "sha256")),
			.size = (uint64_t)json_integer_value(json_object_get(file, "size")),
		};
		if (json_is_true(json_object_get(file, "stored")) && o.sha256 &&
		    strlen(o.sha256) == HASH_HEX - 1)
			check_output(s, damages, &o);
	}
}

/* Within a limit of time the runs are asked only if something is wrong: there may be a million of them. */
void store_compare(struct storing *s)
{
	CLEANUP(damages_release) struct damages damages = { 0 };
	CLEANUP_STRV struct strv ids = { 0 };
	struct err err = { 0 };
	find_damage(s, &damages);
	if (s->v->q->max_ns && damages.n == 0) {
		verify_note(s->v, "whether an object is missing was not looked for within the "
				  "limit of time");
		return;
	}
	if (id_list(s->v->q->config->home, "runs", &ids, &err) < 0) {
		verify_unchecked(s->v, err.text);
		return;
	}
	for (size_t i = 0; i < ids.n; i++)
		check_run(s, &damages, ids.v[i]);
	name_damage(s, &damages);
}

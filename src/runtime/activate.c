/* Activation of a conda prefix without its scripts, and the difference of two environments. */
#include "runtime/activate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/path.h"

void activation_release(struct activation *a)
{
	pairs_release(&a->env);
	free(a->path);
	strv_release(&a->scripts);
	*a = (struct activation){ 0 };
}

void env_change_release(struct env_change *c)
{
	pairs_release(&c->set);
	strv_release(&c->unset);
	*c = (struct env_change){ 0 };
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int conda_activation(const char *prefix, struct activation *ret, struct err *err)
{
	struct activation a = { .path = path_join(prefix, "bin") };
	CLEANUP_FREE char *scripts = path_join(prefix, "etc/conda/activate.d");
	CLEANUP_DIR DIR *dir = opendir(scripts);
	pairs_set(&a.env, "CONDA_PREFIX", prefix);
	pairs_set(&a.env, "CONDA_SHLVL", "1");
	pairs_set(&a.env, "CONDA_DEFAULT_ENV", path_base(prefix));
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (str_ends(entry->d_name, ".sh"))
			strv_take(&a.scripts, path_join(scripts, entry->d_name));
	if (a.scripts.n)
		qsort(a.scripts.v, a.scripts.n, sizeof *a.scripts.v, by_text);
	*ret = a;
	return 0;
}

static void read_dump(const char *text, size_t length, struct pairs *ret)
{
	for (size_t at = 0; at < length;) {
		size_t n = strnlen(text + at, length - at);
		CLEANUP_FREE char *line = xstrndup(text + at, n);
		char *equals = strchr(line, '=');
		if (equals) {
			*equals = 0;
			pairs_set(ret, line, equals + 1);
		}
		at += n + 1;
	}
}

int env_difference(const char *before, size_t before_length, const char *after, size_t after_length,
		   struct env_change *ret, struct err *err)
{
	CLEANUP(pairs_release) struct pairs old = { 0 };
	CLEANUP(pairs_release) struct pairs new = { 0 };
	struct env_change c = { 0 };
	read_dump(before, before_length, &old);
	read_dump(after, after_length, &new);
	for (size_t i = 0; i < new.n; i++)
		if (!str_eq(pairs_get(&old, new.v[i].key), new.v[i].value))
			pairs_set(&c.set, new.v[i].key, new.v[i].value);
	for (size_t i = 0; i < old.n; i++)
		if (!pairs_get(&new, old.v[i].key))
			strv_add(&c.unset, old.v[i].key);
	*ret = c;
	return 0;
}

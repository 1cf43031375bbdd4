/* The scripts are somebody's shell code: they run as an analysis of their own, with a record like any other, and all that comes back is
 * two lists of variables. */
#include "run/activation.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fs.h"
#include "base/path.h"
#include "runtime/activate.h"

#define DUMP_MAX (4 << 20)
#define BASH     "/bin/bash"
/* Changes when the variables that scripts see are made in another way: what was kept before does not count any more. */
#define ACTIVATION_VERSION "2"
/* In a value that is kept, in place of the working directory of the run that found it out. */
#define WORK_MARK "\001work\001"

/* Every `from` becomes `to`. Owned by the caller. */
static char *exchange(const char *text, const char *from, const char *to)
{
	CLEANUP_STR struct str out = { 0 };
	for (const char *at; (at = strstr(text, from)); text = at + strlen(from)) {
		str_add_n(&out, text, (size_t)(at - text));
		str_add(&out, to);
	}
	str_add(&out, text);
	return str_take(&out);
}

static int read_dump(const char *run_dir, const char *name, char **ret, size_t *ret_length,
		     struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/outputs/out/%s", run_dir, name);
	return fs_read_capped(AT_FDCWD, path, DUMP_MAX, ret, ret_length, err);
}

/* The answer of a run that ended well, as it is kept. */
static int change_read(const struct config *c, const struct resolved *run, json_t **ret,
		       struct err *err)
{
	CLEANUP_FREE char *run_dir = xasprintf("%s/runs/%s", c->home, run->id);
	CLEANUP_FREE char *before = NULL, *after = NULL;
	CLEANUP(env_change_release) struct env_change change = { 0 };
	size_t before_length = 0, after_length = 0;
	int e = read_dump(run_dir, "before", &before, &before_length, err);
	if (e >= 0)
		e = read_dump(run_dir, "after", &after, &after_length, err);
	if (e >= 0)
		e = env_difference(before, before_length, after, after_length, &change, err);
	if (e < 0)
		return e;
	CLEANUP_JSON json_t *set = json_object();
	CLEANUP_JSON json_t *unset = json_array();
	for (size_t i = 0; i < change.set.n; i++) {
		const struct pair *p = &change.set.v[i];
		CLEANUP_FREE char *value = exchange(p->value, run->plan.work_dir, WORK_MARK);
		/* jansson refuses what is not UTF-8 */
		if (json_object_set_new(set, p->key, json_string(value)) < 0)
			return err_set(err, ERR_HOST, EILSEQ,
				       "the variable %s is set to something that is not UTF-8",
				       p->key);
	}
	for (size_t i = 0; i < change.unset.n; i++)
		json_array_append_new(unset, json_text(change.unset.v[i]));
	*ret = json_pack("{s:s,s:O,s:O}", "run", run->id, "set", set, "unset", unset);
	return 0;
}

static int run_scripts(const struct activation_request *q, const struct runtime *r,
		       const struct activation *a, json_t **ret, struct err *err)
{
	static const char *const words[] = { BASH, "--noprofile",      "--norc",
					     "-c", activation_program, "bash" };
	CLEANUP_ANALYSIS struct analysis scripts = { .runtime = xstrdup(r->name),
						     .limits = r->check_limits,
						     .allow_drift = q->analysis->allow_drift };
	CLEANUP_RESOLVED struct resolved resolved = { 0 };
	char unique[ID_MAX + 1];
	int status = 0;
	id_generate(unique);
	scripts.id = xasprintf("activate-%s", unique);
	scripts.name = xasprintf("activation of %s", r->name);
	pairs_set(&scripts.labels, "cupel", "activation");
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		strv_add(&scripts.command, words[i]);
	CLEANUP_FREE char *work_dir = config_work_dir(q->config, scripts.id);
	strv_addf(&scripts.command, "%s/out/before", work_dir);
	strv_addf(&scripts.command, "%s/out/after", work_dir);
	strv_copy(&scripts.command, &a->scripts);
	strv_copy(&scripts.allow_missing, &q->analysis->allow_missing);
	int e = run_resolve_how(q->config, &scripts, ACTIVATION_STATIC, &resolved, err);
	struct run_request request = {
		.config = q->config, .analysis = &scripts, .resolved = &resolved, .is_silent = true
	};
	if (e >= 0)
		e = run_local(&request, &status, err);
	if (e >= 0 && status)
		return err_set(
			err, ERR_HOST, ENOEXEC,
			"its activation scripts ended with status %d. Remedy: cupel show %s tells why; correct "
			"%s/etc/conda/activate.d",
			status, resolved.id, r->prefix);
	return e < 0 ? e : change_read(q->config, &resolved, ret, err);
}

/* IDENTITY-TAG.json: copies of a prefix are equal, but not at the same place; and the scripts see what the entry says. */
static char *cache_path(const struct config *c, const struct runtime *r,
			const struct chosen *chosen)
{
	char tag[HASH_TAG];
	CLEANUP_STR struct str seen = { 0 };
	str_addf(&seen, "%s\n%s\n" ACTIVATION_VERSION "\n", r->prefix, r->path);
	for (size_t i = 0; i < r->env.n; i++)
		str_addf(&seen, "%s=%s\n", r->env.v[i].key, r->env.v[i].value);
	hash_tag(str_text(&seen), tag);
	return xasprintf("%s/cache/activation/%s-%s.json", c->home,
			 chosen->fingerprint.hex[DEPTH_IDENTITY], tag);
}

static int keep_change(const char *path, const json_t *change, struct err *err)
{
	CLEANUP_FREE char *directory = path_parent(path);
	int e = fs_make_dirs(directory, 0700, err);
	return e < 0 ? e : json_write_file(AT_FDCWD, path, change, err);
}

/* *ret stays NULL where nothing is known and nothing may be run. */
static int find_change(const struct activation_request *q, const struct runtime *r,
		       const struct chosen *chosen, const struct activation *a, json_t **ret,
		       struct err *err)
{
	CLEANUP_FREE char *path = cache_path(q->config, r, chosen);
	int e = json_read_file(AT_FDCWD, path, DUMP_MAX, ret, err);
	if (e != -ENOENT)
		return e;
	if (q->how == ACTIVATION_KNOWN) {
		strv_addf(
			q->warnings,
			"%zu activation scripts of the runtime have not been run yet: what they set is not shown here",
			a->scripts.n);
		return 0;
	}
	e = run_scripts(q, r, a, ret, err);
	return e < 0 ? e : keep_change(path, *ret, err);
}

/* The entry's own words win over what the activation does. */
static void apply_change(const char *work_dir, const json_t *change, struct runtime *r,
			 struct pairs *env)
{
	const char *key;
	json_t *value;
	size_t i;
	json_object_foreach(json_object_get(change, "set"), key, value)
	{
		if (!json_is_string(value))
			continue; /* nothing that was written there by us */
		CLEANUP_FREE char *text = exchange(json_string_value(value), WORK_MARK, work_dir);
		if (str_eq(key, "PATH")) {
			free(r->path);
			r->path = take_ptr(text);
		} else {
			pairs_set(env, key, text);
		}
	}
	json_array_foreach(json_object_get(change, "unset"), i,
			   value) if (!pairs_get(&r->env, json_string_value(value)))
		strv_add(&r->unset, json_string_value(value));
}

/* The prefix's own directories take the place of PREFIX/bin, which every prefix has. */
static void put_path_first(struct runtime *r, struct activation *a)
{
	CLEANUP_FREE char *plain = xasprintf("%s/bin:", r->prefix);
	const char *rest = str_starts(r->path, plain) ? r->path + strlen(plain) : r->path;
	char *path = a->path_is_whole ? xstrdup(a->path) : xasprintf("%s:%s", a->path, rest);
	if (a->path_is_whole && !pairs_get(&a->env, "__CONDA_SHLVL_0_PATH"))
		pairs_set(&a->env, "__CONDA_SHLVL_0_PATH", rest);
	free(r->path);
	r->path = path;
}

int activation_apply(const struct activation_request *q, struct runtime *r, struct chosen *chosen,
		     struct err *err)
{
	CLEANUP_ACTIVATION struct activation a = { 0 };
	CLEANUP_JSON json_t *change = NULL;
	if (r->kind != RUNTIME_CONDA)
		return 0;
	int e = conda_activation(r->prefix, &a, err);
	if (e >= 0 && a.scripts.n && q->how != ACTIVATION_STATIC)
		e = find_change(q, r, chosen, &a, &change, err);
	if (e < 0)
		return err_wrap(err, "runtime '%s' can't be activated", r->name);
	CLEANUP_FREE char *work_dir = config_work_dir(q->config, q->id);
	put_path_first(r, &a);
	strv_copy(&r->activated, &a.names);
	if (change) {
		const char *run = json_string_value(json_object_get(change, "run"));
		chosen->activation = run ? xstrdup(run) : NULL;
		apply_change(work_dir, change, r, &a.env);
	}
	for (size_t i = 0; i < r->env.n; i++)
		pairs_set(&a.env, r->env.v[i].key, r->env.v[i].value);
	pairs_release(&r->env);
	r->env = a.env;
	a.env = (struct pairs){ 0 };
	return 0;
}

#include "flow/finished.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/path.h"
#include "collect/fetch.h"
#include "collect/keyed.h"
#include "collect/outputs.h"
#include "flow/finished_parts.h"
#include "flow/key.h"
#include "spec/viewer.h"

#define RECORD_MAX ((size_t)64 << 20)

void finished_release(struct finished *f)
{
	for (size_t i = 0; i < f->n_outputs; i++) {
		free(f->outputs[i].path);
		free(f->outputs[i].media_type);
	}
	free(f->outputs);
	*f = (struct finished){ 0 };
}

static int unfit(const char *run_id, const char *why, struct err *err)
{
	return err_caller(err, "run %s can't stand for its key: %s", run_id, why);
}

/* What the run was shown is recorded by the run itself: an input that was changed after the key was made is found here. Whether a file may
 * be executed is not in the record, so that both is accepted. */
static bool is_shown(const json_t *parts, struct key_shown s, const json_t *record)
{
	struct contents c = { 0 };
	char hex[HASH_HEX];
	if (!s.name || contents_from_json(record, &c) < 0 || !c.sha256[0])
		return false;
	s.kind = c.kind;
	s.sha256 = c.sha256;
	CLEANUP_FREE char *name = key_shown_name(&s);
	const char *part = json_string_value(json_object_get(parts, name));
	key_shown_part(&s, hex);
	if (str_eq(part, hex))
		return true;
	s.executable = true;
	key_shown_part(&s, hex);
	return str_eq(part, hex);
}

static int check_shown(const char *run_id, const json_t *analysis, const json_t *parts,
		       struct err *err)
{
	size_t i;
	json_t *one;
	json_array_foreach(json_object_get(analysis, "code_contents"), i, one)
	{
		const char *path = json_string_value(json_object_get(one, "path"));
		struct key_shown s = { .what = "code", .name = path ? path_base(path) : NULL };
		if (!is_shown(parts, s, one))
			return unfit(run_id, "its code is not what the key was made from", err);
	}
	json_array_foreach(json_object_get(analysis, "inputs"), i, one)
	{
		CLEANUP_FREE char *name = fetch_bytes(one, "name");
		struct key_shown s = { .what = "input", .name = name };
		if (!is_shown(parts, s, one))
			return unfit(run_id, "an input is not what the key was made from", err);
	}
	return 0;
}

/* A runtime that became another one since the key was made: nobody knows in which of them the run was. */
static int check_runtime(const struct config *c, const char *run_id, const json_t *analysis,
			 const json_t *parts, struct err *err)
{
	const char *name =
		json_string_value(json_object_get(json_object_get(analysis, "runtime"), "name"));
	CLEANUP_FREE char *part = xasprintf("runtime %s", name ? name : "");
	const char *then = json_string_value(json_object_get(parts, part));
	char now[HASH_HEX];
	const json_t *code = json_object_get(analysis, "code");
	const char *script = json_object_get(analysis, "command")
				     ? NULL
				     : json_string_value(json_array_get(code, 0));
	if (json_object_get(analysis, "shell")) /* a text, which is as a shell script is */
		script = "text.sh";
	int r = then ? key_runtime_now(c, name, script, now, err) : 0;
	if (r < 0)
		return r;
	return then && str_eq(then, now)
		       ? 0
		       : unfit(run_id, "its runtime is not what the key was made from", err);
}

static int check_record(const struct config *c, int run_fd, const char *key, const char *run_id,
			struct err *err)
{
	CLEANUP_JSON json_t *verdict = NULL;
	CLEANUP_JSON json_t *analysis = NULL;
	int r = json_read_file(run_fd, "verdict.json", RECORD_MAX, &verdict, err);
	if (r == -ENOENT)
		return unfit(run_id, "it has no verdict", err);
	if (r >= 0)
		r = json_read_file(run_fd, "analysis.json", RECORD_MAX, &analysis, err);
	if (r < 0)
		return r;
	if (!str_eq(json_string_value(json_object_get(verdict, "cause")), "ok"))
		return unfit(run_id, "its cause is not ok", err);
	const json_t *its = json_object_get(analysis, "key");
	if (!str_eq(json_string_value(json_object_get(its, "sha256")), key))
		return unfit(run_id, "it has another key, or none", err);
	r = check_shown(run_id, analysis, json_object_get(its, "parts"), err);
	return r < 0 ? r : check_runtime(c, run_id, analysis, json_object_get(its, "parts"), err);
}

static json_t *output_json(const json_t *file)
{
	static const char *const names[] = { "path", "path_hex", "size", "sha256", "media_type" };
	json_t *o = json_object();
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (json_object_get(file, names[i]))
			json_object_set(o, names[i], json_object_get(file, names[i]));
	return o;
}

/* A run that matched nothing has an empty list. */
static int outputs_json(int run_fd, const char *run_id, json_t **ret, struct err *err)
{
	CLEANUP_JSON json_t *manifest = NULL;
	json_t *file;
	size_t i;
	int r = fetch_manifest(run_fd, &manifest, err);
	if (r < 0)
		return r == -ENOENT ? unfit(run_id, "nothing was collected", err) : r;
	if (json_is_true(json_object_get(manifest, "partial")))
		return unfit(run_id, "its outputs are partial", err);
	*ret = json_array();
	json_array_foreach(json_object_get(manifest, "files"), i, file)
	{
		json_array_append_new(*ret, output_json(file));
	}
	return 0;
}

/* Where results of private runs are: by submitter, so that nobody else's run takes the place of an entry. */
static void own_place(const char *submitter, const char *key, char ret[HASH_HEX])
{
	CLEANUP_FREE char *text =
		xasprintf("cupel result of a submitter 1\n%s\n%s", submitter, key);
	hash_bytes(text, strlen(text), ret);
}

static void place_of(const struct config *c, const char *key, char ret[HASH_HEX])
{
	if (c->submitter[0] && c->service.visibility == VISIBILITY_OWN)
		own_place(c->submitter, key, ret);
	else
		(void)snprintf(ret, HASH_HEX, "%s", key);
}

int finished_put(const struct config *c, const char *key, const char *run_id, struct err *err)
{
	CLEANUP_JSON json_t *outputs = NULL;
	char time[40];
	int r = id_check(run_id, err);
	if (r < 0)
		return r;
	if (!keyed_is_key(key))
		return err_caller(err, "'%.80s' is no key", key);
	CLEANUP_FREE char *path = xasprintf("%s/runs/%s", c->home, run_id);
	CLEANUP_FD int home_fd = open(c->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CLEANUP_FD int run_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (home_fd < 0 || run_fd < 0)
		return errno == ENOENT ? unfit(run_id, "there is no such run", err)
				       : err_errno(err, "open %s", path);
	r = check_record(c, run_fd, key, run_id, err);
	if (r >= 0)
		r = outputs_json(run_fd, run_id, &outputs, err);
	if (r < 0)
		return r;
	char place[HASH_HEX];
	place_of(c, key, place);
	CLEANUP_JSON json_t *entry =
		json_pack("{s:s,s:s,s:s,s:O}", "key", place, "run", run_id, "time",
			  clock_write(clock_real_ns(), time, sizeof time), "outputs", outputs);
	return keyed_write(home_fd, place, entry, err);
}

void finished_reader_open(const struct config *c, struct finished_reader *ret)
{
	*ret = (struct finished_reader)FINISHED_READER_INIT;
	ret->config = c;
	ret->home_fd = open(c->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	contents_begin_all(&ret->contents, c->home);
}

void finished_reader_close(struct finished_reader *r)
{
	cleanup_fd(&r->home_fd);
	cleanup_fd(&r->keys_fd);
	contents_end(&r->contents);
}

int finished_by_path(const void *a, const void *b)
{
	const struct finished_output *left = a, *right = b;
	return strcmp(left->path, right->path);
}

static bool take_output(const json_t *file, struct finished_output *ret)
{
	const char *hex = json_string_value(json_object_get(file, "sha256"));
	const char *type = json_string_value(json_object_get(file, "media_type"));
	json_int_t size = json_integer_value(json_object_get(file, "size"));
	char *path = fetch_path(file);
	if (!path || !keyed_is_key(hex) || size < 0) {
		free(path);
		return false;
	}
	*ret = (struct finished_output){ .path = path,
					 .size = (uint64_t)size,
					 .media_type = type ? xstrdup(type) : NULL };
	memcpy(ret->sha256, hex, HASH_HEX);
	return true;
}

static bool take_entry(const json_t *entry, struct finished *ret)
{
	const json_t *outputs = json_object_get(entry, "outputs");
	const char *time = json_string_value(json_object_get(entry, "time"));
	json_t *file;
	size_t i;
	(void)snprintf(ret->run, sizeof ret->run, "%s",
		       json_string_value(json_object_get(entry, "run")));
	(void)snprintf(ret->time, sizeof ret->time, "%s", time ? time : "");
	ret->outputs = xcalloc(json_array_size(outputs) + 1, sizeof *ret->outputs);
	json_array_foreach(outputs, i, file)
	{
		if (!take_output(file, &ret->outputs[ret->n_outputs]))
			return false;
		ret->n_outputs++;
	}
	qsort(ret->outputs, ret->n_outputs, sizeof *ret->outputs, finished_by_path);
	return true;
}

static bool is_sound(struct finished_reader *r, const json_t *entry, struct finished *ret,
		     struct str *why)
{
	struct stat st = { 0 };
	if (!take_entry(entry, ret)) {
		str_add(why, "its entry is damaged");
		return false;
	}
	CLEANUP_FREE char *verdict = xasprintf("runs/%s/verdict.json", ret->run);
	if (fstatat(r->home_fd, verdict, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		str_addf(why, "run %s was removed", ret->run);
		return false;
	}
	return finished_has_outputs(r, ret, why);
}

/* An entry that all submitters share may be of a run that whom we act for must not see. */
static bool is_visible(const struct finished_reader *r, const json_t *entry)
{
	struct viewer v;
	CLEANUP_FREE char *submitter = NULL;
	viewer_of(r->config, &v);
	return v.sees_all ||
	       (viewer_submitter_of_run(r->config, json_string_value(json_object_get(entry, "run")),
					&submitter) >= 0 &&
		viewer_sees(&v, submitter));
}

static int find_at(struct finished_reader *r, const char *place, struct finished *ret,
		   char *ret_why, size_t room, struct err *err)
{
	CLEANUP_JSON json_t *entry = NULL;
	CLEANUP_FINISHED struct finished f = { 0 };
	CLEANUP_STR struct str why = { 0 };
	int e = keyed_read(r->keys_fd, place, &entry);
	if (e == -ENOENT || (e >= 0 && !is_visible(r, entry)))
		return 0;
	if (e < 0 && e != -EBADMSG)
		return err_set(err, ERR_HOST, -e, "read the entry of key %.12s: %s", place,
			       strerrordesc_np(-e));
	if (e == -EBADMSG)
		str_add(&why, "its entry is damaged");
	if (e >= 0 && is_sound(r, entry, &f, &why)) {
		*ret = f;
		f = (struct finished){ 0 };
		return 1;
	}
	keyed_drop(r->keys_fd, place);
	(void)snprintf(ret_why, room, "%s", str_text(&why));
	str_clean(ret_why);
	return 0;
}

int finished_find(struct finished_reader *r, const char *key, struct finished *ret, char *ret_why,
		  size_t room, struct err *err)
{
	const char *submitter = r->config->submitter;
	char own[HASH_HEX];
	int e = 0;
	ret_why[0] = 0;
	if (r->home_fd < 0)
		r->home_fd = open(r->config->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r->keys_fd < 0 && r->home_fd >= 0) /* the first put makes it */
		r->keys_fd = fs_open_beneath(r->home_fd, "keys", O_RDONLY | O_DIRECTORY, 0);
	if (r->keys_fd < 0)
		return 0;
	/* Both places: the setting may have changed since, and version 0.1 had one place for all. */
	if (submitter[0]) {
		own_place(submitter, key, own);
		e = find_at(r, own, ret, ret_why, room, err);
	}
	return e ? e : find_at(r, key, ret, ret_why, room, err);
}

#include "flow/record.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fs.h"
#include "base/path.h"
#include "keeper/record.h"
#include "spec/parameters.h"
#include "spec/secret.h"
#include "spec/spec_json.h"

#define FILES      ".files"
#define PIPELINE   "pipeline.json"
#define RESULT     "result.json"
#define RECORD_MAX ((size_t)256 << 20)

void flow_record_release(struct flow_record *r)
{
	cleanup_fd(&r->dir_fd);
	cleanup_fd(&r->lock_fd);
	cleanup_fd(&r->log_fd);
	str_release(&r->pending);
}

static int open_pipelines(const struct config *c, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/" FLOW_PIPELINES, c->home);
	int fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? err_errno(err, "open %s", path) : fd;
}

static int make_pipelines(const struct config *c, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("%s/" FLOW_PIPELINES, c->home);
	CLEANUP_FREE char *files = xasprintf("%s/" FILES, path);
	int r = record_home(c->home, err);
	if (r < 0)
		return r;
	if ((mkdir(path, 0700) < 0 && errno != EEXIST) ||
	    (mkdir(files, 0700) < 0 && errno != EEXIST))
		return err_errno(err, "make %s", path);
	return open_pipelines(c, err);
}

static int open_record(const struct config *c, const char *id, struct err *err)
{
	struct err unused = { 0 };
	int r = id_check(id, err);
	if (r < 0)
		return r;
	CLEANUP_FD int all_fd = open_pipelines(c, &unused);
	int fd = all_fd < 0 ? all_fd
			    : fs_open_beneath(all_fd, id, O_DIRECTORY | O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return err_set(err, ERR_CALLER, ENOENT, "there is no pipeline '%s' in %s/%s", id,
			       c->home, FLOW_PIPELINES);
	return fd;
}

struct submitter_search {
	const struct config *config;
	char *name; /* owned or NULL */
};

/* The first run of a step that is recorded: it has the submitter of its pipeline. */
static bool take_submitter(void *data, json_t *line)
{
	struct submitter_search *found = data;
	const char *run = json_string_value(json_object_get(line, "run"));
	bool is_started = str_eq(json_string_value(json_object_get(line, "event")), "started");
	return !is_started || !run || id_check(run, NULL) < 0 ||
	       viewer_submitter_of_run(found->config, run, &found->name) < 0;
}

/* Version 0.1 did not record the name. */
static void find_submitter(const struct config *c, const char *id, const char *ids,
			   char ret[VIEWER_NAME_MAX + 1])
{
	struct submitter_search found = { .config = c };
	struct config_caller caller = { 0 };
	char buffer[4096];
	struct passwd entry = { 0 }, *user = NULL;
	struct err unused = { 0 };
	(void)flow_record_lines(c, id, take_submitter, &found, &unused);
	CLEANUP_FREE char *name = found.name;
	if (!name && config_caller_parse(ids, &caller) >= 0)
		(void)getpwuid_r(caller.uid, &entry, buffer, sizeof buffer, &user);
	(void)snprintf(ret, VIEWER_NAME_MAX + 1, "%s",
		       name   ? name
		       : user ? user->pw_name
			      : "uid:unknown");
}

int flow_record_submitter(const struct config *c, const char *id, char ret[VIEWER_NAME_MAX + 1])
{
	CLEANUP_JSON json_t *begun = NULL;
	struct err unused = { 0 };
	int r = flow_record_read(c, id, FLOW_BEGUN, &begun, &unused);
	if (r == -ENOENT) /* an earlier cupel had it in there only */
		r = flow_record_read(c, id, PIPELINE, &begun, &unused);
	if (r < 0)
		return r;
	const char *name = json_string_value(json_object_get(begun, "submitter_name"));
	const char *ids = json_string_value(json_object_get(begun, "submitter"));
	(void)snprintf(ret, VIEWER_NAME_MAX + 1, "%s", name ? name : "");
	if (!name && ids)
		find_submitter(c, id, ids, ret);
	return 0;
}

bool flow_record_is_visible(const struct config *c, const char *id)
{
	struct viewer v;
	char submitter[VIEWER_NAME_MAX + 1];
	viewer_of(c, &v);
	return v.sees_all ||
	       (flow_record_submitter(c, id, submitter) >= 0 && viewer_sees(&v, submitter));
}

/* Each submitter has an index entry of their own for a file that several of them run. */
static void file_key(const struct flow *f, const char *submitter, char ret[sizeof FILES + HASH_HEX])
{
	char hex[HASH_HEX];
	CLEANUP_FREE char *of = submitter[0] ? xasprintf("%s\n%s", f->real, submitter)
					     : xstrdup(f->real);
	hash_bytes(of, strlen(of), hex);
	(void)snprintf(ret, sizeof FILES + HASH_HEX, FILES "/%s", hex);
}

static bool read_index(int all_fd, const struct flow *f, const char *submitter,
		       char ret[ID_MAX + 1])
{
	char name[sizeof FILES + HASH_HEX];
	struct err unused = { 0 };
	file_key(f, submitter, name);
	ssize_t n = fs_read_small(all_fd, name, ret, ID_MAX + 1);
	return n >= 0 && id_check(ret, &unused) >= 0;
}

/* Version 0.1 had one entry for all submitters. */
static void read_last(const struct config *c, int all_fd, const struct flow *f,
		      char ret[ID_MAX + 1])
{
	bool is_found = read_index(all_fd, f, c->submitter, ret) ||
			(c->submitter[0] && read_index(all_fd, f, "", ret));
	if (!is_found || !flow_record_is_visible(c, ret))
		ret[0] = '\0';
}

void flow_record_last(const struct config *c, const struct flow *f, char ret[ID_MAX + 1])
{
	struct err unused = { 0 };
	CLEANUP_FD int all_fd = open_pipelines(c, &unused);
	ret[0] = '\0';
	if (all_fd >= 0)
		read_last(c, all_fd, f, ret);
}

static json_t *steps_json(const struct flow *f)
{
	json_t *steps = json_array();
	for (size_t i = 0; i < f->n_steps; i++) {
		const struct flow_step *s = &f->steps[i];
		const struct analysis *a = &f->tasks[s->first].analysis;
		json_t *needs = json_array();
		for (size_t k = 0; k < s->n_needs; k++)
			json_array_append_new(needs, json_text(f->steps[s->needs[k].step].name));
		json_array_append_new(
			steps,
			json_pack("{s:o,s:i,s:o,s:o,s:o,s:o,s:I}", "name", json_text(s->name),
				  "line", s->at[FLOW_AT_NAME].line, "summary",
				  s->summary ? json_text(s->summary) : json_null(), "runtime",
				  a->runtime ? json_text(a->runtime) : json_null(), "needs", needs,
				  "scatter", s->scattered ? strv_json(&s->variables) : json_null(),
				  "shards", (json_int_t)s->n_tasks));
	}
	return steps;
}

/* For whom it is run, if a service runs it: whoever goes on with it does so for him too. */
static json_t *submitter_json(const struct config_caller *caller)
{
	return caller->is_set ? json_sprintf("%u:%u", (unsigned)caller->uid, (unsigned)caller->gid)
			      : json_null();
}

/* Before anything else of the record that a service looks for. */
static int write_begun(const struct config *c, const struct flow_record *r, struct err *err)
{
	const char *submission = c->caller.submission;
	CLEANUP_JSON json_t *begun =
		json_pack("{s:o,s:o,s:s?}", "submitter", submitter_json(&c->caller),
			  "submitter_name", c->submitter[0] ? json_text(c->submitter) : json_null(),
			  "submission", submission[0] ? submission : NULL);
	CLEANUP_FREE char *text = json_dumps(begun, JSON_COMPACT);
	if (!text)
		abort();
	return fs_write_atomic(r->dir_fd, FLOW_BEGUN, text, strlen(text), 0600, err);
}

bool flow_has_secrets(const struct flow *f)
{
	for (size_t t = 0; t < f->n_tasks; t++) {
		const struct pairs *env = &f->tasks[t].analysis.env;
		for (size_t i = 0; i < env->n; i++)
			if (env_is_secret(env->v[i].key, env->v[i].value))
				return true;
	}
	return false;
}

int flow_record_digest(const struct config *c, const struct flow *f, char ret_hex[HASH_HEX],
		       struct err *err)
{
	struct secret_key key = { 0 };
	int r = secret_key_open(c->home, &key, err);
	if (r >= 0)
		secret_digest(&key, "file", f->sha256, ret_hex);
	return r;
}

void flow_record_drop_copy(const struct config *c, const struct flow *f)
{
	CLEANUP_FREE char *home = path_real(c->home);
	CLEANUP_FREE char *copies = home ? path_join(home, FLOW_SUBMITTED) : NULL;
	if (copies && path_within(f->real, copies) && flow_has_secrets(f))
		(void)unlink(f->real);
}

/* The SHA-256 of a file with secret values in it would let others try values: such a file has a keyed digest instead. */
static int set_digest(const struct config *c, const struct flow *f, json_t *o, struct err *err)
{
	char hex[HASH_HEX];
	if (!flow_has_secrets(f)) {
		json_object_set_new(o, "file_sha256", json_string(f->sha256));
		return 0;
	}
	int r = flow_record_digest(c, f, hex, err);
	if (r >= 0)
		json_object_set_new(o, "file_digest", json_string(hex));
	return r;
}

static json_t *pipeline_json(const struct config *c, const struct flow *f,
			     const struct flow_record *r)
{
	char now[40];
	const struct analysis *all = &f->defaults;
	json_t *labels = json_object();
	for (size_t i = 0; i < all->labels.n; i++)
		json_object_set_new(labels, all->labels.v[i].key,
				    json_text(all->labels.v[i].value));
	return json_pack(
		"{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:O?,s:s,s:o,s:i,s:o,s:o}", "id", r->id, "name",
		all->name ? json_text(all->name) : json_null(), "file", json_text(f->real), "quest",
		all->quest ? json_text(all->quest) : json_null(), "labels", labels, "parameters",
		parameters_json(all->parameters), "said", parameters_json(f->said), "options",
		f->options, "created", clock_write(clock_real_ns(), now, sizeof now), "previous",
		r->previous[0] ? json_string(r->previous) : json_null(), "uid", (int)getuid(),
		"submitter", submitter_json(&c->caller), "steps", steps_json(f));
}

static int take_lock(struct flow_record *r, struct err *err)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	r->lock_fd = fs_open_beneath(r->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (r->lock_fd < 0)
		return err_set(err, ERR_HOST, -r->lock_fd, "lock the pipeline '%s': %s", r->id,
			       strerrordesc_np(-r->lock_fd));
	if (fcntl(r->lock_fd, F_SETLK, &lock) < 0)
		return err_set(err, ERR_CALLER, EBUSY,
			       "the pipeline '%s' is being run by another process", r->id);
	return 0;
}

static int open_log(struct flow_record *r, struct err *err)
{
	r->log_fd = fs_open_beneath(r->dir_fd, "steps.jsonl",
				    O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	if (r->log_fd < 0)
		return err_set(err, ERR_HOST, -r->log_fd, "open the log of the pipeline '%s': %s",
			       r->id, strerrordesc_np(-r->log_fd));
	return 0;
}

/* A file that is changed later is still what was run. Nothing depends on the copy: a file that was changed since it was read, or that has
 * secret values in it, is not kept. */
static void keep_file(const struct flow *f, const struct flow_record *r)
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	char hex[HASH_HEX];
	if (flow_has_secrets(f) ||
	    fs_read_capped(AT_FDCWD, f->real, ANALYSIS_FILE_MAX, &text, &length, NULL) < 0)
		return;
	hash_bytes(text, length, hex);
	if (str_eq(hex, f->sha256))
		(void)fs_write_new(r->dir_fd, "pipeline.yaml", text, length, 0600, NULL);
}

static bool has_file(int dir_fd, const char *name)
{
	return faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int exists(const struct flow_record *r, struct err *err)
{
	return err_set(err, ERR_CALLER, EEXIST,
		       "there is a pipeline '%s' already; `cupel resume %s` goes on with it", r->id,
		       r->id);
}

static int fill_record(const struct config *c, int all_fd, const struct flow *f,
		       struct flow_record *r, struct err *err)
{
	char name[sizeof FILES + HASH_HEX];
	CLEANUP_JSON json_t *asked = pipeline_json(c, f, r);
	CLEANUP_FD int files_fd =
		fs_open_beneath(all_fd, FILES, O_DIRECTORY | O_RDONLY | O_CLOEXEC, 0);
	int e = take_lock(r, err);
	if (e >= 0 && has_file(r->dir_fd, PIPELINE))
		e = exists(r, err);
	if (e >= 0)
		e = open_log(r, err);
	if (e >= 0)
		e = write_begun(c, r, err);
	if (e >= 0)
		e = set_digest(c, f, asked, err);
	if (e >= 0)
		e = json_write_file(r->dir_fd, PIPELINE, asked, err);
	if (e >= 0)
		keep_file(f, r);
	file_key(f, c->submitter, name);
	if (e >= 0 && files_fd < 0)
		e = err_set(err, ERR_HOST, -files_fd, "open the index of pipelines: %s",
			    strerrordesc_np(-files_fd));
	if (e >= 0)
		e = fs_write_atomic(files_fd, name + sizeof FILES, r->id, strlen(r->id), 0600, err);
	return e;
}

int flow_record_new(const struct config *c, const struct flow *f, struct flow_record *ret,
		    struct err *err)
{
	CLEANUP_FLOW_RECORD struct flow_record r = FLOW_RECORD_INIT;
	CLEANUP_FD int all_fd = make_pipelines(c, err);
	if (all_fd < 0)
		return all_fd;
	if (f->defaults.id)
		(void)snprintf(r.id, sizeof r.id, "%s", f->defaults.id);
	else
		id_generate(r.id);
	int e = id_check(r.id, err);
	if (e < 0)
		return e;
	if (mkdirat(all_fd, r.id, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "make the record of the pipeline '%s'", r.id);
	FAULT_PHASE("flow-directory");
	r.dir_fd = fs_open_beneath(all_fd, r.id, O_DIRECTORY | O_RDONLY | O_CLOEXEC, 0);
	if (r.dir_fd < 0)
		return err_set(err, ERR_HOST, -r.dir_fd, "open the record of the pipeline '%s': %s",
			       r.id, strerrordesc_np(-r.dir_fd));
	if (has_file(r.dir_fd,
		     PIPELINE)) /* without it, it was killed before it began: it may have its id */
		return exists(&r, err);
	read_last(c, all_fd, f, r.previous);
	e = fill_record(c, all_fd, f, &r, err);
	if (e < 0)
		return e;
	*ret = r;
	r = (struct flow_record)FLOW_RECORD_INIT;
	return 0;
}

int flow_record_resume(const struct config *c, const char *id, struct flow_record *ret,
		       struct err *err)
{
	CLEANUP_FLOW_RECORD struct flow_record r = FLOW_RECORD_INIT;
	r.dir_fd = open_record(c, id, err);
	if (r.dir_fd < 0)
		return r.dir_fd;
	(void)snprintf(r.id, sizeof r.id, "%s", id);
	(void)snprintf(r.previous, sizeof r.previous, "%s", id); /* it goes on from itself */
	int e = take_lock(&r, err);
	if (e >= 0)
		e = open_log(&r, err);
	/* It is not over any more: who comes after us, should we be killed, is to look for what we left. */
	if (e >= 0 && unlinkat(r.dir_fd, RESULT, 0) < 0 && errno != ENOENT)
		e = err_errno(err, "remove the result of the pipeline '%s'", id);
	/* In this order: what is recorded as the end of this submission is never that of an earlier one. */
	if (e >= 0 && c->caller.submission[0])
		e = write_begun(c, &r, err);
	if (e < 0)
		return e;
	str_add(&r.pending, "\n"); /* a line that was cut ends here */
	*ret = r;
	r = (struct flow_record)FLOW_RECORD_INIT;
	return 0;
}

int flow_record_end(struct flow_record *r, const json_t *result, struct err *err)
{
	CLEANUP_JSON json_t *ended = json_pack("{s:O?,s:O?,s:O?,s:O?}", "state",
					       json_object_get(result, "state"), "cause",
					       json_object_get(result, "cause"), "exit_status",
					       json_object_get(result, "exit_status"), "lookups",
					       json_object_get(result, "lookups"));
	CLEANUP_FREE char *small = json_dumps(ended, JSON_COMPACT);
	CLEANUP_FREE char *text = json_dumps(result, JSON_COMPACT);
	int e = flow_record_flush(r, err);
	if (!text || !small)
		abort();
	if (e >= 0)
		e = fs_write_atomic(r->dir_fd, FLOW_ENDED, small, strlen(small), 0600, err);
	return e < 0 ? e : fs_write_atomic(r->dir_fd, RESULT, text, strlen(text), 0600, err);
}

bool flow_record_exists(const struct config *c, const char *id)
{
	struct err unused = { 0 };
	CLEANUP_FD int fd = open_record(c, id, &unused);
	return fd >= 0;
}

bool flow_record_is_over(const struct config *c, const char *id)
{
	struct err unused = { 0 };
	CLEANUP_FD int fd = open_record(c, id, &unused);
	return fd >= 0 && has_file(fd, RESULT);
}

pid_t flow_record_holder(const struct config *c, const char *id)
{
	struct err unused = { 0 };
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	CLEANUP_FD int dir_fd = open_record(c, id, &unused);
	CLEANUP_FD int fd = dir_fd < 0 ? -1
				       : fs_open_beneath(dir_fd, "lock", O_RDWR | O_CLOEXEC, 0);
	if (fd < 0 || fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
		return 0;
	return lock.l_pid > 0 ? lock.l_pid : -1;
}

bool flow_record_alive(const struct config *c, const char *id)
{
	return flow_record_holder(c, id) != 0;
}

int flow_record_read(const struct config *c, const char *id, const char *name, json_t **ret,
		     struct err *err)
{
	CLEANUP_FD int dir_fd = open_record(c, id, err);
	if (dir_fd < 0)
		return dir_fd;
	if (faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, ERR_CALLER, ENOENT, "the pipeline '%s' has no %s yet", id,
			       name);
	return json_read_file(dir_fd, name, RECORD_MAX, ret, err);
}

int flow_record_lines(const struct config *c, const char *id,
		      bool (*each)(void *data, json_t *line), void *data, struct err *err)
{
	CLEANUP_FREE char *text = NULL;
	size_t length = 0;
	CLEANUP_FD int dir_fd = open_record(c, id, err);
	int r = dir_fd < 0
			? dir_fd
			: fs_read_capped(dir_fd, "steps.jsonl", FLOW_LOG_MAX, &text, &length, err);
	if (r < 0)
		return r;
	for (char *line = text, *end; (end = memchr(line, '\n', (size_t)(text + length - line)));
	     line = end + 1) {
		CLEANUP_JSON json_t *value = json_loadb(line, (size_t)(end - line), 0, NULL);
		if (json_is_object(value) && !each(data, value))
			break;
	}
	return 0;
}

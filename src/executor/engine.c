/* Podman's and Docker's REST API: a job is a container whose pid 1 is ours. See docs/executors/engine.md. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/path.h"
#include "box/landlock.h"
#include "executor/engine_parts.h"
#include "executor/kinds.h"
#include "executor/pid1.h"

#define WAIT_MS            2500L
#define LANDLOCK_TRUNCATES 3 /* the first ABI that knows of it */

/* Answers 2xx, and 304 where nothing was to do. */
static int order(struct executor *x, const char *method, const char *path, const char *what,
		 struct err *err)
{
	CLEANUP_ANSWER struct answer a = { 0 };
	int r = engine_ask(x, &(struct question){ method, path, NULL, 0 }, &a, err);
	if (r < 0)
		return r;
	return a.status < 400 ? 0 : engine_refused(&a, what, EIO, err);
}

/* Quickly, without what only a probe needs. */
int engine_know(struct executor *x, struct err *err)
{
	struct engine *e = x->data;
	CLEANUP_ANSWER struct answer a = { 0 };
	struct statfs tree = { 0 };
	if (e->is_asked)
		return 0;
	int r = engine_ask(x, &(struct question){ "GET", "/_ping", NULL, 0 }, &a, err);
	if (r < 0)
		return r;
	if (a.status != 200)
		return engine_refused(&a, "ask who it is", EOPNOTSUPP, err);
	e->is_podman = a.is_podmans;
	e->is_cgroup2 = statfs("/sys/fs/cgroup", &tree) == 0 && tree.f_type == CGROUP2_SUPER_MAGIC;
	(void)snprintf(e->api, sizeof e->api, "%s", a.api);
	str_clean(e->api);
	(void)snprintf(e->version, sizeof e->version, "%s", a.server);
	str_clean(e->version);
	e->is_asked = true;
	return 0;
}

static bool gives(const struct engine *e, const struct engine_info *info, const char *layer)
{
	if (str_eq(layer, "user"))
		return false; /* the run's own user of the host, in no namespace of users */
	if (str_eq(layer, "cgroup"))
		return !e->is_podman || e->is_cgroup2;
	if (str_eq(layer, "landlock"))
		return true; /* or it was refused */
	if (str_eq(layer, "seccomp"))
		return info->has_seccomp;
	/* With groups of version 2 Podman denies what it can limit, since it looks where version 1 has it. What was applied is read from the
	 * kernel before anything starts. */
	bool denies = e->is_podman && e->is_cgroup2;
	if (str_eq(layer, "memory"))
		return denies || info->limits_memory;
	if (str_eq(layer, "cpu"))
		return denies || info->limits_cpus;
	if (str_eq(layer, "pids"))
		return denies || info->limits_pids;
	return true;
}

/* Nothing that may be missing here: pid 1's notes and the log are files of the run's own user in the container. Root takes them back before
 * the analysis starts, and is content with a Landlock that keeps it from writing; for anybody else it must keep it from truncating too. */
static int check_landlock(struct err *err)
{
	int abi = landlock_abi(), needed = geteuid() == 0 ? 1 : LANDLOCK_TRUNCATES;
	if (abi >= needed)
		return 0;
	return err_set(
		err, ERR_HOST, EOPNOTSUPP,
		"Landlock of ABI %d is needed here, whatever may be missing, and the kernel has %d: "
		"an analysis could say itself how it ended. Remedy: a newer kernel, or the executor local",
		needed, abi);
}

static int engine_probe(struct executor *x, struct capability *ret, struct err *err)
{
	struct engine *e = x->data;
	struct engine_info info = { 0 };
	int r = check_landlock(err);
	if (r >= 0)
		r = engine_know(x, err);
	if (r >= 0)
		r = engine_info(x, &info, err);
	if (r < 0)
		return r;
	if (info.maps_users)
		return err_set(
			err, ERR_HOST, EOPNOTSUPP,
			"the engine gives users other numbers than the host does (rootless, or userns-remap), "
			"so a run's own user would not be its own. Remedy: an engine of root's, or the executor local");
	*ret = (struct capability){ .reattaches = true,
				    .signals = true,
				    .network_host = true,
				    .submitters = true,
				    .staging = STAGING_HERE,
				    .judging = JUDGING_HERE };
	for (int i = 0; i < LIMIT_COUNT_; i++)
		ret->limits[i] = true;
	for (size_t i = 0; i < layer_count; i++)
		ret->layers[i] = gives(e, &info, layer_names[i]);
	(void)snprintf(ret->engine, sizeof ret->engine, "%s %s, API %s",
		       e->is_podman ? "podman" : "docker", e->version, e->api);
	str_clean(ret->engine);
	return 0;
}

int engine_inspect(struct executor *x, const char *name, json_t **ret, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("/containers/%s/json", name);
	CLEANUP_ANSWER struct answer a = { 0 };
	int r = engine_ask(x, &(struct question){ "GET", path, NULL, 0 }, &a, err);
	if (r < 0)
		return r;
	if (a.status != 200 || !json_is_object(a.body))
		return engine_refused(&a, "look at the container", EAGAIN, err);
	*ret = take_ptr(a.body);
	return 0;
}

int engine_start_container(struct executor *x, const char *id, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("/containers/%s/start", id);
	return order(x, "POST", path, "start the container", err);
}

static const json_t *labels(const json_t *inspection)
{
	return json_object_get(json_object_get(inspection, "Config"), "Labels");
}

static json_t *handle_of(const json_t *inspection)
{
	const char *name = engine_text(inspection, "Name");
	return json_pack("{s:s,s:s,s:s}", "container", engine_text(inspection, "Id"), "name",
			 name + (name[0] == '/'), "stage",
			 engine_text(labels(inspection), "cupel.stage"));
}

/* -EEXIST: it is somebody else's container. */
static int find_container(struct executor *x, const char *name, json_t **ret_handle,
			  struct err *err)
{
	CLEANUP_JSON json_t *inspection = NULL;
	int r = engine_inspect(x, name, &inspection, err);
	if (r < 0)
		return r;
	if (!str_eq(engine_text(labels(inspection), "cupel.job"), name))
		return err_set(err, ERR_HOST, EEXIST,
			       "the container %s is not one of cupel's; remove it or rename it",
			       name);
	*ret_handle = handle_of(inspection);
	return 0;
}

static int engine_find(struct executor *x, const char *name, json_t **ret_handle, struct err *err)
{
	int r = find_container(x, name, ret_handle, err);
	return r == -EEXIST ? -ENOENT : r;
}

static int create(struct executor *x, const struct job *job, const char *image, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("/containers/create?name=%s", job->name);
	CLEANUP_JSON json_t *body = engine_create(x, job, image);
	CLEANUP_ANSWER struct answer a = { 0 };
	if (!body)
		return err_set(err, ERR_HOST, EINVAL, "the job can't be said in JSON");
	int r = engine_ask(x, &(struct question){ "POST", path, body, 0 }, &a, err);
	if (r < 0)
		return r;
	if (a.status == 201 || a.status == 409) /* that name is taken: whoever looks sees by whom */
		return 0;
	r = engine_refused(&a, "make the container", EIO, err);
	return r == -ENOENT ? -EAGAIN : r; /* the image was removed meanwhile */
}

static int make_container(struct executor *x, const struct job *job, struct err *err)
{
	CLEANUP_FREE char *image = NULL;
	int r = engine_know(x, err);
	if (r >= 0)
		r = engine_image(x, job, &image, err);
	if (r >= 0)
		r = engine_stage(x, job, err);
	return r < 0 ? r : create(x, job, image, err);
}

/* Until it is not there any more (`removed`), or does not run, or WAIT_MS have passed, which is no error. */
static void wait_for(struct executor *x, const json_t *handle, const char *condition)
{
	CLEANUP_FREE char *path = xasprintf("/containers/%s/wait?condition=%s",
					    engine_text(handle, "container"), condition);
	CLEANUP_ANSWER struct answer a = { 0 };
	struct err ignored = { 0 };
	(void)engine_ask(x, &(struct question){ "POST", path, NULL, WAIT_MS }, &a, &ignored);
}

static int engine_reap(struct executor *x, const json_t *handle, struct err *err)
{
	CLEANUP_FREE char *path =
		xasprintf("/containers/%s?force=1&v=1", engine_text(handle, "container"));
	for (int i = 0;; i++) {
		CLEANUP_ANSWER struct answer a = { 0 };
		int r = engine_ask(x, &(struct question){ "DELETE", path, NULL, 0 }, &a, err);
		if (r < 0 || a.status < 400 || a.status == 404)
			return r;
		if (a.status != 409 || i == 2)
			return engine_refused(&a, "remove the container", EAGAIN, err);
		wait_for(x, handle, "removed"); /* somebody else is at it */
	}
}

static int engine_submit(struct executor *x, const struct job *job, json_t **ret_handle,
			 struct err *err)
{
	CLEANUP_JSON json_t *handle = NULL;
	struct err why = { 0 };
	int r = find_container(x, job->name, &handle, err);
	if (r == -ENOENT) {
		int made = make_container(x, job, &why);
		if (made != -EAGAIN) /* Podman has no number of its own for names */
			r = find_container(x, job->name, &handle, err);
		if (made < 0 && r == -ENOENT) {
			*err = why;
			r = made;
		}
	}
	if (r < 0)
		return r;
	r = engine_start_container(x, engine_text(handle, "container"), err);
	if (r < 0 && r != -EAGAIN) {
		struct err ignored = { 0 };
		(void)engine_reap(x, handle, &ignored);
	}
	if (r < 0)
		return r;
	*ret_handle = take_ptr(handle);
	return 0;
}

/* At the end of what was kept: is that the end of what was printed? */
static ssize_t log_end(const json_t *handle, struct err *err)
{
	CLEANUP_FD int fd =
		open(engine_text(handle, "stage"), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char notes[STATUS_MAX + 1] = "";
	if (fd >= 0)
		(void)engine_notes(fd, notes, sizeof notes);
	const char *failed = strstr(notes, "log-failed ");
	int code = failed ? (int)strtol(failed + strlen("log-failed "), NULL, 10) : 0;
	return code > 0 ? err_set(err, ERR_HOST, code, "what was printed could not be kept: %s",
				  strerrordesc_np(code))
			: 0;
}

static ssize_t engine_logs(struct executor *x, const json_t *handle, int stream, uint64_t offset,
			   void *buffer, size_t room, struct err *err)
{
	CLEANUP_FREE char *path =
		path_join(engine_text(handle, "stage"), stream ? "stderr" : "stdout");
	CLEANUP_FD int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : pread(fd, buffer, room, (off_t)offset);
	if (n < 0)
		return err_errno(err, "read what was printed");
	return n > 0 ? n : log_end(handle, err);
}

static int engine_signal(struct executor *x, const json_t *handle, int signal_number,
			 struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("/containers/%s/kill?signal=%d",
					    engine_text(handle, "container"), signal_number);
	CLEANUP_ANSWER struct answer a = { 0 };
	int r = engine_ask(x, &(struct question){ "POST", path, NULL, 0 }, &a, err);
	/* 409: it does not run any more. */
	if (r < 0 || a.status < 400 || a.status == 404 || a.status == 409)
		return r;
	return engine_refused(&a, "send a signal", EAGAIN, err);
}

static int is_running(struct executor *x, const json_t *handle, struct err *err)
{
	CLEANUP_JSON json_t *inspection = NULL;
	int r = engine_inspect(x, engine_text(handle, "container"), &inspection, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return json_is_true(json_object_get(json_object_get(inspection, "State"), "Running"));
}

/* Pid 1 ends everything and notes what was counted; should it not get to that, the engine ends pid 1. */
int engine_cancel(struct executor *x, const json_t *handle, struct err *err)
{
	CLEANUP_JSON json_t *inspection = NULL;
	int r = engine_inspect(x, engine_text(handle, "container"), &inspection, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	const json_t *state = json_object_get(inspection, "State");
	if (str_eq(engine_text(state, "Status"), "created"))
		return engine_reap(x, handle, err);
	if (!json_is_true(json_object_get(state, "Running")))
		return 0;
	r = engine_signal(x, handle, PID1_END_ALL, err);
	if (r < 0)
		return r;
	wait_for(x, handle, "not-running");
	r = is_running(x, handle, err);
	return r > 0 ? engine_signal(x, handle, SIGKILL, err) : r;
}

static void engine_release(struct executor *x)
{
	struct engine *e = x->data;
	if (!e)
		return;
	import_free(e->import);
	if (e->easy)
		e->curl.easy_cleanup(e->easy);
	free(e);
	x->data = NULL;
}

int executor_open_engine(struct executor *x, struct err *err)
{
	static const struct executor_ops ops = {
		.probe = engine_probe,
		.submit = engine_submit,
		.find = engine_find,
		.poll = engine_poll,
		.logs = engine_logs,
		.signal = engine_signal,
		.cancel = engine_cancel,
		.reap = engine_reap,
		.release = engine_release,
	};
	struct engine *e = xcalloc(1, sizeof *e);
	x->ops = &ops;
	x->data = e;
	engine_speak(e, ENGINE_API);
	int r = curl_api_load(&e->curl, err);
	if (r < 0)
		return r;
	e->easy = e->curl.easy_init();
	return e->easy ? 0 : err_set(err, ERR_HOST, ENOMEM, "libcurl gives no handle");
}

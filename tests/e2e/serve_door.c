/* serve-door: the service without its HTTP door. A line of JSON on standard input asks, a line on standard output answers or tells:
 * {"op":"submit","who":NAME,"uid":N,"gid":N,"scopes":N,"analysis":{...},"id","priority","retries","not_before","key","resume","tag"}
 * {"op":"cancel","who","scopes","id"} {"op":"queue"} {"op":"rows"} {"op":"run","id"} {"op":"use"} {"op":"drain","wait":true} */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/record.h"
#include "run/run.h"
#include "serve/service.h"
#include "serve/starter.h"

struct door {
	sd_event *event;
	struct config config;
	struct service *service;
	struct str line;
};

static void say(json_t *value)
{
	CLEANUP_JSON json_t *owned = value;
	CLEANUP_FREE char *text = json_dumps(owned, JSON_COMPACT);
	(void)printf("%s\n", text);
	(void)fflush(stdout);
}

static void say_error(const json_t *ask, int r, const struct err *err)
{
	json_t *tag = json_object_get(ask, "tag");
	say(json_pack("{s:O?,s:s,s:s}", "tag", tag, "error", strerrorname_np(r < 0 ? -r : r),
		      "text", err->text));
}

static void on_submitted(void *data, const struct submit_answer *a)
{
	CLEANUP_JSON json_t *tag = data;
	if (a->error)
		say(json_pack("{s:O?,s:s,s:s}", "tag", tag, "error", strerrorname_np(a->error),
			      "text", a->err.text));
	else
		say(json_pack("{s:O?,s:s,s:b}", "tag", tag, "id", a->id, "new", a->is_new));
}

static void on_cancelled(void *data, const char *id, int error, const struct err *err)
{
	if (error)
		say_error(NULL, error, err);
	else
		say(json_pack("{s:s}", "asked", id));
}

static void on_news(void *data, const struct service_change *c)
{
	say(json_pack("{s:s,s:s,s:s,s:s?}", "news", c->what, "id", c->id, "state", c->state,
		      "cause", c->cause));
}

static struct identity identity_of(const json_t *ask)
{
	struct identity who = { .scopes = SCOPE_READ | SCOPE_SUBMIT };
	const char *name = json_string_value(json_object_get(ask, "who"));
	const json_t *scopes = json_object_get(ask, "scopes");
	(void)snprintf(who.name, sizeof who.name, "%s", name ? name : "root");
	who.uid = (uid_t)json_integer_value(json_object_get(ask, "uid"));
	who.gid = (gid_t)json_integer_value(json_object_get(ask, "gid"));
	if (scopes)
		who.scopes = (unsigned)json_integer_value(scopes);
	return who;
}

static void submit(struct door *d, const json_t *ask)
{
	struct err err = { 0 };
	struct identity who = identity_of(ask);
	CLEANUP_FREE char *body = json_dumps(json_object_get(ask, "analysis"), JSON_COMPACT);
	struct submit_request q = {
		.who = &who,
		.analysis = json_object_get(ask, "analysis"),
		.id = json_string_value(json_object_get(ask, "id")),
		.priority = (int)json_integer_value(json_object_get(ask, "priority")),
		.retries = json_object_get(ask, "retries"),
		.not_before = (uint64_t)json_integer_value(json_object_get(ask, "not_before")),
		.key = json_string_value(json_object_get(ask, "key")),
		.resume = json_string_value(json_object_get(ask, "resume")),
	};
	hash_bytes(body ? body : "", body ? strlen(body) : 0, q.sha256);
	json_t *tag = json_incref(json_object_get(ask, "tag"));
	int r = service_submit(d->service, &q, on_submitted, tag, &err);
	if (r < 0) {
		json_decref(tag);
		say_error(ask, r, &err);
	}
}

static void drained(void *data)
{
	struct door *d = data;
	say(json_pack("{s:b}", "drained", 1));
	(void)sd_event_exit(d->event, 0);
}

static void say_use(const struct service *s)
{
	struct service_use u = { 0 };
	service_use(s, &viewer_all, &u);
	say(json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "waiting", (json_int_t)u.waiting,
		      "running", (json_int_t)u.running, "submitted", (json_int_t)u.submitted,
		      "started", (json_int_t)u.started, "ended", (json_int_t)u.ended, "retried",
		      (json_int_t)u.retried, "refused", (json_int_t)u.refused, "memory_used",
		      (json_int_t)u.memory_used, "cpus_used", (json_int_t)u.cpus_used));
}

static void answer(struct door *d, const json_t *ask)
{
	struct err err = { 0 };
	const char *op = json_string_value(json_object_get(ask, "op"));
	const char *id = json_string_value(json_object_get(ask, "id"));
	if (str_eq(op, "submit")) {
		submit(d, ask);
	} else if (str_eq(op, "cancel")) {
		struct identity who = identity_of(ask);
		int r = service_cancel(d->service, &who, id, on_cancelled, NULL, &err);
		if (r < 0)
			say_error(ask, r, &err);
	} else if (str_eq(op, "queue")) {
		say(service_queue(d->service));
	} else if (str_eq(op, "rows")) {
		say(json_pack("{s:o}", "rows", service_rows(d->service)));
	} else if (str_eq(op, "run")) {
		json_t *run = service_run(d->service, id);
		say(run ? run : json_pack("{s:n}", "run"));
	} else if (str_eq(op, "use")) {
		say_use(d->service);
	} else if (str_eq(op, "drain")) {
		service_drain(d->service, json_is_true(json_object_get(ask, "wait")), drained, d);
	} else {
		say(json_pack("{s:s}", "error", "no such op"));
	}
}

static int on_input(sd_event_source *source, int fd, uint32_t events, void *data)
{
	struct door *d = data;
	char buffer[65536];
	ssize_t n = read(fd, buffer, sizeof buffer);
	if (n <= 0)
		return sd_event_exit(d->event, 0);
	str_add_n(&d->line, buffer, (size_t)n);
	for (char *end; (end = memchr(d->line.text, '\n', d->line.length));) {
		size_t length = (size_t)(end - d->line.text);
		CLEANUP_JSON json_t *ask = json_loadb(d->line.text, length, 0, NULL);
		CLEANUP_FREE char *rest = xstrndup(end + 1, d->line.length - length - 1);
		size_t left = d->line.length - length - 1;
		str_release(&d->line);
		str_add_n(&d->line, rest, left);
		answer(d, ask);
	}
	return 0;
}

static int begin(struct door *d, struct err *err)
{
	CLEANUP_FREE char *path = NULL;
	int r = config_read(&(struct config_where){ 0 }, &d->config, err);
	if (r >= 0)
		r = record_home(d->config.home, err);
	if (r < 0)
		return r;
	path = xasprintf("%s/service.lock", d->config.home);
	int lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock_fd < 0 || flock(lock_fd, LOCK_EX) < 0)
		return err_errno(err, "lock %s", path);
	r = run_prepare(&d->config, err);
	int starter_fd = r < 0 ? r : starter_fork(&d->config, lock_fd, err);
	if (starter_fd < 0)
		return starter_fd;
	if (sd_event_new(&d->event) < 0 ||
	    sd_event_add_io(d->event, NULL, STDIN_FILENO, EPOLLIN, on_input, d) < 0)
		return err_set(err, ERR_HOST, EIO, "make a loop");
	r = service_open(d->event, &d->config, starter_fd, &d->service, err);
	if (r >= 0)
		service_watch(d->service, on_news, d);
	return r;
}

int main(void)
{
	struct door d = { 0 };
	struct err err = { 0 };
	if (begin(&d, &err) < 0) {
		(void)fprintf(stderr, "serve-door: %s\n", err.text);
		return 1;
	}
	int r = sd_event_loop(d.event);
	service_free(d.service);
	sd_event_unref(d.event);
	config_release(&d.config);
	str_release(&d.line);
	return r < 0 ? 1 : 0;
}

/* Bytes: logs and outputs. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/path.h"
#include "collect/fetch.h"
#include "serve/given.h"
#include "serve/live.h"
#include "serve/preview.h"
#include "serve/routes.h"
#include "serve/rows.h"
#include "serve/sse.h"

struct wanted {
	const struct config *config;
	char *id, *path; /* owned; path or NULL */
	bool is_inline, is_log;
	struct given output;
	json_t *list; /* owned */
	int result;
	struct err err;
};

static void wanted_release(void *data)
{
	struct wanted *w = data;
	given_release(&w->output);
	json_decref(w->list);
	free(w->id);
	free(w->path);
	free(w);
}

static struct wanted *wanted_new(const struct request *r, const char *path)
{
	struct wanted *w = xcalloc(1, sizeof *w);
	w->config = r->context->config;
	w->id = xstrdup(r->arg[0]);
	w->path = path ? xstrdup(path) : NULL;
	w->is_inline = str_eq(url_value(&r->url, "inline"), "1");
	w->output.fd = -1;
	return w;
}

static void work_log(void *data)
{
	struct wanted *w = data;
	CLEANUP_FD int run_fd = rows_open_run(w->config, w->id, &w->err);
	w->result = run_fd < 0 ? run_fd : given_open_file(run_fd, w->path, &w->output, &w->err);
	/* What was written stays; only the size changes. */
	(void)snprintf(w->output.etag, sizeof w->output.etag, "%s-%llu", w->path,
		       (unsigned long long)w->output.size);
}

static void answer_file(struct request *r, void *data)
{
	struct wanted *w = data;
	CLEANUP_STR struct str nothing = { 0 };
	/* A log that is not there: nothing was written yet, or ever. */
	if (w->result == -ENOENT && w->is_log && live_is_known(r, w->id)) {
		respond_bytes(r, 200, "text/plain; charset=utf-8", &nothing);
		return;
	}
	if (w->result < 0) {
		respond_failure(r, w->result, &w->err);
		return;
	}
	respond_file(r,
		     &(struct respond_file){ .fd = take_fd(&w->output.fd),
					     .size = w->output.size,
					     .etag = w->output.etag,
					     .type = w->output.type ? w->output.type
								    : "text/plain; charset=utf-8",
					     .filename = w->is_inline ? NULL : path_base(w->path),
					     .is_sandboxed = true });
}

void files_log(struct request *r)
{
	static const struct reading reading = { work_log, answer_file, wanted_release };
	static const struct problem unknown = { 404, "not-found", "ask for stdout or stderr" };
	if (!str_eq(r->arg[1], "stdout") && !str_eq(r->arg[1], "stderr")) {
		respond_problem(r, &unknown, "there is no such log");
		return;
	}
	CLEANUP_FREE char *name = xasprintf("%s.log", r->arg[1]);
	if (sse_is_wanted(r)) {
		live_log(r, name);
		return;
	}
	struct wanted *w = wanted_new(r, name);
	w->is_inline = w->is_log = true;
	request_read(r, &reading, w);
}

static const char *kind_of(const json_t *file)
{
	return preview_kind_name(
		preview_kind(json_string_value(json_object_get(file, "path")),
			     json_string_value(json_object_get(file, "media_type"))));
}

static void work_outputs(void *data)
{
	struct wanted *w = data;
	CLEANUP_JSON json_t *manifest = NULL;
	size_t i;
	json_t *file;
	CLEANUP_FD int run_fd = rows_open_run(w->config, w->id, &w->err);
	w->result = run_fd;
	if (run_fd < 0)
		return;
	json_t *outputs = json_array();
	(void)fetch_manifest(run_fd, &manifest, NULL); /* nothing was collected: none */
	json_array_foreach(json_object_get(manifest, "files"), i, file)
	{
		json_array_append_new(outputs,
				      json_pack("{s:O?,s:O?,s:O?,s:O?,s:O?,s:s}", "path",
						json_object_get(file, "path"), "path_hex",
						json_object_get(file, "path_hex"), "bytes",
						json_object_get(file, "size"), "sha256",
						json_object_get(file, "sha256"), "media_type",
						json_object_get(file, "media_type"), "preview",
						kind_of(file)));
	}
	w->list = json_pack("{s:o,s:b}", "outputs", outputs, "partial",
			    json_is_true(json_object_get(manifest, "partial")));
}

static void answer_list(struct request *r, void *data)
{
	struct wanted *w = data;
	if (w->result == -ENOENT && live_is_to_come(r, w->id))
		respond_json(r, 200, json_pack("{s:[],s:b}", "outputs", "partial", false));
	else if (w->result < 0)
		respond_failure(r, w->result, &w->err);
	else
		respond_json(r, 200, take_ptr(w->list));
}

void files_outputs(struct request *r)
{
	static const struct reading reading = { work_outputs, answer_list, wanted_release };
	request_read(r, &reading, wanted_new(r, NULL));
}

static void work_output(void *data)
{
	struct wanted *w = data;
	w->result = given_open(w->config, w->id, w->path, &w->output, &w->err);
	w->is_inline = w->is_inline && w->result >= 0 && preview_is_safe(w->output.type);
}

void files_output(struct request *r)
{
	static const struct reading reading = { work_output, answer_file, wanted_release };
	request_read(r, &reading, wanted_new(r, r->rest));
}

/* Images that roots are made of: of a runtime's own tree, or of nothing but the plan's directories and links where the host's /usr is
 * shown. An image is named by what is in it, so that it is imported once; a large one takes several calls. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/proc.h"
#include "executor/engine_parts.h"
#include "runtime/fingerprint.h"
#include "runtime/rootfs.h"

#define SLICE_NS   (5 * NS_PER_SEC) /* of one call */
#define NAME       "localhost/cupel-"
#define NAME_HEX   40
#define LABEL      "LABEL%%20cupel.image%%3D"
#define ANSWER_MAX 65536

struct import {
	const struct curl_api *api; /* borrowed */
	CURLM *multi;
	CURL *easy;
	struct curl_slist *headers;
	char *name;
	struct str head; /* the plan's own part; for a tree the rest follows */
	size_t head_done;
	pid_t tar_pid; /* 0: none */
	int tar_fd;
	uint64_t sent_bytes;
	struct str answer;
};

static void end_tar(struct import *i)
{
	cleanup_fd(&i->tar_fd);
	if (i->tar_pid > 0) {
		(void)kill(i->tar_pid, SIGKILL);
		while (waitpid(i->tar_pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	i->tar_pid = 0;
}

void import_free(struct import *i)
{
	if (!i)
		return;
	if (i->multi && i->easy)
		(void)i->api->multi_remove_handle(i->multi, i->easy);
	if (i->easy)
		i->api->easy_cleanup(i->easy);
	if (i->multi)
		(void)i->api->multi_cleanup(i->multi);
	i->api->slist_free_all(i->headers);
	end_tar(i);
	str_release(&i->head);
	str_release(&i->answer);
	free(i->name);
	free(i);
}

/* The end of tar's output counts only if it succeeded: an engine takes what is cut off for an error. */
static size_t read_tree(struct import *i, char *buffer, size_t room)
{
	int status = 0;
	ssize_t n = read(i->tar_fd, buffer, room);
	if (n > 0)
		return (size_t)n;
	cleanup_fd(&i->tar_fd);
	bool failed = n < 0 || waitpid(i->tar_pid, &status, 0) != i->tar_pid || status != 0;
	i->tar_pid = n < 0 ? i->tar_pid : 0;
	return failed ? CURL_READFUNC_ABORT : 0;
}

static size_t on_room(char *buffer, size_t size, size_t n, void *data)
{
	struct import *i = data;
	size_t room = size * n, left = i->head.length - i->head_done;
	if (left) {
		room = left < room ? left : room;
		memcpy(buffer, i->head.text + i->head_done, room);
		i->head_done += room;
	} else {
		room = i->tar_fd >= 0 ? read_tree(i, buffer, room) : 0;
	}
	i->sent_bytes += room == CURL_READFUNC_ABORT ? 0 : room;
	return room;
}

static size_t on_bytes(char *bytes, size_t size, size_t n, void *data)
{
	struct str *to = data;
	if (to->length + size * n <= ANSWER_MAX)
		str_add_n(to, bytes, size * n);
	return size * n;
}

/* Of a box's places that are made for it, nothing of the tree is shown. */
static int start_tar(struct import *i, const struct rootfs *tree, struct err *err)
{
	static const char *const words[] = { "/usr/bin/tar",           "--create",
					     "--numeric-owner",        "--one-file-system",
					     "--exclude=./dev/*",      "--exclude=./home/*",
					     "--exclude=./lost+found", "--exclude=./proc/*",
					     "--exclude=./run/*",      "--exclude=./sys/*",
					     "--exclude=./tmp",        "--exclude=./var/tmp" };
	CLEANUP_STRV struct strv argv = { 0 };
	for (size_t w = 0; w < sizeof words / sizeof *words; w++)
		strv_add(&argv, words[w]);
	/* Also of a mount that is attached nowhere. */
	strv_addf(&argv, "--directory=/proc/%d/fd/%d", (int)getpid(), tree->fd);
	strv_add(&argv, ".");
	int r = proc_start(argv.v, &i->tar_pid, &i->tar_fd);
	return r < 0 ? err_set(err, ERR_HOST, -r, "start tar: %s", strerrordesc_np(-r)) : 0;
}

/* What tells one image from another: the plan's part, and the state of the tree. */
static int image_name(const struct job *job, const struct str *head, char **ret, struct err *err)
{
	const struct runtime *runtime = job->runtime;
	struct fingerprint f = { 0 };
	char hex[HASH_HEX];
	CLEANUP_HASH struct hash *h = hash_new();
	hash_add(h, head->text, head->length);
	if (runtime->tree && runtime->digest) {
		hash_add(h, runtime->digest, strlen(runtime->digest));
	} else if (runtime->tree) {
		enum depth depth = runtime->tree->is_mounted ? DEPTH_IDENTITY : DEPTH_STAT;
		int r = fingerprint_take(runtime, depth, NULL, &f, err);
		if (r < 0)
			return r;
		hash_add(h, f.hex[depth], strlen(f.hex[depth]));
	}
	hash_end(h, hex);
	*ret = xasprintf(NAME "%.*s", NAME_HEX, hex);
	return 0;
}

static int import_begin(struct executor *x, const struct job *job, struct str *head,
			const char *name, struct err *err)
{
	struct engine *e = x->data;
	const struct curl_api *api = &e->curl;
	static const char end[1024];
	CLEANUP_FREE char *path = xasprintf("/images/create?fromSrc=-&repo=%s&changes=" LABEL "%s",
					    name, job->runtime->tree ? "tree" : "root");
	struct import *i = xcalloc(1, sizeof *i);
	*i = (struct import){ .api = api, .name = xstrdup(name), .head = *head, .tar_fd = -1 };
	*head = (struct str){ 0 };
	e->import = i;
	if (!job->runtime->tree)
		str_add_n(&i->head, end, sizeof end);
	else if (start_tar(i, job->runtime->tree, err) < 0)
		return -err->code;
	i->multi = api->multi_init();
	i->easy = api->easy_init();
	if (!i->multi || !i->easy)
		return err_set(err, ERR_HOST, ENOMEM, "libcurl gives no handle");
	i->headers = api->slist_append(NULL, "Content-Type: application/x-tar");
	i->headers = api->slist_append(i->headers, "Transfer-Encoding: chunked");
	i->headers = api->slist_append(i->headers, "Expect:");
	engine_prepare_easy(x, i->easy, path);
	(void)api->easy_setopt(i->easy, CURLOPT_POST, 1L);
	(void)api->easy_setopt(i->easy, CURLOPT_HTTPHEADER, i->headers);
	(void)api->easy_setopt(i->easy, CURLOPT_READFUNCTION, on_room);
	(void)api->easy_setopt(i->easy, CURLOPT_READDATA, i);
	(void)api->easy_setopt(i->easy, CURLOPT_WRITEFUNCTION, on_bytes);
	(void)api->easy_setopt(i->easy, CURLOPT_WRITEDATA, &i->answer);
	(void)api->multi_add_handle(i->multi, i->easy);
	return 0;
}

/* The engine's answer is a line of JSON a step; one of them is an error. */
static int import_result(struct executor *x, struct import *i, CURLcode code, struct err *err)
{
	long status = 0;
	const char *failed = strstr(str_text(&i->answer), "\"error\"");
	if (code == CURLE_ABORTED_BY_CALLBACK)
		return err_set(err, ERR_HOST, EIO, "the runtime's tree could not be read");
	if (code != CURLE_OK)
		return engine_unreached(x, i->easy, code, err);
	(void)i->api->easy_getinfo(i->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200 || failed)
		return err_set(err, ERR_HOST, EIO,
			       "import an image: the engine answers %ld: %.300s", status,
			       failed ? failed : str_text(&i->answer));
	return 0;
}

static int import_go_on(struct executor *x, struct err *err)
{
	struct engine *e = x->data;
	struct import *i = e->import;
	uint64_t until_ns = clock_monotonic_ns() + SLICE_NS;
	int running = 1, left = 0;
	while (running && clock_monotonic_ns() < until_ns) {
		if (i->api->multi_perform(i->multi, &running) != CURLM_OK)
			return err_set(err, ERR_HOST, EIO, "import an image");
		if (running)
			(void)i->api->multi_poll(i->multi, NULL, 0, 100, NULL);
	}
	if (running)
		return err_set(err, ERR_HOST, EAGAIN,
			       "the runtime's image is on its way to the engine: %llu MiB so far",
			       (unsigned long long)(i->sent_bytes >> 20));
	const CURLMsg *msg = i->api->multi_info_read(i->multi, &left);
	int r = import_result(x, i, msg ? msg->data.result : CURLE_RECV_ERROR, err);
	import_free(i);
	e->import = NULL;
	return r;
}

static int is_there(struct executor *x, const char *name, struct err *err)
{
	CLEANUP_FREE char *path = xasprintf("/images/%s/json", name);
	CLEANUP_ANSWER struct answer a = { 0 };
	int r = engine_ask(x, &(struct question){ "GET", path, NULL, 0 }, &a, err);
	if (r < 0)
		return r;
	if (a.status == 404)
		return 0;
	return a.status == 200 ? 1 : engine_refused(&a, "look for an image", EIO, err);
}

int engine_image(struct executor *x, const struct job *job, char **ret_name, struct err *err)
{
	struct engine *e = x->data;
	CLEANUP_STR struct str head = { 0 };
	CLEANUP_FREE char *name = e->import ? xstrdup(e->import->name) : NULL;
	int r = 0;
	if (!name) {
		r = root_tar(job->plan, job->runtime->tree ? job->runtime->tree->fd : -1, &head,
			     err);
		if (r >= 0)
			r = image_name(job, &head, &name, err);
		if (r >= 0)
			r = is_there(x, name, err);
		if (r == 0)
			r = import_begin(x, job, &head, name, err);
	}
	if (r >= 0 && e->import)
		r = import_go_on(x, err);
	if (r < 0 && r != -EAGAIN && e->import) {
		import_free(e->import);
		e->import = NULL;
	}
	if (r < 0)
		return r;
	*ret_name = take_ptr(name);
	return 0;
}

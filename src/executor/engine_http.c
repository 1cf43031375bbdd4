/* Questions to an engine over its unix socket. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"
#include "executor/engine_parts.h"

#define CONNECT_MS    2000L
#define CALL_MS       8000L
#define ANSWER_MAX    ((size_t)16 << 20)
#define API_MINOR_MAX 999

void answer_release(struct answer *a)
{
	json_decref(a->body);
	*a = (struct answer){ 0 };
}

static size_t on_bytes(char *bytes, size_t size, size_t n, void *data)
{
	struct str *to = data;
	if (to->length + size * n > ANSWER_MAX)
		return 0;
	str_add_n(to, bytes, size * n);
	return size * n;
}

static size_t on_header(char *bytes, size_t size, size_t n, void *data)
{
	static const char podmans[] = "libpod-api-version:", api[] = "api-version:",
			  server[] = "server:";
	struct answer *a = data;
	if (size * n > sizeof podmans && strncasecmp(bytes, podmans, sizeof podmans - 1) == 0)
		a->is_podmans = true;
	if (size * n > sizeof api && strncasecmp(bytes, api, sizeof api - 1) == 0) {
		size_t from = sizeof api - 1;
		while (from < size * n && bytes[from] == ' ')
			from++;
		(void)snprintf(a->api, sizeof a->api, "%.*s", (int)strcspn(bytes + from, "\r\n"),
			       bytes + from);
	}
	/* "Docker/20.10.24 (linux)", "Libpod/4.3.1 (linux)" */
	const char *slash = size * n > sizeof server ? memchr(bytes, '/', size * n) : NULL;
	if (slash && strncasecmp(bytes, server, sizeof server - 1) == 0) {
		size_t length = 0, room = size * n - (size_t)(slash + 1 - bytes);
		while (length < room && !strchr(" \r\n", slash[1 + length]))
			length++;
		(void)snprintf(a->server, sizeof a->server, "%.*s", (int)length, slash + 1);
	}
	return size * n;
}

void engine_prepare_easy(struct executor *x, CURL *easy, const char *path)
{
	const struct engine *e = x->data;
	const struct curl_api *api = &e->curl;
	CLEANUP_FREE char *url = xasprintf("http://engine%s%s", e->prefix, path);
	(void)api->easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH,
			       pairs_get(&x->settings->options, "socket"));
	(void)api->easy_setopt(easy, CURLOPT_URL, url);
	(void)api->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	(void)api->easy_setopt(easy, CURLOPT_PROXY, "");
	(void)api->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
}

int engine_unreached(struct executor *x, CURL *easy, CURLcode code, struct err *err)
{
	const struct curl_api *api = &((struct engine *)x->data)->curl;
	const char *socket = pairs_get(&x->settings->options, "socket");
	long number = 0;
	(void)api->easy_getinfo(easy, CURLINFO_OS_ERRNO, &number);
	if (number == EACCES || number == EPERM)
		return err_set(
			err, ERR_HOST, EACCES,
			"the engine's socket %s is not ours to use. Remedy: run as a user who may, "
			"such as a member of its group",
			socket);
	return err_set(err, ERR_HOST, EAGAIN, "the engine at %s does not answer: %s", socket,
		       number ? strerrordesc_np((int)number) : api->easy_strerror(code));
}

static void set_question(struct engine *e, const struct question *q, const char *text,
			 struct curl_slist *headers)
{
	const struct curl_api *api = &e->curl;
	(void)api->easy_setopt(e->easy, CURLOPT_TIMEOUT_MS, q->wait_ms ? q->wait_ms : CALL_MS);
	(void)api->easy_setopt(e->easy, CURLOPT_CUSTOMREQUEST, q->method);
	(void)api->easy_setopt(e->easy, CURLOPT_HTTPHEADER, headers);
	if (text || strcmp(q->method, "POST") == 0) {
		(void)api->easy_setopt(e->easy, CURLOPT_POSTFIELDS, text ? text : "");
		(void)api->easy_setopt(e->easy, CURLOPT_POSTFIELDSIZE,
				       (long)(text ? strlen(text) : 0));
	}
}

static int ask(struct executor *x, const struct question *q, struct answer *ret, struct err *err)
{
	struct engine *e = x->data;
	const struct curl_api *api = &e->curl;
	CLEANUP_STR struct str body = { 0 };
	CLEANUP_FREE char *text = q->body ? json_dumps(q->body, JSON_COMPACT) : NULL;
	struct answer answer = { 0 };
	struct curl_slist *headers = api->slist_append(NULL, "Content-Type: application/json");
	api->easy_reset(e->easy);
	engine_prepare_easy(x, e->easy, q->path);
	set_question(e, q, text, headers);
	(void)api->easy_setopt(e->easy, CURLOPT_WRITEFUNCTION, on_bytes);
	(void)api->easy_setopt(e->easy, CURLOPT_WRITEDATA, &body);
	(void)api->easy_setopt(e->easy, CURLOPT_HEADERFUNCTION, on_header);
	(void)api->easy_setopt(e->easy, CURLOPT_HEADERDATA, &answer);
	CURLcode code = api->easy_perform(e->easy);
	api->slist_free_all(headers);
	if (code != CURLE_OK)
		return engine_unreached(x, e->easy, code, err);
	(void)api->easy_getinfo(e->easy, CURLINFO_RESPONSE_CODE, &answer.status);
	answer.body = json_loadb(str_text(&body), body.length, 0, NULL);
	*ret = answer;
	return 0;
}

void engine_speak(struct engine *e, unsigned minor)
{
	(void)snprintf(e->prefix, sizeof e->prefix, "/v1.%u", minor);
}

/* The n of "1.n"; 0 if it is nothing of the kind. */
static unsigned minor_of(const char *version)
{
	uint64_t minor = 0;
	if (!str_starts(version, "1.") || num_u64(version + 2, API_MINOR_MAX, &minor) < 0)
		return 0;
	return (unsigned)minor;
}

/* Once for each executor that is opened. True if another version is spoken from now on. */
static bool settle_version(struct executor *x)
{
	struct engine *e = x->data;
	CLEANUP_ANSWER struct answer a = { 0 };
	struct err unused = { 0 };
	e->is_settled = true;
	e->prefix[0] = '\0'; /* whoever speaks no version is told which there are */
	int r = ask(x, &(struct question){ "GET", "/version", NULL, 0 }, &a, &unused);
	unsigned least = r < 0 ? 0 : minor_of(engine_text(a.body, "MinAPIVersion"));
	engine_speak(e, least > ENGINE_API ? least : ENGINE_API);
	return least > ENGINE_API;
}

int engine_ask(struct executor *x, const struct question *q, struct answer *ret, struct err *err)
{
	const struct engine *e = x->data;
	int r = ask(x, q, ret, err);
	/* A version that is too old is one of many bad requests, and only the words tell them apart. */
	if (r < 0 || ret->status != 400 || e->is_settled || !settle_version(x))
		return r;
	answer_release(ret);
	return ask(x, q, ret, err);
}

int engine_refused(const struct answer *a, const char *what, int code, struct err *err)
{
	const char *words = engine_text(a->body, "message");
	if (a->status == 404)
		code = ENOENT;
	if (a->status == 503 || a->status == 429)
		code = EAGAIN;
	return err_set(err, ERR_HOST, code, "%s: the engine answers %ld%s%s", what, a->status,
		       words[0] ? ": " : "", words);
}

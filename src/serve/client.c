/* Whom to ask, and calls with one answer. */
#include "serve/client.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/path.h"
#include "serve/client_parts.h"

#define CALL_MS   60000L
#define ERROR_MAX 65536 /* of what a refusal says */
#define TOKEN_MAX 500

void client_free(struct client *c)
{
	if (!c)
		return;
	if (c->multi)
		(void)c->api.multi_cleanup(c->multi);
	if (c->easy)
		c->api.easy_cleanup(c->easy);
	free(c->socket);
	free(c->base);
	free(c->token);
	free(c->where);
	free(c);
}

const char *client_where(const struct client *c)
{
	return c->where;
}

/* 1 if somebody listens on it. */
static int probe_socket(const char *path, struct err *err)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	if (strlen(path) > SERVICE_SOCKET_MAX)
		return err_caller(err, "the path of the socket, %.200s, is too long", path);
	(void)snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
	CLEANUP_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_errno(err, "make a socket");
	if (connect(fd, (const struct sockaddr *)&at, sizeof at) == 0)
		return 1;
	return err_set(err, ERR_HOST, EHOSTDOWN, "no service answers on %s: %s", path,
		       strerrordesc_np(errno));
}

static bool is_header_text(const char *text, size_t max)
{
	for (const char *c = text; *c; c++)
		if (*c < 0x21 || *c > 0x7e)
			return false;
	return *text && strlen(text) <= max;
}

static int take_url(struct client *c, const char *url, struct err *err)
{
	const char *host = strstr(url, "://") + 3;
	const char *token = getenv("CUPEL_TOKEN");
	size_t length = strlen(url);
	while (length && url[length - 1] == '/')
		length--;
	c->base = xstrndup(url, length);
	if (!is_header_text(c->base, 300) || strpbrk(host, "@?#") || !*host ||
	    memchr(host, '/', strlen(c->base) - (size_t)(host - url)))
		return err_caller(
			err, "CUPEL_SERVICE: '%.200s' is not of the form http://HOST:PORT", url);
	if (!token || !*token)
		return 0;
	if (!is_header_text(token, TOKEN_MAX))
		return err_caller(err, "CUPEL_TOKEN is not what `cupel token create` prints");
	c->token = xstrdup(token);
	return 0;
}

/* 1 if it is to be asked. */
static int find_service(struct client *c, const struct config *config, struct err *err)
{
	const char *said = getenv("CUPEL_SERVICE");
	bool is_said = said && *said;
	if (is_said && str_eq(said, "none"))
		return 0;
	if (is_said && (str_starts(said, "http://") || str_starts(said, "https://"))) {
		int r = take_url(c, said, err);
		return r < 0 ? r : 1;
	}
	if (is_said && said[0] != '/')
		return err_caller(
			err,
			"CUPEL_SERVICE: '%.200s' is neither an absolute path, nor http://HOST:PORT, nor none",
			said);
	c->socket = is_said ? xstrdup(said) : config_service_socket(config);
	c->base = xstrdup("http://localhost");
	int r = probe_socket(c->socket, err);
	return r < 0 && !is_said ? 0 : r;
}

bool client_is_here(void)
{
	const char *said = getenv("CUPEL_SERVICE");
	return !said || !strstr(said, "://");
}

int client_open(const struct config *config, struct client **ret, struct err *err)
{
	CLEANUP_CLIENT struct client *c = xcalloc(1, sizeof *c);
	int r = find_service(c, config, err);
	if (r <= 0)
		return r;
	c->where = xstrdup(c->socket ? c->socket : c->base);
	r = curl_api_load(&c->api, err);
	if (r < 0)
		return r;
	c->easy = c->api.easy_init();
	if (!c->easy)
		return err_set(err, ERR_HOST, ENOMEM, "libcurl cannot begin");
	*ret = take_ptr(c);
	return 1;
}

char *client_escape(const char *text)
{
	CLEANUP_STR struct str made = { 0 };
	str_add(&made, "");
	for (const char *c = text; *c; c++)
		if (isalnum((unsigned char)*c) || strchr("-._~", *c))
			str_add_n(&made, c, 1);
		else
			str_addf(&made, "%%%02X", (unsigned char)*c);
	return str_take(&made);
}

void client_add_header(struct client *c, struct curl_slist **list, const char *line)
{
	struct curl_slist *longer = c->api.slist_append(*list, line);
	if (longer) /* without memory the request is refused for want of it */
		*list = longer;
}

int client_prepare(struct client *c, CURL *easy, const char *path, struct curl_slist **ret_headers,
		   struct err *err)
{
	const struct curl_api *api = &c->api;
	CLEANUP_FREE char *url = xasprintf("%s%s", c->base, path);
	CLEANUP_FREE char *authorization =
		c->token ? xasprintf("Authorization: Bearer %s", c->token) : NULL;
	if (authorization)
		client_add_header(c, ret_headers, authorization);
	client_add_header(c, ret_headers, "Expect:");
	/* No proxy, no redirect and no other protocol: the answer is from where we asked. */
	if (api->easy_setopt(easy, CURLOPT_URL, url) != CURLE_OK ||
	    api->easy_setopt(easy, CURLOPT_PROXY, "") != CURLE_OK ||
	    api->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) != CURLE_OK ||
	    api->easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L) != CURLE_OK ||
	    api->easy_setopt(easy, CURLOPT_USERAGENT, "cupel/" CUPEL_VERSION) != CURLE_OK ||
	    api->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CLIENT_CONNECT_MS) !=
		    CURLE_OK ||
	    (c->socket &&
	     api->easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, c->socket) != CURLE_OK) ||
	    api->easy_setopt(easy, CURLOPT_HTTPHEADER, *ret_headers) != CURLE_OK)
		return err_set(err, ERR_HOST, EOPNOTSUPP, "this libcurl can't ask %s", c->where);
	return 0;
}

int client_unreachable(const struct client *c, CURLcode code, struct err *err)
{
	return err_set(err, ERR_HOST, EHOSTDOWN, "the service at %s does not answer: %s", c->where,
		       c->api.easy_strerror(code));
}

static int code_of(long status)
{
	static const struct {
		long status;
		int code;
	} known[] = { { 400, EINVAL }, { 401, EACCES }, { 403, EPERM },  { 404, ENOENT },
		      { 409, EEXIST }, { 413, E2BIG },  { 422, EINVAL }, { 429, EDQUOT },
		      { 503, EAGAIN }, { 504, EAGAIN } };
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (known[i].status == status)
			return known[i].code;
	return status < 500 ? EINVAL : EIO;
}

int client_refused(const struct client *c, long status, const char *body, size_t length,
		   struct err *err)
{
	CLEANUP_JSON json_t *told = json_loadb(body ? body : "", body ? length : 0, 0, NULL);
	const json_t *error = json_object_get(told, "error");
	const char *message = json_string_value(json_object_get(error, "message"));
	const char *remedy = json_string_value(json_object_get(error, "remedy"));
	enum err_kind kind = status < 500 && status != 429 ? ERR_CALLER : ERR_HOST;
	if (!message)
		return err_set(err, kind, code_of(status),
			       "the service at %s answers with status %ld", c->where, status);
	if (status == 401 && !c->socket && !c->token)
		return err_set(
			err, kind, EACCES,
			"the service at %s wants a token: set CUPEL_TOKEN; `cupel token create NAME` on its host makes one",
			c->where);
	return err_set(err, kind, code_of(status), "%s%s%s", message, remedy ? "; " : "",
		       remedy ? remedy : "");
}

struct receiving {
	struct client *client;
	const struct client_request *request;
	struct str body;
	int failed; /* negative errno of the sink, or -E2BIG */
};

static void receiving_release(struct receiving *r)
{
	str_release(&r->body);
}

static size_t on_bytes(char *bytes, size_t size, size_t n, void *data)
{
	struct receiving *r = data;
	long status = 0;
	(void)r->client->api.easy_getinfo(r->client->easy, CURLINFO_RESPONSE_CODE, &status);
	if (r->request->sink && status < 300) {
		r->failed = r->request->sink(r->request->data, bytes, size * n);
		return r->failed < 0 ? 0 : size * n;
	}
	size_t max = status < 300 ? CLIENT_BODY_MAX : ERROR_MAX;
	if (r->body.length + size * n > max)
		r->failed = -E2BIG;
	else
		str_add_n(&r->body, bytes, size * n);
	return r->failed < 0 ? 0 : size * n;
}

/* `text` and `list` have to last as long as the request. */
static int set_request(struct client *c, const struct client_request *q, char **text,
		       struct curl_slist **list, struct err *err)
{
	const struct curl_api *api = &c->api;
	CURLcode code = CURLE_OK;
	if (q->key && !is_header_text(q->key, 200))
		return err_caller(
			err,
			"a key is 1 to 200 letters, digits and marks of ASCII, without blanks");
	CLEANUP_FREE char *key = q->key ? xasprintf("Idempotency-Key: %s", q->key) : NULL;
	if (key)
		client_add_header(c, list, key);
	if (q->body)
		client_add_header(c, list, "Content-Type: application/json");
	int r = client_prepare(c, c->easy, q->path, list, err);
	if (r < 0)
		return r;
	*text = q->body ? json_dumps_short(q->body, JSON_COMPACT) : xstrdup("");
	if (q->method) {
		code = api->easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE, (long)strlen(*text));
		if (code == CURLE_OK)
			code = api->easy_setopt(c->easy, CURLOPT_POSTFIELDS, *text);
		if (code == CURLE_OK)
			code = api->easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, q->method);
	}
	if (code == CURLE_OK && !q->sink)
		code = api->easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, CALL_MS);
	return code == CURLE_OK ? 0 : client_unreachable(c, code, err);
}

static int perform(struct client *c, struct receiving *to, long *ret_status, struct err *err)
{
	const struct curl_api *api = &c->api;
	CURLcode code = api->easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_bytes);
	if (code == CURLE_OK)
		code = api->easy_setopt(c->easy, CURLOPT_WRITEDATA, (void *)to);
	if (code == CURLE_OK)
		code = api->easy_perform(c->easy);
	if (to->failed == -E2BIG)
		return err_set(err, ERR_HOST, E2BIG,
			       "the service at %s answers more than %zu bytes", c->where,
			       CLIENT_BODY_MAX);
	if (to->failed < 0)
		return err_set(err, ERR_HOST, -to->failed, "what the service sends: %s",
			       strerrordesc_np(-to->failed));
	if (code != CURLE_OK)
		return client_unreachable(c, code, err);
	(void)api->easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, ret_status);
	return 0;
}

int client_call(struct client *c, const struct client_request *q, json_t **ret, struct err *err)
{
	CLEANUP(receiving_release) struct receiving to = { .client = c, .request = q };
	CLEANUP_FREE char *text = NULL;
	struct curl_slist *list = NULL;
	long status = 0;
	int r = set_request(c, q, &text, &list, err);
	if (r >= 0)
		r = perform(c, &to, &status, err);
	c->api.easy_reset(c->easy); /* keeps the connection */
	c->api.slist_free_all(list);
	if (r < 0)
		return r;
	if (status >= 300 || status < 200)
		return client_refused(c, status, to.body.text, to.body.length, err);
	if (q->sink || !ret)
		return 0;
	json_t *answer =
		json_loadb(str_text(&to.body), to.body.length, JSON_REJECT_DUPLICATES, NULL);
	if (!answer)
		return err_set(err, ERR_HOST, EPROTO,
			       "what answers at %s is no service of cupel: its answer is no JSON",
			       c->where);
	*ret = answer;
	return 0;
}

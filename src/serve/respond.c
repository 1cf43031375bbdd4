/* Answers, each with what keeps a browser from making more of it than it is. */
#include <errno.h>
#include <string.h>

#include "serve/http_parts.h"
#include "serve/range.h"

#define POLICY_SANDBOX "sandbox; default-src 'none'"
#define POLICY_PAGE                                                                                \
	"sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; " \
	"form-action 'none'; frame-ancestors 'none'"

static void add(struct MHD_Response *response, const char *name, const char *value)
{
	(void)MHD_add_response_header(response, name, value);
}

void respond_secure(struct MHD_Response *response, const char *policy)
{
	add(response, "Content-Security-Policy", policy);
	add(response, "X-Content-Type-Options", "nosniff");
	add(response, "Referrer-Policy", "no-referrer");
	add(response, "Cross-Origin-Opener-Policy", "same-origin");
	add(response, "Cross-Origin-Resource-Policy", "same-origin");
}

void respond_header(struct request *r, const char *name, const char *value)
{
	if (r->response)
		add(r->response, name, value);
}

struct held {
	struct http *http; /* borrowed */
	char *text;        /* owned */
	size_t length;
};

static void held_free(void *data)
{
	struct held *held = data;
	held->http->answer_bytes -= held->length;
	free(held->text);
	free(held);
}

/* Clients that ask for much and take it slowly leave us our memory; what is small always has room. */
static struct MHD_Response *heap_response(const struct request *r, char *taken, size_t length,
					  const char *type, const char *policy)
{
	struct held *held = xcalloc(1, sizeof *held);
	*held = (struct held){ r->connection->door->http, taken, length };
	held->http->answer_bytes += length;
	struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
		length, taken, held_free, held);
	respond_secure(response, policy);
	add(response, "Content-Type", type);
	add(response, "Cache-Control", "no-store");
	return response;
}

static bool refuse_long(struct request *r, size_t length)
{
	static const struct problem crowded = { 503, "unavailable", "ask again in a moment" };
	if (length <= HTTP_BODY_SMALL ||
	    r->connection->door->http->answer_bytes + length <= HTTP_ANSWERS)
		return false;
	respond_problem(r, &crowded, "too many long answers are being read");
	respond_header(r, "Retry-After", "2");
	return true;
}

void respond_json(struct request *r, unsigned status, json_t *taken)
{
	CLEANUP_JSON json_t *value = taken;
	CLEANUP_FREE char *text = json_dumps_short(value, JSON_COMPACT);
	size_t length = strlen(text);
	if (!refuse_long(r, length))
		respond_with(r, status,
			     heap_response(r, take_ptr(text), length, "application/json",
					   RESPOND_POLICY));
}

void respond_bytes(struct request *r, unsigned status, const char *type, struct str *taken)
{
	size_t length = taken->length;
	if (refuse_long(r, length))
		return;
	str_add(taken, "");
	respond_with(r, status, heap_response(r, str_take(taken), length, type, RESPOND_POLICY));
}

void respond_page(struct request *r, struct str *taken)
{
	size_t length = taken->length;
	if (refuse_long(r, length))
		return;
	str_add(taken, "");
	respond_with(
		r, 200,
		heap_response(r, str_take(taken), length, "text/html; charset=utf-8", POLICY_PAGE));
}

/* One line, whoever chose the words. */
void respond_problem(struct request *r, const struct problem *p, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	CLEANUP_FREE char *text = xvasprintf(format, args);
	va_end(args);
	str_clean(text);
	respond_json(r, p->status,
		     json_pack("{s:{s:s,s:o,s:s?}}", "error", "code", p->code, "message",
			       json_text(text), "remedy", p->remedy));
}

void respond_failure(struct request *r, int code, const struct err *err)
{
	static const struct {
		int code;
		struct problem problem;
	} known[] = {
		{ ENOENT, { 404, "not-found", NULL } },
		{ ESRCH, { 404, "not-found", NULL } },
		{ EPERM, { 403, "forbidden", NULL } },
		{ EACCES, { 403, "forbidden", NULL } },
		{ EEXIST, { 409, "conflict", NULL } },
		{ EBUSY, { 409, "not-ended", NULL } },
		{ ESTALE, { 409, "changed", NULL } },
		{ EDQUOT, { 429, "too-many-queued", "wait until some of yours have ended" } },
		{ ESHUTDOWN, { 503, "draining", "ask again when the service is back" } },
		{ EAGAIN, { 503, "unavailable", "ask again in a moment" } },
		{ ENOSPC, { 507, "no-space", NULL } },
	};
	static const struct problem caller = { 400, "invalid", NULL }, host = { 500, "host", NULL };
	const char *text = err->text[0] ? err->text : strerrordesc_np(-code);
	const struct problem *p = err->kind == ERR_CALLER ? &caller : &host;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (known[i].code == -code)
			p = &known[i].problem;
	respond_problem(r, p, "%s", text);
	if (p->status == 503 || p->status == 429)
		respond_header(r, "Retry-After", p->status == 503 ? "2" : "10");
}

/* Whether the client has it already. Weak tags are not ours, but proxies make them. */
static bool is_same(const char *header, const char *etag)
{
	if (!header)
		return false;
	const char *found = strstr(header, etag);
	size_t n = strlen(etag);
	return str_eq(header, "*") ||
	       (found && found > header && found[-1] == '"' && found[n] == '"');
}

static void add_etag(struct MHD_Response *response, const char *etag)
{
	CLEANUP_FREE char *quoted = xasprintf("\"%s\"", etag);
	add(response, "ETag", quoted);
}

static struct MHD_Response *empty_response(const char *policy)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
	respond_secure(response, policy);
	return response;
}

void respond_static(struct request *r, const char *type, const char *text, const char *etag)
{
	bool is_known = etag && is_same(request_header(r, "If-None-Match"), etag);
	struct MHD_Response *response =
		is_known ? empty_response(RESPOND_POLICY)
			 : MHD_create_response_from_buffer(strlen(text), (void *)text,
							   MHD_RESPMEM_PERSISTENT);
	if (!is_known) {
		respond_secure(response, RESPOND_POLICY);
		add(response, "Content-Type", type);
	}
	add(response, "Cache-Control", "no-cache");
	if (etag)
		add_etag(response, etag);
	respond_with(r, is_known ? 304 : 200, response);
}

/* RFC 6266: bytes that need it are escaped, and nothing ends the header. */
static void add_filename(struct MHD_Response *response, const char *name)
{
	CLEANUP_STR struct str s = { 0 };
	str_add(&s, "attachment; filename*=UTF-8''");
	for (const char *c = name; *c; c++) {
		bool is_plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
				(*c >= '0' && *c <= '9') || strchr("._-", *c);
		str_addf(&s, is_plain ? "%c" : "%%%02X", (unsigned char)*c);
	}
	add(response, "Content-Disposition", str_text(&s));
}

void respond_file(struct request *r, const struct respond_file *f)
{
	CLEANUP_FD int fd = f->fd;
	const char *policy = f->is_sandboxed ? POLICY_SANDBOX : RESPOND_POLICY;
	const char *unless = request_header(r, "If-Range");
	uint64_t first = 0, length = 0;
	bool is_known = is_same(request_header(r, "If-None-Match"), f->etag);
	enum range range =
		range_parse(unless && !is_same(unless, f->etag) ? NULL : request_header(r, "Range"),
			    f->size, &first, &length);
	char content_range[80];
	struct MHD_Response *response = NULL;
	if (is_known || range == RANGE_NONE)
		response = empty_response(policy);
	else if (length == 0)
		response = empty_response(policy);
	else
		response = MHD_create_response_from_fd_at_offset64(length, take_fd(&fd), first);
	if (!is_known && range != RANGE_NONE && length)
		respond_secure(response, policy);
	add(response, "Accept-Ranges", "bytes");
	add(response, "Cache-Control", "private, no-cache");
	add_etag(response, f->etag);
	if (range == RANGE_NONE)
		(void)snprintf(content_range, sizeof content_range, "bytes */%llu",
			       (unsigned long long)f->size);
	else
		(void)snprintf(content_range, sizeof content_range, "bytes %llu-%llu/%llu",
			       (unsigned long long)first, (unsigned long long)(first + length - 1),
			       (unsigned long long)f->size);
	if (!is_known && range != RANGE_ALL)
		add(response, "Content-Range", content_range);
	if (!is_known)
		add(response, "Content-Type", f->type);
	if (f->filename)
		add_filename(response, f->filename);
	respond_with(r,
		     is_known              ? 304
		     : range == RANGE_NONE ? 416
		     : range == RANGE_PART ? 206
					   : 200,
		     response);
}

/* The life of a request: what it asks for, who asks and whether that may be, its body, its handler, its answer. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "serve/gate.h"
#include "serve/http_parts.h"
#include "serve/route.h"
#include "serve/token.h"

#define DRAINED_MAX (4 * REQUEST_BODY_MAX) /* of a body that is too large anyway */

void *request_begin(void *data, const char *target, struct MHD_Connection *mhd)
{
	struct door *door = data;
	struct request *r = xcalloc(1, sizeof *r);
	r->context = &door->http->context;
	r->mhd = mhd;
	r->connection =
		MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
	(void)url_parse(target, &r->url, &r->refused);
	return r;
}

const char *request_header(const struct request *r, const char *name)
{
	return MHD_lookup_connection_value(r->mhd, MHD_HEADER_KIND, name);
}

/* A proxy in front of the service may believe the first of two such headers and the service the second. */
static const char *const single_headers[] = {
	"Host",  "Content-Length", "Transfer-Encoding", "Content-Type",  "Authorization",  "Origin",
	"Range", "Sec-Fetch-Site", "If-Range",          "Last-Event-ID", "Idempotency-Key"
};
#define N_SINGLE (sizeof single_headers / sizeof *single_headers)

struct head_check {
	bool seen[N_SINGLE];
	const char *wrong; /* borrowed: a constant text; NULL if nothing is wrong */
	const char *name;  /* borrowed: the header that is repeated, or NULL */
};

static enum MHD_Result check_header(void *data, enum MHD_ValueKind kind, const char *name,
				    size_t name_length, const char *value, size_t value_length)
{
	static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	struct head_check *c = data;
	if (!name_length || strspn(name, token) != name_length)
		c->wrong = "the name of a header has a space or another character that is not "
			   "allowed";
	for (size_t i = 0; i < value_length; i++)
		if (((unsigned char)value[i] < ' ' && value[i] != '\t') || value[i] == 0x7f)
			c->wrong = "a header has a control character";
	for (size_t i = 0; i < N_SINGLE; i++) {
		if (strcasecmp(name, single_headers[i]) != 0)
			continue;
		if (c->seen[i])
			c->name = single_headers[i];
		c->seen[i] = true;
	}
	return MHD_YES;
}

/* RFC 9112, section 6: where a body ends must not be a matter of opinion. libmicrohttpd believes one of two answers. */
static const char *framing_fault(const struct request *r, const char *version)
{
	const char *length = request_header(r, "Content-Length");
	const char *encoding = request_header(r, "Transfer-Encoding");
	uint64_t bytes = 0;
	if (length && encoding)
		return "the request has both Content-Length and Transfer-Encoding";
	if (length && num_u64(length, INT64_MAX, &bytes) < 0)
		return "Content-Length is not a number of bytes";
	if (encoding && (strcasecmp(encoding, "chunked") != 0 || !str_eq(version, "HTTP/1.1")))
		return "the only Transfer-Encoding that this service reads is chunked, in HTTP/1.1";
	return NULL;
}

/* The connection ends with the answer: where the next request would begin is not known. */
static bool refuse_head(struct request *r, const char *version)
{
	static const struct problem malformed = { 400, "malformed", NULL };
	struct head_check c = { 0 };
	(void)MHD_get_connection_values_n(r->mhd, MHD_HEADER_KIND, check_header, &c);
	if (c.name)
		respond_problem(r, &malformed, "the request has more than one %s header", c.name);
	else if (c.wrong || (c.wrong = framing_fault(r, version)))
		respond_problem(r, &malformed, "%s", c.wrong);
	else
		return false;
	respond_header(r, "Connection", "close");
	return true;
}

static bool refuse_sender(struct request *r)
{
	static const struct problem host = { 421, "wrong-host",
					     "use the address itself, or localhost" },
				    site = { 403, "cross-site", NULL };
	const char *host_said = request_header(r, "Host");
	if (r->connection->door->is_tcp && !auth_host_ok(host_said)) {
		respond_problem(r, &host, "this service is not known by that name");
		return true;
	}
	if (r->route->method == METHOD_POST &&
	    !auth_origin_ok(request_header(r, "Origin"), request_header(r, "Sec-Fetch-Site"),
			    host_said)) {
		respond_problem(r, &site, "a page of another site may not ask for this");
		return true;
	}
	return false;
}

/* Who shows no token is known by his address, so that one of them does not use up what all may ask. */
static void name_stranger(struct request *r)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(r->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	const struct sockaddr *from = info ? info->client_addr : NULL;
	char text[INET6_ADDRSTRLEN] = "";
	if (from && from->sa_family == AF_INET)
		(void)inet_ntop(AF_INET, &((const struct sockaddr_in *)from)->sin_addr, text,
				sizeof text);
	else if (from && from->sa_family == AF_INET6)
		(void)inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)from)->sin6_addr, text,
				sizeof text);
	r->who = (struct identity){ 0 };
	(void)snprintf(r->who.name, sizeof r->who.name, "from:%s", text);
}

static bool identify(struct request *r)
{
	static const struct problem
		unknown = { 401, "unauthorized", "`cupel token create NAME` makes a token" },
		forbidden = { 403, "forbidden", NULL },
		short_token = { 403, "forbidden",
				"`cupel token create NAME --scope ...` makes a token that has it" };
	const struct door *d = r->connection->door;
	struct err err = { 0 };
	int e = d->is_tcp ? auth_token(d->http->auth, request_header(r, "Authorization"), &r->who,
				       &err)
			  : auth_peer(d->http->auth, r->connection->fd, &r->who, &err);
	if (e < 0)
		name_stranger(r);
	else
		identity_viewer(&r->who, r->context->config, &r->viewer);
	if (r->route->scope == 0)
		return true;
	if (e < 0) {
		respond_problem(r, &unknown, "%s", err.text);
		respond_header(r, "WWW-Authenticate", "Bearer realm=\"cupel\"");
		return false;
	}
	unsigned missing = r->route->scope & ~r->who.scopes;
	if (missing)
		respond_problem(r, d->is_tcp ? &short_token : &forbidden,
				"%s has not the scope '%s', which this needs", r->who.name,
				token_scope_name(missing));
	return !missing;
}

/* Those who may do anything are not counted. */
static bool is_too_often(struct request *r)
{
	static const struct problem often = { 429, "too-many-requests", "ask less often" };
	struct http *h = r->connection->door->http;
	if (r->who.scopes & SCOPE_ADMIN)
		return false;
	char seconds[24];
	uint64_t ns = rates_ask(h->rates, r->who.name, clock_monotonic_ns());
	if (!ns)
		return false;
	respond_problem(r, &often, "%d requests in a second are too many", RATE_PER_SECOND);
	(void)snprintf(seconds, sizeof seconds, "%llu", (unsigned long long)(ns / NS_PER_SEC + 1));
	respond_header(r, "Retry-After", seconds);
	return true;
}

static bool is_too_large(struct request *r)
{
	static const struct problem large = { 413, "too-large", NULL };
	const char *length = request_header(r, "Content-Length");
	uint64_t bytes = 0;
	if (length)
		(void)num_u64(length, INT64_MAX, &bytes); /* refuse_head has seen that it is one */
	if (!r->is_too_large && bytes <= REQUEST_BODY_MAX)
		return false;
	respond_problem(r, &large, "a request has at most %d bytes", REQUEST_BODY_MAX);
	return true;
}

/* Before a body is taken. */
static void look(struct request *r, const char *method, const char *version)
{
	static const struct problem malformed = { 400, "malformed", NULL };
	if (refuse_head(r, version))
		return;
	if (r->refused.code) {
		respond_problem(r, &malformed, "%s", r->refused.text);
		return;
	}
	if (!route_find(r, method) || refuse_sender(r) || !identify(r) || is_too_often(r))
		return;
	(void)is_too_large(r);
}

static enum MHD_Result send_answer(struct request *r)
{
	r->stage = REQUEST_ANSWERED;
	struct MHD_Response *response = take_ptr(r->response);
	enum MHD_Result result = MHD_queue_response(r->mhd, r->status, response);
	MHD_destroy_response(response);
	return result;
}

static void drop_body(struct request *r)
{
	r->connection->door->http->body_bytes -= r->body.length;
	str_release(&r->body);
	r->body = (struct str){ 0 };
}

/* Small bodies always have room: those who send large ones, and slowly, harm only each other. */
static enum MHD_Result take_body(struct request *r, const char *upload, size_t *size)
{
	struct http *h = r->connection->door->http;
	size_t n = *size, length = r->body.length + n;
	*size = 0;
	r->is_too_large = r->is_too_large || length > REQUEST_BODY_MAX;
	r->is_crowded = r->is_crowded ||
			(length > HTTP_BODY_SMALL && h->body_bytes + n > HTTP_BODIES);
	if (r->is_too_large || r->is_crowded) {
		drop_body(r);
		r->drained += n;
		return r->drained > DRAINED_MAX ? MHD_NO : MHD_YES;
	}
	str_add_n(&r->body, upload, n);
	h->body_bytes += n;
	return MHD_YES;
}

static void handle(struct request *r)
{
	static const struct problem ends = { 503, "shutting-down", "ask again in a moment" },
				    crowded = { 503, "unavailable", "ask again in a moment" };
	r->stage = REQUEST_HANDLED;
	connection_is_heard(r->connection);
	if (is_too_large(r))
		return;
	if (r->is_crowded) {
		respond_problem(r, &crowded, "too many large requests are being sent");
		respond_header(r, "Retry-After", "2");
	} else if (r->connection->door->http->is_closing) {
		respond_problem(r, &ends, "the service ends");
	} else {
		gate_handle(r);
	}
}

enum MHD_Result request_answer(void *data, struct MHD_Connection *mhd, const char *url,
			       const char *method, const char *version, const char *upload,
			       size_t *upload_size, void **request)
{
	struct request *r = *request;
	if (!r)
		return MHD_NO;
	if (r->stage == REQUEST_HEAD) {
		r->stage = REQUEST_BODY;
		look(r, method, version);
	} else if (r->stage == REQUEST_BODY && *upload_size) {
		return take_body(r, upload, upload_size);
	} else if (r->stage == REQUEST_BODY) {
		handle(r);
	} else if (r->stage == REQUEST_ANSWERED) {
		*upload_size = 0; /* the rest of a body that was refused */
		return MHD_YES;
	}
	if (r->stage == REQUEST_HANDLED)
		request_must_go_on(r, 0);
	if (r->response)
		return send_answer(r);
	/* Only now: an answer that was there before the handler returned needs no waiting. */
	if (r->is_waiting && !r->is_suspended) {
		MHD_suspend_connection(r->mhd);
		r->is_suspended = true;
	}
	return MHD_YES;
}

static void unwait(struct request *r)
{
	*r->before = r->next;
	if (r->next)
		r->next->before = r->before;
	r->is_waiting = false;
}

void request_wait(struct request *r)
{
	struct http *h = r->connection->door->http;
	if (r->response)
		return;
	r->n_waits++;
	if (r->is_waiting)
		return;
	r->is_waiting = true;
	r->next = h->waiting;
	r->before = &h->waiting;
	if (r->next)
		r->next->before = &r->next;
	h->waiting = r;
}

/* libmicrohttpd calls again and again for a request that is neither answered nor suspended, without a pause. */
void request_must_go_on(struct request *r, unsigned n_waits_before)
{
	static const struct problem host = { 500, "host", NULL };
	if (!r->response && r->n_waits == n_waits_before)
		respond_problem(r, &host, "the service has no answer to this request");
}

void respond_with(struct request *r, unsigned status, struct MHD_Response *taken)
{
	if (r->response)
		MHD_destroy_response(r->response);
	r->response = taken;
	r->status = status;
	if (!r->is_waiting)
		return;
	unwait(r);
	if (!r->is_suspended)
		return;
	r->is_suspended = false;
	MHD_resume_connection(r->mhd);
	http_kick(r->connection->door);
}

void request_end(void *data, struct MHD_Connection *mhd, void **request,
		 enum MHD_RequestTerminationCode why)
{
	struct request *r = *request;
	*request = NULL;
	if (!r)
		return;
	if (r->is_waiting)
		unwait(r);
	if (r->response)
		MHD_destroy_response(r->response);
	if (why == MHD_REQUEST_TERMINATED_COMPLETED_OK)
		connection_listens(r->connection);
	url_release(&r->url);
	drop_body(r);
	free(r->rest);
	free(r);
}

void request_end_all(struct http *h)
{
	static const struct problem ends = { 503, "shutting-down", "ask again in a moment" };
	while (h->waiting) {
		service_forget(h->context.service, h->waiting);
		respond_problem(h->waiting, &ends, "the service ends");
	}
}

/* What the files of the HTTP door share. The only header of the service that includes libmicrohttpd's. */
#pragma once

#include <microhttpd.h>
#include <netinet/in.h>

#include "serve/auth.h"
#include "serve/metrics.h"
#include "serve/rate.h"
#include "serve/request.h"
#include "serve/sse.h"

#define HTTP_CONNECTIONS     8192
#define HTTP_PER_ADDRESS     1024
#define HTTP_PER_USER        1024 /* on the unix socket; the service's own user and root have no limit */
#define HTTP_BODIES          (64 << 20) /* bytes that bodies which are not small may take together */
#define HTTP_ANSWERS         (256 << 20) /* the same for answers that are made in memory */
#define HTTP_BODY_SMALL      (64 << 10)
#define HTTP_POOL            (24 << 10) /* bytes for the head of a request and what is said of it */
#define HTTP_HEAD_SECONDS    30         /* to send a request, and between two */
#define HTTP_STALLED_SECONDS 60         /* without taking a byte of the answer */

/* One way in: the unix socket, or TCP. */
struct door {
	struct http *http; /* borrowed */
	struct MHD_Daemon *daemon;
	sd_event_source *readable, *timer; /* owned */
	bool is_tcp;
};

/* A user who has clients on the unix socket. */
struct peer {
	uid_t uid;
	unsigned n;
};

/* A client. It is in the list of those that have a request to send, oldest first, as long as it has. */
struct connection {
	struct door *door; /* borrowed */
	int fd;            /* borrowed: the library's */
	uint64_t since_ns; /* monotonic */
	bool is_listed, is_counted;
	uid_t uid; /* if it is counted */
	struct connection *next, **before;
};

struct http {
	struct context context;
	struct door doors[2];
	size_t n_doors;
	char *path; /* owned; of the socket that we made; NULL: the manager's */
	struct auth *auth;
	struct rates *rates;
	struct desk *desk;
	struct streams *streams;
	struct children *children;
	struct news *news;
	struct metrics_kept metrics;
	struct connection *sending, **sending_end;
	sd_event_source *late; /* owned */
	struct request *waiting;
	struct peer *peers; /* owned */
	size_t n_peers;
	size_t body_bytes;   /* of all requests */
	size_t answer_bytes; /* that clients have not taken yet */
	bool is_closing;
};

/* http.c: a client was resumed, which the library's descriptor does not tell. */
void http_kick(struct door *d);

/* http_listen.c */
int http_listen_unix(struct http *h, struct err *err);
int http_listen_tcp(const char *text, struct err *err);
/* What the manager passed: the descriptors, -1 for none. */
int http_listen_passed(int *ret_unix, int *ret_tcp, struct err *err);

/* http_connection.c: libmicrohttpd's callbacks. */
void connection_notify(void *data, struct MHD_Connection *mhd, void **socket_context,
		       enum MHD_ConnectionNotificationCode what);
void connection_listens(struct connection *c);  /* it has a request to send, from now on */
void connection_is_heard(struct connection *c); /* it has sent it */
int connection_late(sd_event_source *source, uint64_t usec, void *data);

/* http_request.c: libmicrohttpd's callbacks. */
void *request_begin(void *data, const char *target, struct MHD_Connection *mhd);
enum MHD_Result request_answer(void *data, struct MHD_Connection *mhd, const char *url,
			       const char *method, const char *version, const char *upload,
			       size_t *upload_size, void **request);
void request_end(void *data, struct MHD_Connection *mhd, void **request,
		 enum MHD_RequestTerminationCode why);
/* All that wait are told that the service ends. */
void request_end_all(struct http *h);

/* respond.c */
/* Takes the response; the waiting request goes on. */
void respond_with(struct request *r, unsigned status, struct MHD_Response *taken);
void respond_secure(struct MHD_Response *response, const char *policy);
#define RESPOND_POLICY                                                                             \
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "    \
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

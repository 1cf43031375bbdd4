/* What client.c and client_stream.c share. */
#pragma once

#include "base/curl_api.h"
#include "serve/client.h"

#define CLIENT_CONNECT_MS 10000

struct client {
	struct curl_api api;
	char *socket;                  /* owned or NULL: TCP */
	char *base;                    /* owned; "http://localhost" */
	char *token;                   /* owned or NULL */
	char *where;                   /* owned */
	CURL *easy;                    /* owned; for calls: connections are used again */
	CURLM *multi;                  /* owned or NULL; of streams */
	struct client_stream *streams; /* borrowed: a list */
};

/* What every request has. *ret_headers is the caller's. */
int client_prepare(struct client *c, CURL *easy, const char *path, struct curl_slist **ret_headers,
		   struct err *err);
void client_add_header(struct client *c, struct curl_slist **list, const char *line);
/* A status from 400 on, with the service's words about it. Never 0. */
int client_refused(const struct client *c, long status, const char *body, size_t length,
		   struct err *err);
/* Of the transport. -EHOSTDOWN. */
int client_unreachable(const struct client *c, CURLcode code, struct err *err);

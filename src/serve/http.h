/* The HTTP door: a unix socket whose callers the kernel names and, if configured, TCP with tokens. */
#pragma once

#include "base/err.h"
#include "serve/event.h"
#include "serve/service.h"
#include "spec/config.h"

struct http;

/* All of it borrowed. Listens on what the manager passed (socket activation), else on what the configuration says. */
int http_open(sd_event *event, const struct config *config, struct service *service,
	      struct http **ret, struct err *err);
/* On standard error: where it listens, and where the pages are. */
void http_say(const struct http *h);
/* No new connections; those that wait for an answer get it. */
void http_quiesce(struct http *h);
void http_free(struct http *h);
static inline void http_freep(struct http **h)
{
	http_free(*h);
	*h = NULL;
}

/* Who asks, and what that one may do: by the kernel's word on the unix socket, by a token on TCP. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "serve/identity.h"
#include "spec/config.h"

struct auth;
/* `config` is borrowed. */
struct auth *auth_new(const struct config *config);
void auth_free(struct auth *a);

/* The peer of a connection on the unix socket. */
int auth_peer(struct auth *a, int fd, struct identity *ret, struct err *err);
/* Authorization: the header's value, or NULL. -EACCES with the text. */
int auth_token(struct auth *a, const char *authorization, struct identity *ret, struct err *err);
/* Whether a request that claims to be for `host` is for a service on TCP: an address or localhost, with a port or without. A name could be one
 * that somebody else points here, for a page of his in a browser of ours. */
bool auth_host_ok(const char *host);
/* Whether a request that changes something comes from a page of this service or from no page, by the headers that browsers send: Origin must be
 * http://HOST. Each may be NULL. */
bool auth_origin_ok(const char *origin, const char *fetch_site, const char *host);

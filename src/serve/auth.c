/* Identities. */
#include "serve/auth.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/str.h"
#include "serve/token.h"

#define NAMES_MAX 256
#define PASSWD    "/etc/passwd"
/* Sources of users other than PASSWD, such as LDAP, show no change: users are looked up again after this time. */
#define LOOKUP_NS (10 * NS_PER_SEC)

struct known {
	uid_t uid;
	struct identity who;
};

struct auth {
	const struct config *config; /* borrowed */
	struct known names[NAMES_MAX];
	size_t n_names, at; /* the next to be forgotten */
	struct tokens tokens;
	bool has_tokens;   /* `tokens` is what the file has, and their users are as they are now */
	struct stat seen;  /* of the file that the tokens are from */
	struct stat users; /* of PASSWD when users were last looked up */
	uint64_t looked_up_ns; /* monotonic */
};

struct auth *auth_new(const struct config *config)
{
	struct auth *a = xcalloc(1, sizeof *a);
	a->config = config;
	return a;
}

void auth_free(struct auth *a)
{
	if (!a)
		return;
	tokens_release(&a->tokens);
	free(a);
}

static void name_of(uid_t uid, char ret[IDENTITY_NAME_MAX + 1])
{
	char buffer[4096];
	struct passwd entry = { 0 }, *found = NULL;
	if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) == 0 && found &&
	    strlen(found->pw_name) <= IDENTITY_NAME_MAX &&
	    str_is_utf8(found->pw_name, strlen(found->pw_name)))
		(void)snprintf(ret, IDENTITY_NAME_MAX + 1, "%s", found->pw_name);
	else
		(void)snprintf(ret, IDENTITY_NAME_MAX + 1, "uid:%u", uid);
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* A user who was removed loses access with the next request, and the next user of that uid is not taken for the first. */
static void forget_old_users(struct auth *a)
{
	struct stat st = { 0 };
	uint64_t now = clock_monotonic_ns();
	(void)stat(PASSWD, &st);
	if (is_same_file(&st, &a->users) && now - a->looked_up_ns < LOOKUP_NS)
		return;
	a->users = st;
	a->looked_up_ns = now;
	a->n_names = a->at = 0;
	a->has_tokens = false;
}

int auth_peer(struct auth *a, int fd, struct identity *ret, struct err *err)
{
	struct ucred peer = { 0 };
	socklen_t length = sizeof peer;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
		return err_errno(err, "ask who is at the other end");
	forget_old_users(a);
	for (size_t i = 0; i < a->n_names; i++)
		if (a->names[i].uid == peer.uid) {
			*ret = a->names[i].who;
			ret->gid = peer.gid;
			return 0;
		}
	struct known *k = &a->names[a->at];
	a->at = (a->at + 1) % NAMES_MAX;
	if (a->n_names < NAMES_MAX)
		a->n_names++;
	*k = (struct known){ .uid = peer.uid };
	k->who = (struct identity){ .uid = peer.uid,
				    .gid = peer.gid,
				    .scopes = SCOPE_READ | SCOPE_SUBMIT };
	name_of(peer.uid, k->who.name);
	if (peer.uid == 0 || peer.uid == geteuid())
		k->who.scopes |= SCOPE_ADMIN;
	*ret = k->who;
	return 0;
}

/* Read again when the file or a user has changed. What can't be read lets nobody in. */
static void refresh(struct auth *a)
{
	CLEANUP_FREE char *path = xasprintf("%s/" TOKENS_FILE, a->config->home);
	struct stat st = { 0 };
	forget_old_users(a);
	bool is_there = stat(path, &st) == 0;
	if (is_there && a->has_tokens && is_same_file(&st, &a->seen))
		return;
	tokens_release(&a->tokens);
	a->seen = st;
	a->has_tokens = is_there && tokens_read(a->config->home, &a->tokens, NULL) >= 0;
}

int auth_token(struct auth *a, const char *authorization, struct identity *ret, struct err *err)
{
	static const char scheme[] = "Bearer ";
	if (!authorization || strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
		return err_set(err, ERR_CALLER, EACCES,
			       "a token is needed: Authorization: Bearer cupel_...");
	refresh(a);
	const struct token *t =
		tokens_find(&a->tokens, authorization + sizeof scheme - 1, clock_real_ns());
	if (!t)
		return err_set(err, ERR_CALLER, EACCES,
			       "the token is not known, was revoked or has expired");
	*ret = (struct identity){ .uid = t->uid, .gid = t->gid, .scopes = t->scopes };
	/* A token made for a user is that user, as if by the socket; any other owns what it submits itself. */
	bool is_user = !str_eq(t->user, TOKEN_NO_USER) && strlen(t->user) < sizeof ret->name;
	(void)snprintf(ret->name, sizeof ret->name, is_user ? "%s" : "token:%s",
		       is_user ? t->user : t->name);
	/* Version 0.1 recorded the token's name. A later token of that name may be made for somebody else. */
	if (is_user && t->is_of_first_version)
		(void)snprintf(ret->also, sizeof ret->also, "token:%s", t->name);
	return 0;
}

/* Takes "HOST[:PORT]" apart: how long HOST is, with the brackets of an IPv6 address; 0 if it is not of that form. */
static size_t host_length(const char *text)
{
	uint64_t port = 0;
	bool is_bracketed = text[0] == '[';
	size_t n = strcspn(text, is_bracketed ? "]" : ":");
	if (is_bracketed && !text[n])
		return 0;
	n += is_bracketed;
	if (!text[n])
		return n;
	return text[n] == ':' && num_u64(text + n + 1, UINT16_MAX, &port) >= 0 && port ? n : 0;
}

void identity_viewer(const struct identity *who, const struct config *c, struct viewer *ret)
{
	*ret = (struct viewer){ .sees_all = (who->scopes & (SCOPE_ADMIN | SCOPE_READ_ALL)) ||
					    c->service.visibility == VISIBILITY_ALL,
				.owns_home = who->uid == geteuid() };
	(void)snprintf(ret->names[0], sizeof ret->names[0], "%s", who->name);
	(void)snprintf(ret->names[1], sizeof ret->names[1], "%s", who->also);
}

bool auth_host_ok(const char *host)
{
	char name[INET6_ADDRSTRLEN];
	struct in6_addr six;
	struct in_addr four;
	size_t n = host ? host_length(host) : 0;
	bool is_bracketed = n && host[0] == '[';
	size_t skipped = is_bracketed, kept = n - 2 * skipped;
	if (!n || kept >= sizeof name)
		return false;
	memcpy(name, host + skipped, kept);
	name[kept] = 0;
	if (is_bracketed)
		return inet_pton(AF_INET6, name, &six) == 1;
	return strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &four) == 1;
}

/* How much of "HOST[:PORT]" counts: browsers leave the default port out, other clients may say it. */
static size_t significant_length(const char *host)
{
	size_t n = strlen(host), named = host_length(host);
	return named && str_eq(host + named, ":80") ? named : n;
}

bool auth_origin_ok(const char *origin, const char *fetch_site, const char *host)
{
	static const char scheme[] = "http://"; /* the service speaks no TLS */
	if (fetch_site && !str_eq(fetch_site, "same-origin") && !str_eq(fetch_site, "none"))
		return false;
	if (!origin)
		return true;
	if (!host || !*host || !str_starts(origin, scheme))
		return false;
	const char *from = origin + sizeof scheme - 1;
	size_t n = significant_length(from);
	return n == significant_length(host) && strncasecmp(from, host, n) == 0;
}

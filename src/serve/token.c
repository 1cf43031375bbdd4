/* tokens.json: {"tokens":[{"name","sha256","scopes":[...],"user","uid","created","expires"}]}, replaced as a whole, under a lock. */
#include "serve/token.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/str.h"
#include "serve/identity.h"
#include "spec/id.h"

#define TOKENS_SIZE_MAX (1 << 20)
#define TOKENS_MAX      1000
#define SECRET_BYTES    32

static const struct {
	enum scope scope;
	const char *name;
} scope_names[] = { { SCOPE_READ, "read" },
		    { SCOPE_READ_ALL, "read-all" },
		    { SCOPE_SUBMIT, "submit" },
		    { SCOPE_ADMIN, "admin" } };
#define N_SCOPES (sizeof scope_names / sizeof *scope_names)

void tokens_release(struct tokens *t)
{
	for (size_t i = 0; t->v && i < t->n; i++)
		free(t->v[i].user);
	free(t->v);
	*t = (struct tokens){ 0 };
}

static unsigned scope_of(const char *name)
{
	for (size_t i = 0; i < N_SCOPES; i++)
		if (str_eq(name, scope_names[i].name))
			return scope_names[i].scope;
	return 0;
}

int token_scopes_parse(const char *text, unsigned *ret, struct err *err)
{
	unsigned scopes = 0;
	for (const char *at = text;; at++) {
		size_t n = strcspn(at, ",");
		CLEANUP_FREE char *word = xstrndup(at, n);
		unsigned scope = scope_of(word);
		if (!scope)
			return err_caller(
				err,
				"'%.40s' is no scope; write read, read-all, submit or admin, with commas between them",
				word);
		scopes |= scope | (scope == SCOPE_READ_ALL ? SCOPE_READ : 0);
		at += n;
		if (!*at)
			break;
	}
	*ret = scopes;
	return 0;
}

const char *token_scope_name(unsigned scopes)
{
	for (size_t i = 0; i < N_SCOPES; i++)
		if (scopes & scope_names[i].scope)
			return scope_names[i].name;
	return "none";
}

json_t *token_scopes_json(unsigned scopes)
{
	json_t *list = json_array();
	for (size_t i = 0; i < N_SCOPES; i++)
		if (scopes & scope_names[i].scope)
			json_array_append_new(list, json_string(scope_names[i].name));
	return list;
}

static int user_ids(const char *name, struct token *t)
{
	char buffer[4096];
	struct passwd entry = { 0 }, *found = NULL;
	if (getpwnam_r(name, &entry, buffer, sizeof buffer, &found) != 0 || !found)
		return -ENOENT;
	t->uid = found->pw_uid;
	t->gid = found->pw_gid;
	return 0;
}

static int take(const json_t *o, struct token *t)
{
	const char *name = json_string_value(json_object_get(o, "name"));
	const char *sha256 = json_string_value(json_object_get(o, "sha256"));
	const char *user = json_string_value(json_object_get(o, "user"));
	const char *created = json_string_value(json_object_get(o, "created"));
	const json_t *expires = json_object_get(o, "expires");
	size_t i;
	json_t *scope;
	if (!name || strlen(name) > TOKEN_NAME_MAX || !sha256 || strlen(sha256) != HASH_HEX - 1 ||
	    !user || !created || clock_read(created, &t->created_ns) < 0)
		return -EINVAL;
	if (json_is_string(expires) && clock_read(json_string_value(expires), &t->expires_ns) < 0)
		return -EINVAL;
	if (!json_is_string(expires) && !json_is_null(expires))
		return -EINVAL;
	(void)snprintf(t->name, sizeof t->name, "%s", name);
	(void)snprintf(t->sha256, sizeof t->sha256, "%s", sha256);
	json_array_foreach(json_object_get(o, "scopes"), i, scope)
	{
		t->scopes |= scope_of(json_string_value(scope));
	}
	/* A user who is gone has no rights left, and neither has his token. Nor has it those of somebody who got the name since: the uid
	 * of the user that it was made for is recorded, except by version 0.1. */
	const json_t *uid = json_object_get(o, "uid");
	t->is_of_first_version = !uid;
	t->is_user_gone = user_ids(user, t) < 0 ||
			  (json_is_integer(uid) && json_integer_value(uid) != (json_int_t)t->uid);
	if (t->is_user_gone)
		t->scopes = 0;
	t->user = xstrdup(user);
	return 0;
}

static int read_file(int home_fd, json_t **ret, struct err *err)
{
	struct stat st = { 0 };
	if (fstatat(home_fd, TOKENS_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return err_errno(err, "look at " TOKENS_FILE);
		*ret = json_pack("{s:[]}", "tokens");
		return 0;
	}
	if (!S_ISREG(st.st_mode) || (st.st_mode & 077) || st.st_uid != geteuid())
		return err_set(
			err, ERR_HOST, EINVAL,
			TOKENS_FILE
			" is not its owner's alone; remedy: chown to the service's user, chmod 600");
	return json_read_file(home_fd, TOKENS_FILE, TOKENS_SIZE_MAX, ret, err);
}

static int open_home(const char *home, struct err *err)
{
	int fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_errno(err, "open %s", home) : fd;
}

static int tokens_of(const json_t *file, struct tokens *ret, struct err *err)
{
	CLEANUP_TOKENS struct tokens t = { 0 };
	const json_t *list = json_object_get(file, "tokens");
	size_t i, n = json_array_size(list);
	const json_t *o;
	if (!json_is_array(list) || n > TOKENS_MAX)
		return err_set(err, ERR_HOST, EINVAL, TOKENS_FILE " has no list of tokens");
	t.v = xcalloc(n ? n : 1, sizeof *t.v);
	json_array_foreach(list, i, o)
	{
		t.n = i + 1;
		if (take(o, &t.v[i]) < 0)
			return err_set(err, ERR_HOST, EINVAL,
				       TOKENS_FILE ": token %zu is not as we write them", i + 1);
	}
	ret->n = t.n;
	ret->v = take_ptr(t.v);
	return 0;
}

int tokens_read(const char *home, struct tokens *ret, struct err *err)
{
	CLEANUP_JSON json_t *file = NULL;
	CLEANUP_FD int home_fd = open_home(home, err);
	int r = home_fd < 0 ? home_fd : read_file(home_fd, &file, err);
	return r < 0 ? r : tokens_of(file, ret, err);
}

/* Every byte is looked at, whatever the first ones are. */
static bool same(const char *a, const char *b)
{
	unsigned char differs = 0;
	for (size_t i = 0; i < HASH_HEX - 1; i++)
		differs |= (unsigned char)(a[i] ^ b[i]);
	return differs == 0;
}

const struct token *tokens_find(const struct tokens *t, const char *text, uint64_t now_ns)
{
	const struct token *found = NULL;
	char hex[HASH_HEX];
	size_t length = strlen(text);
	if (length >= TOKEN_TEXT || !str_starts(text, TOKEN_PREFIX))
		return NULL;
	hash_bytes(text, length, hex);
	for (size_t i = 0; i < t->n; i++)
		if (same(t->v[i].sha256, hex))
			found = &t->v[i];
	if (!found || !found->scopes || (found->expires_ns && found->expires_ns <= now_ns))
		return NULL;
	return found;
}

static json_t *time_json(uint64_t ns)
{
	char text[32];
	return ns ? json_string(clock_write(ns, text, sizeof text)) : json_null();
}

json_t *tokens_json(const struct tokens *t)
{
	json_t *list = json_array();
	for (size_t i = 0; i < t->n; i++) {
		const struct token *one = &t->v[i];
		bool is_narrower = one->is_of_first_version && (one->scopes & SCOPE_READ) &&
				   !(one->scopes & (SCOPE_READ_ALL | SCOPE_ADMIN));
		const char *note =
			one->is_user_gone ? "invalid: its user was removed"
			: is_narrower ? "from 0.1: now sees only its own runs, see --scope read-all"
				      : NULL;
		json_array_append_new(
			list, json_pack("{s:s,s:o,s:o,s:o,s:o,s:s?}", "name", one->name, "scopes",
					token_scopes_json(one->scopes), "user",
					json_text(one->user), "created", time_json(one->created_ns),
					"expires", time_json(one->expires_ns), "note", note));
	}
	return list;
}

/* The file as it is, and a lock until it is closed. */
static int begin_change(int home_fd, int *ret_lock, json_t **ret, struct err *err)
{
	CLEANUP_FD int lock =
		openat(home_fd, "tokens.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (lock < 0 || flock(lock, LOCK_EX) < 0)
		return err_errno(err, "lock " TOKENS_FILE);
	int r = read_file(home_fd, ret, err);
	if (r >= 0)
		*ret_lock = take_fd(&lock);
	return r;
}

static int write_file(int home_fd, const json_t *file, struct err *err)
{
	CLEANUP_FREE char *text = json_dumps(file, JSON_INDENT(2));
	return fs_write_atomic(home_fd, TOKENS_FILE, text, strlen(text), 0600, err);
}

static int find_name(const json_t *list, const char *name)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (str_eq(json_string_value(json_object_get(json_array_get(list, i), "name")),
			   name))
			return (int)i;
	return -1;
}

/* Five bits a letter, none that look alike. */
static void make_text(char ret[TOKEN_TEXT])
{
	static const char letters[] = "0123456789abcdefghjkmnpqrstvwxyz";
	unsigned char bytes[SECRET_BYTES];
	size_t at = sizeof TOKEN_PREFIX - 1;
	memcpy(ret, TOKEN_PREFIX, at);
	while (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
		;
	unsigned have = 0, bits = 0;
	for (size_t i = 0; i < sizeof bytes; i++) {
		have = (have << 8 | bytes[i]) & 0xffff;
		for (bits += 8; bits >= 5; bits -= 5)
			ret[at++] = letters[have >> (bits - 5) & 31];
	}
	ret[at++] = letters[have << (5 - bits) & 31];
	ret[at] = 0;
}

int token_create(const char *home, const struct token_request *request, char ret_text[TOKEN_TEXT],
		 struct err *err)
{
	const char *user = request->user ? request->user : TOKEN_NO_USER;
	struct token who = { 0 };
	char hex[HASH_HEX];
	CLEANUP_JSON json_t *file = NULL;
	CLEANUP_FD int lock = -1;
	if (id_check(request->name, NULL) < 0 || strlen(request->name) > TOKEN_NAME_MAX)
		return err_caller(
			err, "'%.60s' is no name for a token; use up to %d of A-Z a-z 0-9 . _ -",
			request->name, TOKEN_NAME_MAX);
	if (user_ids(user, &who) < 0)
		return err_caller(err, "there is no user '%.60s'", user);
	if (geteuid() != 0 && request->user && who.uid != geteuid())
		return err_caller(err, "only root's service can act as '%.60s'", user);
	CLEANUP_FD int home_fd = open_home(home, err);
	int r = home_fd < 0 ? home_fd : begin_change(home_fd, &lock, &file, err);
	if (r < 0)
		return r;
	json_t *list = json_object_get(file, "tokens");
	if (find_name(list, request->name) >= 0)
		return err_set(err, ERR_CALLER, EEXIST,
			       "there is a token '%s'; revoke it first, or take another name",
			       request->name);
	if (json_array_size(list) >= TOKENS_MAX)
		return err_caller(err, "there are %d tokens; revoke some", TOKENS_MAX);
	make_text(ret_text);
	hash_bytes(ret_text, strlen(ret_text), hex);
	json_array_append_new(
		list, json_pack("{s:s,s:s,s:o,s:s,s:I,s:o,s:o}", "name", request->name, "sha256",
				hex, "scopes", token_scopes_json(request->scopes), "user", user,
				"uid", (json_int_t)who.uid, "created", time_json(clock_real_ns()),
				"expires", time_json(request->expires_ns)));
	return write_file(home_fd, file, err);
}

int token_revoke(const char *home, const char *name, struct err *err)
{
	CLEANUP_JSON json_t *file = NULL;
	CLEANUP_FD int lock = -1;
	CLEANUP_FD int home_fd = open_home(home, err);
	int r = home_fd < 0 ? home_fd : begin_change(home_fd, &lock, &file, err);
	if (r < 0)
		return r;
	json_t *list = json_object_get(file, "tokens");
	int at = find_name(list, name);
	if (at < 0)
		return err_set(err, ERR_CALLER, ENOENT,
			       "there is no token '%.60s'; `cupel token list` shows them", name);
	json_array_remove(list, (size_t)at);
	return write_file(home_fd, file, err);
}

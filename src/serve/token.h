/* Tokens of those who come by TCP: HOME/tokens.json, which has the SHA-256 of each and never a token itself. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"

#define TOKENS_FILE    "tokens.json"
#define TOKEN_PREFIX   "cupel_"
#define TOKEN_NAME_MAX 40
#define TOKEN_NO_USER  "nobody" /* of a token that was made without a user */
#define TOKEN_TEXT     64       /* room for one, with the NUL */

struct token {
	char name[TOKEN_NAME_MAX + 1];
	char sha256[HASH_HEX]; /* of the text */
	unsigned scopes;       /* enum scope */
	char *user;            /* owned; whose rights on files count */
	uid_t uid;
	gid_t gid;
	bool is_of_first_version; /* made when the scope read showed everybody's runs */
	bool is_user_gone;        /* removed, or the name has another uid now: no scopes are left */
	uint64_t created_ns, expires_ns; /* unix; 0: never */
};
struct tokens {
	struct token *v; /* owned */
	size_t n;
};
void tokens_release(struct tokens *t);
#define CLEANUP_TOKENS CLEANUP(tokens_release)

/* None if there is no file. -EINVAL (host) if it is not what we wrote, or others may write it. */
int tokens_read(const char *home, struct tokens *ret, struct err *err);
/* The one that this is the text of, unless it has expired; NULL otherwise. Takes as long for any text of a length. */
const struct token *tokens_find(const struct tokens *t, const char *text, uint64_t now_ns);
/* {"name","scopes","user","created","expires","note"} of each, nothing that lets anybody in. Owned by the caller. */
json_t *tokens_json(const struct tokens *t);

/* "read,submit"; -EINVAL with the text. */
int token_scopes_parse(const char *text, unsigned *ret, struct err *err);
/* Owned by the caller; an array. */
json_t *token_scopes_json(unsigned scopes);
/* The first of them. */
const char *token_scope_name(unsigned scopes);

struct token_request {
	const char *name;
	unsigned scopes;
	const char *user;    /* NULL: nobody */
	uint64_t expires_ns; /* unix; 0: never */
};
/* Makes one. Its text is told here and never again. -EEXIST (caller) if the name is taken. */
int token_create(const char *home, const struct token_request *request, char ret_text[TOKEN_TEXT],
		 struct err *err);
/* -ENOENT (caller) if there is none. */
int token_revoke(const char *home, const char *name, struct err *err);

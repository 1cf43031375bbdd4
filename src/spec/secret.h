/* Environment variables whose values are never recorded.
 *
 * A variable is secret if its name says so (API_TOKEN, DB_PASSWORD) or its value is a URL with a password in it. A record has its name and a
 * keyed digest: HMAC-SHA-256 over name and value with the key of the home (HOME/secret.key). Equal values have equal digests in one home, so
 * that keys of steps, `cupel why` and `cupel rerun` see a change; without the key nobody can try values. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/json.h"
#include "spec/analysis.h"

bool env_name_is_secret(const char *name);
bool env_is_secret(const char *name, const char *value);
/* The same for "NAME=VALUE". */
bool env_entry_is_secret(const char *entry);

struct secret_key {
	unsigned char bytes[HASH_KEY_SIZE];
	bool is_set;
};
/* Reads the key of the home, or makes it once. -ENOENT: there is no home yet. */
int secret_key_open(const char *home, struct secret_key *ret, struct err *err);
void secret_digest(const struct secret_key *key, const char *name, const char *value,
		   char ret_hex[HASH_HEX]);

/* Sets a->secrets to the name and digest of each secret variable of a->env. The home is there. */
int secrets_note(const char *home, struct analysis *a, struct err *err);
/* After a run was read from its record: is there a value for each of a->secrets? The error (caller) names all that are missing. */
int secrets_check_given(const struct analysis *a, struct err *err);
/* Are the digests in a->secrets, from a record, those of the values in a->env? -ESTALE (caller) names the first that differs. */
int secrets_check_same(const char *home, const struct analysis *a, struct err *err);

/* Moves the secret values out of an analysis or pipeline as it is sent to a service: `secret_env` with the names and digests (null if there is
 * no key) stands in their place. Returns what secrets_give takes to put them back, or NULL if there are none. Owned by the caller. */
json_t *secrets_take(json_t *analysis, const struct secret_key *key);
void secrets_give(json_t *analysis, const json_t *secrets);
/* Does secrets_take leave this? */
bool secrets_are_taken(const json_t *analysis);

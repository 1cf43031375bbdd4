/* What a key covers of a runtime's identity, so that a result is made again when something changes that it may depend on, and `cupel why`
 * can name the package. */
#pragma once

#include "base/err.h"
#include "base/hash.h"
#include "runtime/runtime.h"
#include "spec/config.h"

/* The identity itself (runtime_fit) for most runtimes. For one of kind system that lists `packages` only these packages and all that they
 * depend on count, with the libraries among Debian's alternatives that are theirs, the interpreters that the entry names, and what pip
 * installed in /usr/local if python3 is one of them. */
int key_identity(const struct config *c, const struct runtime *r, const char *identity,
		 char ret_hex[HASH_HEX], struct err *err);

/* Keeps a list of these packages and files under the digest of the key's part, in HOME/runtimes/NAME; the newest 32 stay. A list that
 * can't be written is missing when somebody asks why, and nothing else. */
void key_items_keep(const struct config *c, const struct runtime *r, const char *part);
/* "nano 7.2-1 -> 7.2-2: dpkg package of another version, ..."; NULL if the two lists are not known, or equal. Owned by the caller. */
char *key_items_difference(const struct config *c, const char *runtime, const char *then,
			   const char *now);

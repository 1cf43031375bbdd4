/* SHA-256, streaming. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define HASH_SIZE 32
#define HASH_HEX  65 /* with the NUL */

struct hash; /* heap, hash_new/hash_free */

struct hash *hash_new(void);
void hash_free(struct hash *h);
void hash_add(struct hash *h, const void *bytes, size_t length);
/* Ends the computation; h may then be started again with hash_restart. */
void hash_end(struct hash *h, char ret_hex[HASH_HEX]);
void hash_restart(struct hash *h);

/* MD5, to compare with what dpkg recorded and for nothing else: it vouches for nothing. */
#define HASH_MD5_HEX 33 /* with the NUL */
struct hash_md5;        /* heap */
struct hash_md5 *hash_md5_new(void);
void hash_md5_free(struct hash_md5 *h);
void hash_md5_add(struct hash_md5 *h, const void *bytes, size_t length);
/* Ends the computation and begins the next one. */
void hash_md5_end(struct hash_md5 *h, char ret_hex[HASH_MD5_HEX]);

#define HASH_TAG 9 /* with the NUL */
/* Eight digits that tell texts apart by their looks, for names; no proof of anything. */
void hash_tag(const char *text, char ret_tag[HASH_TAG]);
void hash_bytes(const void *bytes, size_t length, char ret_hex[HASH_HEX]);
/* HMAC-SHA-256 (RFC 2104): only someone with the key can tell which bytes a digest belongs to. */
#define HASH_KEY_SIZE 32
void hash_keyed(const unsigned char key[HASH_KEY_SIZE], const void *bytes, size_t length,
		char ret_hex[HASH_HEX]);
/* Whole file from its start by descriptor; negative errno. */
int hash_file(int fd, char ret_hex[HASH_HEX]);

static inline void hash_freep(struct hash **h)
{
	hash_free(*h);
	*h = NULL;
}
#define CLEANUP_HASH __attribute__((cleanup(hash_freep)))

static inline void hash_md5_freep(struct hash_md5 **h)
{
	hash_md5_free(*h);
	*h = NULL;
}
#define CLEANUP_HASH_MD5 __attribute__((cleanup(hash_md5_freep)))

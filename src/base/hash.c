/* SHA-256 by libcrypto's direct functions: the EVP interface would first load providers and the
 * configuration, which costs more than hashing what `cupel run` hashes. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/hash.h"

#include <string.h>

#include <errno.h>
#include <openssl/md5.h>
#include <openssl/sha.h>
#include <sys/types.h>

#include "base/str.h"

#define SMALL_SIZE 4096
#define READ_SIZE  (256 * 1024)

struct hash {
	SHA256_CTX context;
};

struct hash *hash_new(void)
{
	struct hash *h = xmalloc(sizeof(*h));

	hash_restart(h);
	return h;
}

void hash_free(struct hash *h)
{
	free(h);
}

void hash_add(struct hash *h, const void *bytes, size_t length)
{
	if (length > 0)
		(void)SHA256_Update(&h->context, bytes, length);
}

static void write_hex(const unsigned char *sum, size_t size, char *ret_hex)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < size; i++) {
		ret_hex[2 * i] = digits[sum[i] >> 4];
		ret_hex[2 * i + 1] = digits[sum[i] & 15];
	}
	ret_hex[2 * size] = '\0';
}

void hash_end(struct hash *h, char ret_hex[HASH_HEX])
{
	unsigned char sum[HASH_SIZE];

	(void)SHA256_Final(sum, &h->context);
	write_hex(sum, sizeof(sum), ret_hex);
}

void hash_restart(struct hash *h)
{
	(void)SHA256_Init(&h->context);
}

void hash_bytes(const void *bytes, size_t length, char ret_hex[HASH_HEX])
{
	struct hash h;

	hash_restart(&h);
	hash_add(&h, bytes, length);
	hash_end(&h, ret_hex);
}

static void hash_begin_padded(struct hash *h, const unsigned char key[HASH_KEY_SIZE],
			      unsigned char pad)
{
	unsigned char block[SHA256_CBLOCK];

	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = (unsigned char)((i < HASH_KEY_SIZE ? key[i] : 0) ^ pad);
	hash_restart(h);
	hash_add(h, block, sizeof(block));
	explicit_bzero(block, sizeof(block));
}

void hash_keyed(const unsigned char key[HASH_KEY_SIZE], const void *bytes, size_t length,
		char ret_hex[HASH_HEX])
{
	unsigned char inner[HASH_SIZE];
	struct hash h;

	hash_begin_padded(&h, key, 0x36);
	hash_add(&h, bytes, length);
	(void)SHA256_Final(inner, &h.context);
	hash_begin_padded(&h, key, 0x5c);
	hash_add(&h, inner, sizeof(inner));
	hash_end(&h, ret_hex);
	explicit_bzero(&h, sizeof(h));
}

int hash_file(int fd, char ret_hex[HASH_HEX])
{
	char small[SMALL_SIZE] = { 0 };
	CLEANUP_FREE char *large = NULL;
	struct hash h;
	off_t at = 0;

	hash_restart(&h);
	for (;;) {
		/* Most files are small, and then a large buffer costs more than what is read. */
		if (at >= SMALL_SIZE && !large)
			large = xmalloc(READ_SIZE);
		char *buffer = large ? large : small;
		ssize_t n = pread(fd, buffer, large ? READ_SIZE : sizeof(small), at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		hash_add(&h, buffer, (size_t)n);
		at += n;
	}
	hash_end(&h, ret_hex);
	return 0;
}

void hash_tag(const char *text, char ret_tag[HASH_TAG])
{
	char hex[HASH_HEX];

	hash_bytes(text, strlen(text), hex);
	memcpy(ret_tag, hex, HASH_TAG - 1);
	ret_tag[HASH_TAG - 1] = 0;
}

struct hash_md5 {
	MD5_CTX context;
};

struct hash_md5 *hash_md5_new(void)
{
	struct hash_md5 *h = xmalloc(sizeof(*h));

	(void)MD5_Init(&h->context);
	return h;
}

void hash_md5_free(struct hash_md5 *h)
{
	free(h);
}

void hash_md5_add(struct hash_md5 *h, const void *bytes, size_t length)
{
	if (length > 0)
		(void)MD5_Update(&h->context, bytes, length);
}

void hash_md5_end(struct hash_md5 *h, char ret_hex[HASH_MD5_HEX])
{
	unsigned char sum[(HASH_MD5_HEX - 1) / 2];

	(void)MD5_Final(sum, &h->context);
	write_hex(sum, sizeof(sum), ret_hex);
	(void)MD5_Init(&h->context);
}

/* hash: the published test vectors, in one piece and in many, and files. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/hash.h"

static const char empty[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
static const char abc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
/* a million times 'a' */
static const char million[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

static void vectors(void **state)
{
	char hex[HASH_HEX];

	hash_bytes("", 0, hex);
	assert_string_equal(hex, empty);
	hash_bytes(NULL, 0, hex);
	assert_string_equal(hex, empty);
	hash_bytes("abc", 3, hex);
	assert_string_equal(hex, abc);
}

static void pieces_and_restart(void **state)
{
	CLEANUP_HASH struct hash *h = hash_new();
	char hex[HASH_HEX];
	char block[997];
	size_t left = 1000000;

	memset(block, 'a', sizeof(block));
	while (left > 0) {
		size_t n = left < sizeof(block) ? left : sizeof(block);
		hash_add(h, block, n);
		left -= n;
	}
	hash_end(h, hex);
	assert_string_equal(hex, million);
	hash_restart(h);
	hash_add(h, "a", 1);
	hash_add(h, "bc", 2);
	hash_end(h, hex);
	assert_string_equal(hex, abc);
}

/* RFC 4231, test cases 1 and 2: a key with zeros behind it is the key. */
static void keyed(void **state)
{
	unsigned char key[HASH_KEY_SIZE] = { 0 };
	char hex[HASH_HEX];

	memset(key, 0x0b, 20);
	hash_keyed(key, "Hi There", 8, hex);
	assert_string_equal(hex,
			    "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
	memset(key, 0, sizeof(key));
	memcpy(key, "Jefe", 4);
	hash_keyed(key, "what do ya want for nothing?", 28, hex);
	assert_string_equal(hex,
			    "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

static void files(void **state)
{
	CLEANUP_FD int fd = memfd_create("hash", MFD_CLOEXEC);
	CLEANUP_FREE char *block = malloc(1000000);
	char hex[HASH_HEX];
	int pipe_fds[2];

	assert_non_null(block);
	memset(block, 'a', 1000000);
	assert_int_equal(write(fd, block, 1000000), 1000000);
	/* from the start wherever the offset is, which stays */
	assert_int_equal(hash_file(fd, hex), 0);
	assert_string_equal(hex, million);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 1000000);
	assert_int_equal(hash_file(-1, hex), -EBADF);
	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	assert_int_equal(hash_file(pipe_fds[0], hex), -ESPIPE);
	(void)close(pipe_fds[0]);
	(void)close(pipe_fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vectors),
		cmocka_unit_test(pieces_and_restart),
		cmocka_unit_test(keyed),
		cmocka_unit_test(files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Base64 as others send it: what is right is read, anything else is refused as a whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "executor/base64.h"

#define ROOM 64

static void reads_what_is_right(void **state)
{
	static const struct {
		const char *text, *bytes;
		size_t length;
	} rows[] = {
		{ "", "", 0 },
		{ "Zg==", "f", 1 },
		{ "Zm8=", "fo", 2 },
		{ "Zm9v", "foo", 3 },
		{ "Zm9vYmE=", "fooba", 5 },
		{ "AAECAw==", "\0\1\2\3", 4 },
		{ "//79+/o=", "\xff\xfe\xfd\xfb\xfa", 5 },
	};
	char buffer[ROOM];
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		assert_int_equal(base64_read(rows[i].text, buffer, sizeof buffer), rows[i].length);
		assert_memory_equal(buffer, rows[i].bytes, rows[i].length);
	}
}

static void refuses_the_rest(void **state)
{
	static const char *const rows[] = { "Z",     "Zg",   "Zg=",  "====", "Z===", "Zg==Zg==",
					    "Zm9\n", "Zm 9", "Zm-_", "=Zm9", "Z=m9", "Zm=9" };
	char buffer[ROOM];
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (base64_read(rows[i], buffer, sizeof buffer) != -EINVAL)
			fail_msg("'%s' was read", rows[i]);
}

/* Not one byte more than there is room for. */
static void keeps_to_the_room(void **state)
{
	char buffer[8];
	memset(buffer, 'x', sizeof buffer);
	assert_int_equal(base64_read("Zm9vYmE=", buffer, 5), 5);
	assert_int_equal(buffer[5], 'x');
	assert_int_equal(base64_read("Zm9vYmE=", buffer, 4), -EINVAL);
	assert_int_equal(base64_read("Zg==", buffer, 0), -EINVAL);
	assert_int_equal(base64_read("", buffer, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_is_right),
		cmocka_unit_test(refuses_the_rest),
		cmocka_unit_test(keeps_to_the_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

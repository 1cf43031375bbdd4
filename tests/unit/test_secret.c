/* Which variables are secret, the key of a home, and what is left of values where they must not be. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "place.h"

#include "spec/secret.h"

static void names(void **state)
{
	static const char *const secret[] = {
		"PASSWORD",        "db_password",       "PGPASSWORD",
		"MYSQL_PWD",       "SMTP_PASS",         "API_TOKEN",
		"GITHUB_TOKEN_RO", "CLIENT_SECRET",     "Secret_File",
		"OPENAI_API_KEY",  "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
		"SSH_PRIVATE_KEY", "SIGNING_KEY",       "GOOGLE_APPLICATION_CREDENTIALS",
		"BASIC_AUTH",      "_AUTHORIZATION",    "OPENAI_APIKEY",
		"KEY_PASSPHRASE",  "__TOKEN__",
	};
	static const char *const plain[] = {
		"PWD",      "OLDPWD",        "MAX_TOKENS",  "TOKENIZERS_PARALLELISM",
		"KEY",      "SORT_KEY",      "PRIMARY_KEY", "SSH_PUBLIC_KEY",
		"KEYBOARD", "SECRETARY",     "PASS",        "PASS_COUNT",
		"LANG",     "ANALYSIS_SEED", "AUTHOR",      "",
		"_",        "MONKEY",
	};
	for (size_t i = 0; i < sizeof secret / sizeof *secret; i++)
		if (!env_name_is_secret(secret[i]))
			fail_msg("%s is secret", secret[i]);
	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
		if (env_name_is_secret(plain[i]))
			fail_msg("%s is not secret", plain[i]);
}

static void values(void **state)
{
	assert_true(env_is_secret("DATABASE_URL", "postgresql://u:p@h/d"));
	assert_true(env_is_secret("X", "proxy=http://me:word@proxy:3128, and more"));
	assert_true(env_is_secret("X", "postgresql://h/d?user=u&password=p"));
	assert_false(env_is_secret("DATABASE_URL", "postgresql://u@h/d"));
	assert_false(env_is_secret("X", "http://h:80/a@b:c"));
	assert_false(env_is_secret("X", "http://u:@h/"));
	assert_false(env_is_secret("X", "://a:b@c"));
	assert_true(env_entry_is_secret("API_TOKEN=x"));
	assert_false(env_entry_is_secret("LANG=C"));
	assert_false(env_entry_is_secret("API_TOKEN"));
}

static void one_key_a_home(void **state)
{
	struct place *p = *state;
	struct secret_key one = { 0 }, again = { 0 }, other = { 0 };
	char a[HASH_HEX], b[HASH_HEX];
	struct stat st;
	struct err err = { 0 };
	CLEANUP_FREE char *second = xasprintf("%s/second", p->path);
	assert_int_equal(mkdir(second, 0700), 0);
	assert_int_equal(secret_key_open(p->path, &one, &err), 0);
	assert_int_equal(secret_key_open(p->path, &again, &err), 0);
	assert_int_equal(secret_key_open(second, &other, &err), 0);
	assert_memory_equal(one.bytes, again.bytes, sizeof one.bytes);
	assert_memory_not_equal(one.bytes, other.bytes, sizeof one.bytes);
	assert_int_equal(fstatat(p->fd, "secret.key", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	secret_digest(&one, "A_TOKEN", "x", a);
	secret_digest(&again, "A_TOKEN", "x", b);
	assert_string_equal(a, b);
	secret_digest(&one, "A_TOKEN", "y", b);
	assert_string_not_equal(a, b);
	secret_digest(&one, "B_TOKEN", "x", b);
	assert_string_not_equal(a, b);
	secret_digest(&other, "A_TOKEN", "x", b);
	assert_string_not_equal(a, b);
}

static void a_key_that_others_read_is_refused(void **state)
{
	struct place *p = *state;
	struct secret_key key = { 0 };
	struct err err = { 0 };
	assert_int_equal(secret_key_open(p->path, &key, &err), 0);
	assert_int_equal(fchmodat(p->fd, "secret.key", 0644, 0), 0);
	assert_int_equal(secret_key_open(p->path, &key, &err), -EPERM);
	assert_int_equal(fchmodat(p->fd, "secret.key", 0600, 0), 0);
	assert_int_equal(secret_key_open(p->path, &key, &err), 0);
	CLEANUP_FREE char *gone = xasprintf("%s/none", p->path);
	assert_int_equal(secret_key_open(gone, &key, &err), -ENOENT);
}

static void taken_and_given(void **state)
{
	static const char text[] =
		"{\"env\":{\"A_TOKEN\":\"t1\",\"X\":\"1\"},\"steps\":{\"s\":{\"env\":{\"U\":\"pg://u:t2@h\"}},"
		"\"t\":{\"env\":{\"Y\":\"2\"}}}}";
	CLEANUP_JSON json_t *asked = json_loads(text, 0, NULL);
	CLEANUP_JSON json_t *shown = json_deep_copy(asked);
	struct secret_key key = { .is_set = true };
	CLEANUP_JSON json_t *values = secrets_take(shown, &key);
	CLEANUP_FREE char *left = json_dumps(shown, JSON_COMPACT);
	assert_null(strstr(left, "t1"));
	assert_null(strstr(left, "t2"));
	assert_non_null(strstr(left, "A_TOKEN"));
	assert_true(secrets_are_taken(shown));
	secrets_give(shown, values);
	assert_true(json_equal(shown, asked));
	assert_false(secrets_are_taken(shown));
	CLEANUP_JSON json_t *plain = json_loads("{\"env\":{\"X\":\"1\"}}", 0, NULL);
	assert_null(secrets_take(plain, &key));
	assert_false(secrets_are_taken(plain));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(values),
		cmocka_unit_test_setup_teardown(one_key_a_home, place_set_up, place_tear_down),
		cmocka_unit_test_setup_teardown(a_key_that_others_read_is_refused, place_set_up,
						place_tear_down),
		cmocka_unit_test(taken_and_given),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

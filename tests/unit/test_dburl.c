/* URLs of databases: read as libpq reads them, or refused; and never a password where others look. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "spec/dburl.h"

struct row {
	const char *text;
	const char *user, *password, *host, *name, *params;
	unsigned port;
	const char *inside;
};

static const struct row rows[] = {
	{ "postgresql://u@/d", "u", NULL, "/run/postgresql", "d", "", 5432,
	  "postgresql://u@/d?host=/x&port=5432" },
	{ "postgres://u:p@h:77/d", "u", "p", "h", "d", "", 77,
	  "postgresql://u@/d?host=/x&port=77" },
	{ "postgresql://u%40a:p%3a%2F@[::1]:6/d%20e", "u@a", "p:/", "::1", "d e", "", 6,
	  "postgresql://u%40a@/d%20e?host=/x&port=6" },
	{ "postgresql://u:a@b@h/d", "u", "a@b", "h", "d", "", 5432,
	  "postgresql://u@/d?host=/x&port=5432" },
	{ "postgresql://?host=/s&port=9&user=u&password=p&dbname=d&application_name=a", "u", "p",
	  "/s", "d", "application_name=a", 9,
	  "postgresql://u@/d?host=/x&port=9&application_name=a" },
	{ "postgresql://u@%2Frun%2Fpg/d?connect_timeout=3&options=-c%20x", "u", NULL, "/run/pg",
	  "d", "connect_timeout=3&options=-c%20x", 5432,
	  "postgresql://u@/d?host=/x&port=5432&connect_timeout=3&options=-c%20x" },
};

static void what_libpq_reads_is_read(void **state)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct row *r = &rows[i];
		CLEANUP_DBURL struct dburl u = { 0 };
		struct err err = { 0 };
		if (dburl_parse(r->text, &u, &err) < 0)
			fail_msg("%s: %s", r->text, err.text);
		assert_int_equal(u.kind, DB_POSTGRES);
		assert_string_equal(u.user, r->user);
		assert_true(str_eq(u.password, r->password));
		assert_string_equal(u.host, r->host);
		assert_string_equal(u.name, r->name);
		assert_string_equal(u.params, r->params);
		assert_int_equal(u.port, r->port);
		CLEANUP_FREE char *inside = dburl_inside(&u, "/x");
		assert_string_equal(inside, r->inside);
		/* What it is inside is read as the same database again. */
		CLEANUP_DBURL struct dburl again = { 0 };
		assert_int_equal(dburl_parse(inside, &again, &err), 0);
		assert_string_equal(again.user, r->user);
		assert_string_equal(again.name, r->name);
		assert_null(again.password);
	}
}

static void a_file_is_absolute(void **state)
{
	CLEANUP_DBURL struct dburl u = { 0 };
	assert_int_equal(dburl_parse("sqlite:/srv//x/../p.db", &u, NULL), 0);
	assert_int_equal(u.kind, DB_SQLITE);
	assert_string_equal(u.path, "/srv/p.db");
	CLEANUP_FREE char *inside = dburl_inside(&u, "/x");
	assert_string_equal(inside, "sqlite:/x/p.db");
	assert_null(dburl_pgpass(&u));
}

static void what_is_none_is_refused_without_being_quoted(void **state)
{
	static const char *const bad[] = {
		"",
		"sqlite:",
		"sqlite:p.db",
		"mysql://u:secret@h/d",
		"postgresql://u:secret@h",
		"postgresql://:secret@h/d",
		"postgresql://u:secret@h:0/d",
		"postgresql://u:secret@h:99999/d",
		"postgresql://u:secret@h:x/d",
		"postgresql://u:secret@h,i/d",
		"postgresql://u:secret@[::1]x/d",
		"postgresql://u:secret%0a@h/d",
		"postgresql://u:secret%@h/d",
		"postgresql://u:secret%4@h/d",
		"postgresql://u@h/d?%70assword=secret",
		"postgresql://u@h/d?password",
		"postgresql://u@/d?host=@abstract",
		"postgresql://u@/d?host=",
		"postgresql://u@h/d?sslmode=require",
		"postgresql://u@h/d?a=b&sslmode=verify-full",
		"postgresql://u@h/d?sslmode=%72equire",
		"postgresql://u@h/d?ssl=true",
		"postgresql://u@h/d?channel_binding=require",
		"postgresql://u@h/d?gssencmode=require",
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct dburl u = { .port = 7 };
		struct err err = { 0 };
		if (dburl_parse(bad[i], &u, &err) >= 0)
			fail_msg("taken: %s", bad[i]);
		assert_int_equal(u.port, 7); /* untouched */
		assert_int_equal(err.kind, ERR_CALLER);
		assert_null(strstr(err.text, "secret"));
	}
	CLEANUP_FREE char *longest = xcalloc(1, 5001);
	memset(longest, 'a', 5000);
	memcpy(longest, "sqlite:/", 8);
	struct dburl u;
	assert_true(dburl_parse(longest, &u, NULL) < 0);
}

static void a_password_is_for_libpq_alone(void **state)
{
	CLEANUP_DBURL struct dburl u = { 0 };
	const char *url = "postgresql://u:a%3Ab%5Cc@h/d?password=x&z=1";
	assert_int_equal(dburl_parse("postgresql://u:a%3Ab%5Cc@h/d", &u, NULL), 0);
	CLEANUP_FREE char *line = dburl_pgpass(&u);
	assert_string_equal(line, "*:*:*:*:a\\:b\\\\c\n");
	CLEANUP_FREE char *shown = dburl_shown(url);
	assert_string_equal(shown, "postgresql://u:***@h/d?password=***&z=1");
	CLEANUP_FREE char *plain = dburl_shown("sqlite:/a/b");
	assert_string_equal(plain, "sqlite:/a/b");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_libpq_reads_is_read),
		cmocka_unit_test(a_file_is_absolute),
		cmocka_unit_test(what_is_none_is_refused_without_being_quoted),
		cmocka_unit_test(a_password_is_for_libpq_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

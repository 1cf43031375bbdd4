/* What strangers send, taken apart: addresses, ranges, hosts and origins, how often they ask. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "serve/auth.h"
#include "serve/range.h"
#include "serve/rate.h"
#include "serve/table_text.h"
#include "serve/url.h"

static void an_address_is_decoded_once(void **state)
{
	CLEANUP_URL struct url u = { 0 };
	assert_int_equal(url_parse("/v1/runs/a%2520b?q=x+y%26&limit=5&empty", &u, NULL), 0);
	assert_int_equal(u.path.n, 3);
	assert_string_equal(u.path.v[2], "a%20b");
	assert_string_equal(url_value(&u, "q"), "x y&");
	assert_string_equal(url_value(&u, "limit"), "5");
	assert_string_equal(url_value(&u, "empty"), "");
	assert_null(url_value(&u, "none"));
	CLEANUP_FREE char *rest = url_rest(&u, 1);
	assert_string_equal(rest, "runs/a%20b");
}

static void the_root_has_no_segments(void **state)
{
	CLEANUP_URL struct url u = { 0 };
	assert_int_equal(url_parse("/", &u, NULL), 0);
	assert_int_equal(u.path.n, 0);
}

static void what_could_mean_two_things_is_refused(void **state)
{
	static const char *const bad[] = { "",          "v1",     "http://x/", "*",     "//",
					   "/a/",       "/a//b",  "/.",        "/..",   "/a/%2e%2e",
					   "/%2e",      "/a%2fb", "/a%00",     "/a%",   "/a%4",
					   "/a%zz",     "/a b",   "/a\\b",     "/a#b",  "/a\x7f",
					   "/?a=1&a=2", "/?=1",   "/?a=%g0",   "/a\tb", NULL };
	for (const char *const *text = bad; *text; text++) {
		CLEANUP_URL struct url u = { 0 };
		struct err err = { 0 };
		if (url_parse(*text, &u, &err) != -EINVAL)
			fail_msg("'%s' was accepted", *text);
		assert_int_equal(u.path.n, 0);
		assert_true(err.text[0] != 0);
	}
}

static void too_much_is_refused(void **state)
{
	CLEANUP_URL struct url u = { 0 };
	CLEANUP_STR struct str many = { 0 }, long_ = { 0 };
	for (int i = 0; i <= URL_SEGMENTS; i++)
		str_add(&many, "/a");
	for (int i = 0; i <= URL_MAX; i++)
		str_add(&long_, "/");
	assert_int_equal(url_parse(str_text(&many), &u, NULL), -E2BIG);
	assert_int_equal(url_parse(str_text(&long_), &u, NULL), -E2BIG);
}

static void ranges(void **state)
{
	static const struct {
		const char *text;
		enum range range;
		uint64_t first, length;
	} cases[] = {
		{ NULL, RANGE_ALL, 0, 10 },         { "bytes=0-", RANGE_PART, 0, 10 },
		{ "bytes=2-4", RANGE_PART, 2, 3 },  { "bytes=-3", RANGE_PART, 7, 3 },
		{ "bytes=-30", RANGE_PART, 0, 10 }, { "bytes=9-99", RANGE_PART, 9, 1 },
		{ "bytes=10-", RANGE_NONE, 0, 10 }, { "bytes=-0", RANGE_NONE, 0, 10 },
		{ "bytes=4-2", RANGE_ALL, 0, 10 },  { "bytes=1-2,4-5", RANGE_ALL, 0, 10 },
		{ "bytes=", RANGE_ALL, 0, 10 },     { "bytes=+1-2", RANGE_ALL, 0, 10 },
		{ "items=1-2", RANGE_ALL, 0, 10 },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint64_t first = 99, length = 99;
		assert_int_equal(range_parse(cases[i].text, 10, &first, &length), cases[i].range);
		assert_int_equal(first, cases[i].first);
		assert_int_equal(length, cases[i].length);
	}
	uint64_t first = 0, length = 0;
	assert_int_equal(range_parse("bytes=0-0", 0, &first, &length), RANGE_NONE);
}

static void only_addresses_and_localhost_are_hosts(void **state)
{
	static const char *const good[] = { "localhost",     "LocalHost:80",    "127.0.0.1",
					    "10.0.0.1:8470", "[::1]:80",        "[::1]",
					    "localhost:1",   "[fe80::1]:65535", NULL };
	static const char *const bad[] = { "",
					   "example.org",
					   "127.0.0.1.example.org:80",
					   "[x]",
					   "localhost.example.org",
					   "[::1].evil",
					   "[::1]evil:80",
					   "[::1",
					   "[]",
					   "[::1]:",
					   "::1",
					   "127.0.0.1:80@evil",
					   "127.0.0.1:evil",
					   "127.0.0.1:",
					   "127.0.0.1:0",
					   "127.0.0.1:65536",
					   "127.0.0.1:80:80",
					   "127.0.0.1:+80",
					   "localhost:80/",
					   "evil@localhost",
					   "127.0.0.1,evil",
					   " localhost",
					   "[fe80::1%25eth0]",
					   "[127.0.0.1]",
					   "[[::1]]",
					   ":80",
					   NULL };
	for (const char *const *host = good; *host; host++)
		assert_true(auth_host_ok(*host));
	for (const char *const *host = bad; *host; host++)
		assert_false(auth_host_ok(*host));
	assert_false(auth_host_ok(NULL));
}

static void only_our_own_pages_change_things(void **state)
{
	assert_true(auth_origin_ok(NULL, NULL, "h"));
	assert_true(auth_origin_ok("http://h", "same-origin", "h"));
	assert_true(auth_origin_ok(NULL, "none", "h"));
	assert_true(auth_origin_ok("http://h", NULL, "h:80"));
	assert_true(auth_origin_ok("http://[::1]:8470", NULL, "[::1]:8470"));
	assert_true(auth_origin_ok("http://localhost:8470", NULL, "LocalHost:8470"));
	static const char *const wrong[] = { "https://h",     "ftp://h",   "HTTP://h",
					     "http://h:8470", "http://h/", "http://x@h",
					     "http:h",        "h",         "x http://h",
					     "http://",       "",          NULL };
	for (const char *const *origin = wrong; *origin; origin++)
		assert_false(auth_origin_ok(*origin, NULL, "h"));
	assert_false(auth_origin_ok("http://", NULL, ""));
	assert_false(auth_origin_ok("http://h", NULL, NULL));
	assert_false(auth_origin_ok("http://h:81", NULL, "h:82"));
	assert_false(auth_origin_ok("http://h.evil", NULL, "h"));
	assert_false(auth_origin_ok("null", NULL, "h"));
	assert_false(auth_origin_ok("http://h", "cross-site", "h"));
	assert_false(auth_origin_ok(NULL, "same-site", "h"));
}

static void a_bucket_empties_and_fills(void **state)
{
	struct rates *r = rates_new();
	uint64_t now = NS_PER_SEC;
	for (int i = 0; i < RATE_BURST; i++)
		assert_int_equal(rates_ask(r, "a", now), 0);
	assert_true(rates_ask(r, "a", now) > 0);
	assert_int_equal(rates_ask(r, "b", now), 0);
	now += NS_PER_SEC;
	for (int i = 0; i < RATE_PER_SECOND; i++)
		assert_int_equal(rates_ask(r, "a", now), 0);
	assert_true(rates_ask(r, "a", now) > 0);
	rates_free(r);
}

static void the_beginning_of_a_table(void **state)
{
	static const char text[] = "a,b\n\"x\n\"\"y\"\"\",2\r\n3";
	CLEANUP_JSON json_t *whole = table_text(text, sizeof text - 1, ',', 10, true);
	CLEANUP_JSON json_t *cut = table_text(text, sizeof text - 1, ',', 10, false);
	const json_t *rows = json_object_get(whole, "rows");
	assert_int_equal(json_array_size(rows), 2);
	assert_string_equal(json_string_value(json_array_get(json_array_get(rows, 0), 0)),
			    "x\n\"y\"");
	assert_string_equal(json_string_value(json_array_get(json_array_get(rows, 0), 1)), "2");
	assert_false(json_is_true(json_object_get(whole, "truncated")));
	assert_int_equal(json_array_size(json_object_get(cut, "rows")), 1);
	assert_true(json_is_true(json_object_get(cut, "truncated")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_is_decoded_once),
		cmocka_unit_test(the_root_has_no_segments),
		cmocka_unit_test(what_could_mean_two_things_is_refused),
		cmocka_unit_test(too_much_is_refused),
		cmocka_unit_test(ranges),
		cmocka_unit_test(only_addresses_and_localhost_are_hosts),
		cmocka_unit_test(only_our_own_pages_change_things),
		cmocka_unit_test(a_bucket_empties_and_fills),
		cmocka_unit_test(the_beginning_of_a_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Events out of bytes that are cut anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "serve/client_sse.h"

static void next_is(struct sse *s, const char *id, const char *event, const char *data)
{
	CLEANUP_SSE_EVENT struct sse_event e = { 0 };
	assert_true(sse_next(s, &e));
	assert_string_equal(e.id, id);
	assert_string_equal(e.event, event);
	assert_string_equal(e.data, data);
}

static void no_more(struct sse *s)
{
	struct sse_event e = { 0 };
	assert_false(sse_next(s, &e));
}

static const char all[] = "\xef\xbb\xbf: hello\n\nid: 7-1\nevent: run\ndata: {\"id\":\"a\"}\n\n"
			  "data:two\r\ndata: lines\r\n\r\nevent: none\n\nid:8\rdata\rdata: \r\r"
			  ":\n\nid: 9\nretry: 5\nunknown: x\ndata:  blank kept\n\n";

static void read_all(struct sse *s)
{
	next_is(s, "7-1", "run", "{\"id\":\"a\"}");
	next_is(s, "7-1", "message", "two\nlines");
	next_is(s, "8", "message", "\n");
	next_is(s, "9", "message", " blank kept");
	no_more(s);
}

static void test_whatever_the_pieces(void **state)
{
	for (size_t piece = 1; piece <= sizeof all - 1; piece++) {
		CLEANUP(sse_release) struct sse s = { 0 };
		for (size_t at = 0; at < sizeof all - 1; at += piece) {
			size_t n = sizeof all - 1 - at < piece ? sizeof all - 1 - at : piece;
			assert_int_equal(sse_feed(&s, all + at, n, NULL), 0);
		}
		read_all(&s);
	}
}

static void test_what_was_cut_is_no_event(void **state)
{
	CLEANUP(sse_release) struct sse s = { 0 };
	static const char half[] = "id: 1\ndata: whole\n\nid: 2\nevent: x\ndata: ha";
	static const char rest[] = "\n\ndata: new\n\n";
	assert_int_equal(sse_feed(&s, half, sizeof half - 1, NULL), 0);
	assert_string_equal(s.last_id, "1"); /* one goes on behind what is whole */
	sse_restart(&s);
	assert_int_equal(sse_feed(&s, rest, sizeof rest - 1, NULL), 0);
	next_is(&s, "1", "message", "whole");
	next_is(&s, "1", "message", "new");
	no_more(&s);
}

static void test_too_large(void **state)
{
	CLEANUP(sse_release) struct sse s = { 0 };
	CLEANUP_FREE char *much = xmalloc(1 << 20);
	struct err err = { 0 };
	int r = 0;
	memset(much, 'x', 1 << 20);
	for (int i = 0; i < 4 && r >= 0; i++)
		r = sse_feed(&s, much, 1 << 20, &err);
	assert_int_equal(r, 0); /* as much as there may be */
	assert_int_equal(sse_feed(&s, much, 1, &err), -E2BIG);
	assert_int_equal(err.kind, ERR_HOST);
}

static void test_too_many_lines(void **state)
{
	CLEANUP(sse_release) struct sse s = { 0 };
	CLEANUP_FREE char *line = xmalloc(1 << 16);
	int r = 0, n = 0;
	memset(line, 'x', 1 << 16);
	memcpy(line, "data:", 5);
	line[(1 << 16) - 1] = '\n';
	while (r >= 0 && n < 1000) {
		r = sse_feed(&s, line, 1 << 16, NULL);
		n++;
	}
	assert_int_equal(r, -E2BIG);
	assert_in_range(n, 60, 70);
}

static void test_an_id_that_is_none(void **state)
{
	CLEANUP(sse_release) struct sse s = { 0 };
	char id[SSE_ID_MAX + 20];
	memset(id, 'i', sizeof id);
	assert_int_equal(sse_feed(&s, "id: ok\nid: ", 11, NULL), 0);
	assert_int_equal(sse_feed(&s, id, sizeof id, NULL), 0);
	assert_int_equal(sse_feed(&s, "\ndata: x\n\n", 10, NULL), 0);
	next_is(&s, "ok", "message", "x");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whatever_the_pieces),
		cmocka_unit_test(test_what_was_cut_is_no_event),
		cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_too_many_lines),
		cmocka_unit_test(test_an_id_that_is_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

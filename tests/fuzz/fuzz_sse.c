/* Events of a stream are the same whatever the pieces that it comes in, and a cut leaves none that is not whole. */
#include "fuzz.h"

#include "serve/client_sse.h"

static void feed(struct sse *s, const uint8_t *data, size_t size, size_t piece)
{
	struct err err = { 0 };
	for (size_t at = 0; at < size; at += piece)
		CHECK(sse_feed(s, (const char *)data + at, size - at < piece ? size - at : piece,
			       &err) == 0);
	CHECK(err.kind == ERR_NONE);
}

static bool has_line_end(const char *text)
{
	return strpbrk(text, "\r\n") != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(sse_release) struct sse whole = { 0 };
	CLEANUP(sse_release) struct sse pieces = { 0 };
	if (size < 1 || size > 100000)
		return 0;
	feed(&whole, data + 1, size - 1, size);
	feed(&pieces, data + 1, size - 1, (size_t)data[0] % 7 + 1);
	CHECK(str_eq(whole.last_id, pieces.last_id));
	sse_restart(&pieces); /* what is whole stays */
	for (;;) {
		CLEANUP_SSE_EVENT struct sse_event a = { 0 };
		CLEANUP_SSE_EVENT struct sse_event b = { 0 };
		bool is_there = sse_next(&whole, &a);
		CHECK(sse_next(&pieces, &b) == is_there);
		if (!is_there)
			break;
		CHECK(str_eq(a.id, b.id) && str_eq(a.event, b.event) && str_eq(a.data, b.data));
		CHECK(!has_line_end(a.id) && !has_line_end(a.event) && !strchr(a.data, '\r'));
		CHECK(strlen(a.id) <= SSE_ID_MAX && a.event[0]);
	}
	return 0;
}

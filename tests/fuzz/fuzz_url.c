/* The target of a request, the Range of a file and the beginning of a table: what strangers send or made. */
#include "fuzz.h"

#include "serve/range.h"
#include "serve/table_text.h"
#include "serve/url.h"

/* Whatever is accepted is safe to be put together as a path. */
static void check_path(const struct url *u)
{
	for (size_t i = 0; i < u->path.n; i++) {
		const char *segment = u->path.v[i];
		CHECK(*segment && !strchr(segment, '/'));
		CHECK(strcmp(segment, ".") != 0 && strcmp(segment, "..") != 0);
	}
	CHECK(u->path.n <= URL_SEGMENTS && u->keys.n <= URL_PAIRS && u->keys.n == u->values.n);
	for (size_t i = 0; i < u->keys.n; i++)
		CHECK(url_value(u, u->keys.v[i]) == u->values.v[i]);
}

static void check_range(const char *text, uint64_t size)
{
	uint64_t first = 0, length = 0;
	enum range range = range_parse(text, size, &first, &length);
	CHECK(range != RANGE_ALL || (first == 0 && length == size));
	CHECK(range != RANGE_PART || (length > 0 && first < size && length <= size - first));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP_FREE char *text = fuzz_text(data, size);
	CLEANUP_URL struct url u = { 0 };
	struct err err = { 0 };
	if (fuzz_accepted(url_parse(text, &u, &err), &err)) {
		CLEANUP_FREE char *rest = url_rest(&u, 0);
		CHECK(rest[0] != '/');
		check_path(&u);
	}
	check_range(text, size);
	CLEANUP_JSON json_t *table = table_text((const char *)data, size, ',', 10, size % 2);
	CHECK(table && json_array_size(json_object_get(table, "rows")) <= 10);
	return 0;
}

/* The checks of outputs, over any bytes: the first byte says which format. None may read beyond its input, call what a confined process
 * could not, or take long; what they say is printable, and the same every time. */
#include "fuzz.h"

#include "collect/check.h"

#define BYTES_MAX ((uint64_t)4 << 20)

static void check_finding(const struct check_finding *f)
{
	CHECK(f->state > CHECK_NONE && f->state <= CHECK_DAMAGED);
	CHECK(memchr(f->text, '\0', sizeof f->text));
	CHECK((f->state == CHECK_OK) == (f->text[0] == '\0'));
	for (const char *c = f->text; *c; c++)
		CHECK(*c >= ' ' && *c < 127);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned char arena[CHECK_ARENA];
	if (size == 0)
		return 0;
	/* A copy of its own size, so that a byte too far is seen. */
	CLEANUP_FREE unsigned char *bytes = size > 1 ? xmalloc(size - 1) : NULL;
	if (bytes)
		memcpy(bytes, data + 1, size - 1);
	struct check_input input = { .format = data[0] % CHECK_FORMAT_COUNT_,
				     .bytes = bytes,
				     .size = size - 1,
				     .arena = arena,
				     .bytes_max = BYTES_MAX };
	struct check_finding first, again;
	check_bytes(&input, &first);
	check_bytes(&input, &again);
	check_finding(&first);
	CHECK(first.state == again.state && strcmp(first.text, again.text) == 0);
	return 0;
}

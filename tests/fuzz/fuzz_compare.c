/* Two outputs, with a NUL between them, as tables and as JSON documents: what is told of them is one
 * clean, short line; a file is never different from itself by a cell or a key. */
#include "fuzz.h"

#include "view/compare.h"

static FILE *open_bytes(const uint8_t *data, size_t size)
{
	FILE *file = size ? fmemopen((void *)data, size, "r") : fopen("/dev/null", "re");

	CHECK(file);
	return file;
}

struct bytes {
	const uint8_t *data;
	size_t size;
};

static enum compared look(const struct bytes *a, const struct bytes *b, const struct tolerance *t,
			  char form)
{
	CLEANUP_FILE FILE *of_a = open_bytes(a->data, a->size);
	CLEANUP_FILE FILE *of_b = open_bytes(b->data, b->size);
	struct compare_files f = { .a = of_a, .b = of_b, .tolerance = t };
	enum compared result = form == 'j' ? compare_json(&f) : compare_tables(&f, form);

	CHECK(result != COMPARED_SAME); /* that is for the bytes to say */
	if (result == COMPARED_DIFFERS)
		fuzz_check_line(str_text(&f.detail));
	CHECK(f.detail.length < 1000);
	str_release(&f.detail);
	return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char forms[] = { ',', '\t', 'j' };
	const struct tolerance none = { 0 }, some = { .is_said = true, .relative = 1e-6 };
	const uint8_t *nul = memchr(data, 0, size);
	size_t first = nul ? (size_t)(nul - data) : size;
	struct bytes a = { data, first };
	struct bytes b = { nul ? nul + 1 : data, nul ? size - first - 1 : size };

	for (size_t i = 0; i < sizeof forms; i++) {
		enum compared strict = look(&a, &b, &none, forms[i]);
		enum compared loose = look(&a, &b, &some, forms[i]);
		CHECK((strict == COMPARED_UNKNOWN) == (loose == COMPARED_UNKNOWN));
		enum compared same = look(&a, &a, &some, forms[i]);
		CHECK(same == COMPARED_NEAR || same == COMPARED_UNKNOWN);
	}
	return 0;
}

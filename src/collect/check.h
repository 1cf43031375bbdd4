/* Is an output what its format says? The bytes are hostile: they are given as memory, nothing is allocated, no call is made, and what is
 * inflated is counted against a cap and thrown away. Pure functions; collect/examine.c runs them where they can do no harm. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum check_format {
	CHECK_FORMAT_NONE,
	CHECK_FORMAT_GZIP,
	CHECK_FORMAT_BAM,
	CHECK_FORMAT_ZIP,
	CHECK_FORMAT_PNG,
	CHECK_FORMAT_HDF5,
	CHECK_FORMAT_PARQUET,
	CHECK_FORMAT_JSON,
	CHECK_FORMAT_JSON_LINES,
	CHECK_FORMAT_CSV,
	CHECK_FORMAT_TSV,
	CHECK_FORMAT_COUNT_
};
const char *check_format_name(enum check_format format);
/* By media type; NULL or one that is not known: none. */
enum check_format check_format_of(const char *media_type);

enum check_state {
	CHECK_NONE, /* nobody looked */
	CHECK_OK,
	CHECK_WARNED,    /* well-formed, but worth a look */
	CHECK_UNCHECKED, /* could not be looked at to its end */
	CHECK_DAMAGED,
};
const char *check_state_name(enum check_state state);

#define CHECK_TEXT 256
struct check_finding {
	enum check_state state;
	char text[CHECK_TEXT]; /* printable ASCII; "" when all is well */
};

/* Bytes read of a text, or inflated, of one file; what is beyond is not looked at, and the finding says so. */
#define CHECK_BYTES_MAX ((uint64_t)1 << 30)
#define CHECK_ARENA     ((size_t)1 << 20)

struct check_input {
	enum check_format format;
	const unsigned char *bytes; /* borrowed */
	size_t size;
	void *arena; /* borrowed; CHECK_ARENA bytes of room, zero or not */
	uint64_t bytes_max;
};

void check_bytes(const struct check_input *input, struct check_finding *ret);

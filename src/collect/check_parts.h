/* What the checks of the formats share: private to check*.c and inflate.c. */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "collect/check.h"

struct checking {
	const unsigned char *bytes; /* borrowed */
	size_t size;
	unsigned char *arena; /* borrowed */
	size_t arena_used;
	uint64_t left; /* of CHECK_BYTES_MAX */
	struct check_finding *finding;
};

/* The gravest state counts; texts follow each other. */
void checking_say(struct checking *c, enum check_state state, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Room that lasts as long as the check; NULL if there is none left. Aligned for anything. */
void *checking_room(struct checking *c, size_t size);
/* The first `room` - 1 bytes of a name, what is not printable as '?'. */
const char *checking_name(const unsigned char *bytes, size_t length, char *buffer, size_t room);

static inline bool checking_has(const struct checking *c, uint64_t at, uint64_t length)
{
	return at <= c->size && length <= c->size - at;
}

static inline bool checking_is(const struct checking *c, uint64_t at, const char *bytes,
			       size_t length)
{
	return checking_has(c, at, length) && memcmp(c->bytes + at, bytes, length) == 0;
}

static inline uint64_t le_at(const struct checking *c, uint64_t at, unsigned length)
{
	uint64_t value = 0;
	for (unsigned i = length; i-- > 0;)
		value = value << 8 | c->bytes[at + i];
	return value;
}

static inline uint32_t be32_at(const struct checking *c, uint64_t at)
{
	const unsigned char *p = c->bytes + at;
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* inflate.c */
enum inflated { INFLATED_WHOLE, INFLATED_CUT, INFLATED_BAD, INFLATED_CAP };
enum inflate_kind { INFLATE_RAW = -15, INFLATE_GZIP = 31 };
struct inflater;                                                           /* in the arena */
struct inflater *inflater_new(struct checking *c, enum inflate_kind kind); /* NULL: no room */

struct inflated_part {
	uint64_t used; /* of the input */
	uint64_t out;
	uint32_t crc;
	unsigned char first[4]; /* what it begins with; zeros if it is shorter */
};
/* One stream from `at`, at most `length` bytes of it. What comes out counts against c->left. */
enum inflated inflater_run(struct inflater *i, uint64_t at, uint64_t length,
			   struct inflated_part *ret);
uint32_t inflate_crc(const unsigned char *bytes, size_t length);

/* One for each format. */
void format_gzip(struct checking *c);
void format_bam(struct checking *c);
void format_zip(struct checking *c);
void format_png(struct checking *c);
void format_hdf5(struct checking *c);
void format_parquet(struct checking *c);
void format_json(struct checking *c);
void format_json_lines(struct checking *c);
void format_csv(struct checking *c);
void format_tsv(struct checking *c);

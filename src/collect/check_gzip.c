/* gzip, and BAM, which is gzip in small blocks that say how long they are. */
#include "collect/check_parts.h"

#define MEMBERS_MAX   50000000 /* empty ones cost time but no output */
#define BGZF_EOF_SIZE 28

static bool only_zeros(const struct checking *c, uint64_t at)
{
	for (; at < c->size; at++)
		if (c->bytes[at] != 0)
			return false;
	return true;
}

static void say_inflated(struct checking *c, enum inflated how, uint64_t at)
{
	if (how == INFLATED_CUT)
		checking_say(c, CHECK_DAMAGED, "truncated: the compressed data end too early");
	else if (how == INFLATED_BAD)
		checking_say(c, CHECK_DAMAGED,
			     "the compressed data are damaged, in the part at byte %llu",
			     (unsigned long long)at);
	else
		checking_say(c, CHECK_UNCHECKED,
			     "it holds more than is looked at; the rest was not checked");
}

/* True if every member is whole; *ret_first are the first bytes of the first. */
static bool members(struct checking *c, struct inflated_part *ret_first)
{
	struct inflater *i = inflater_new(c, INFLATE_GZIP);
	uint64_t at = 0;
	for (unsigned n = 0; i && at < c->size; n++) {
		struct inflated_part part = { 0 };
		if (n > 0 && !checking_is(c, at, "\x1f\x8b", 2)) {
			if (!only_zeros(c, at))
				checking_say(c, CHECK_WARNED, "something follows the gzip data");
			return true;
		}
		enum inflated how = n < MEMBERS_MAX ? inflater_run(i, at, c->size - at, &part)
						    : INFLATED_CAP;
		if (n == 0)
			*ret_first = part;
		if (how != INFLATED_WHOLE) {
			say_inflated(c, how, at);
			return false;
		}
		at += part.used;
	}
	return i;
}

void format_gzip(struct checking *c)
{
	struct inflated_part first = { 0 };
	if (!checking_is(c, 0, "\x1f\x8b", c->size < 2 ? 1 : 2))
		checking_say(c, CHECK_DAMAGED, "not gzip: it does not begin as such");
	else
		(void)members(c, &first);
}

/* By the lengths that the blocks give, without inflating anything: to the last byte, or cut. */
static bool blocks_add_up(const struct checking *c)
{
	uint64_t at = 0;
	while (checking_has(c, at, 18) && checking_is(c, at, "\x1f\x8b\x08\x04", 4) &&
	       checking_is(c, at + 12, "BC\x02\x00", 4))
		at += le_at(c, at + 16, 2) + 1;
	return at == c->size;
}

void format_bam(struct checking *c)
{
	static const char end[BGZF_EOF_SIZE] =
		"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0\x1b\0\x03\0\0\0\0\0\0\0\0";
	struct inflated_part first = { 0 };
	if (!checking_is(c, 0, "\x1f\x8b", 2)) {
		checking_say(c, CHECK_DAMAGED, "not BAM: it is not compressed in blocks");
		return;
	}
	if (!blocks_add_up(c)) {
		checking_say(c, CHECK_DAMAGED, "truncated: its last block is not whole");
		return;
	}
	bool whole = members(c, &first);
	if (whole && memcmp(first.first, "BAM\1", 4) != 0)
		checking_say(c, CHECK_DAMAGED, "not BAM: it does not begin as such");
	else if (c->size < BGZF_EOF_SIZE ||
		 !checking_is(c, c->size - BGZF_EOF_SIZE, end, BGZF_EOF_SIZE))
		checking_say(c, CHECK_DAMAGED,
			     "truncated: the block that ends a BAM file is missing");
}

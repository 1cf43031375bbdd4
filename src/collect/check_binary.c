/* PNG and HDF5: what they say of their own length and sums. */
#include "collect/check_parts.h"

#define PNG_SIGNATURE  "\x89PNG\r\n\x1a\n"
#define HDF5_SIGNATURE "\x89HDF\r\n\x1a\n"

static void check_png_header(struct checking *c)
{
	if (!checking_is(c, 12, "IHDR", 4))
		checking_say(c, CHECK_DAMAGED, "not PNG: it has no header");
	else if (be32_at(c, 16) == 0 || be32_at(c, 20) == 0)
		checking_say(c, CHECK_DAMAGED, "a picture without size");
}

void format_png(struct checking *c)
{
	uint64_t at = 8;
	bool data = false, end = false;
	if (!checking_is(c, 0, PNG_SIGNATURE, 8)) {
		checking_say(c, CHECK_DAMAGED, "not PNG: it does not begin as such");
		return;
	}
	while (!end) {
		uint64_t length = checking_has(c, at, 12) ? be32_at(c, at) : 0;
		if (!checking_has(c, at, 12 + length)) {
			checking_say(c, CHECK_DAMAGED, "truncated: the picture ends too early");
			return;
		}
		if (inflate_crc(c->bytes + at + 4, (size_t)length + 4) !=
		    be32_at(c, at + 8 + length)) {
			checking_say(c, CHECK_DAMAGED, "damaged at byte %llu",
				     (unsigned long long)at);
			return;
		}
		if (at == 8)
			check_png_header(c);
		data |= checking_is(c, at + 4, "IDAT", 4);
		end = checking_is(c, at + 4, "IEND", 4);
		at += 12 + length;
	}
	if (!data)
		checking_say(c, CHECK_DAMAGED, "a picture without data");
	if (at < c->size)
		checking_say(c, CHECK_WARNED, "something follows the picture");
}

/* The superblock is at 0, 512 or any doubling of it. */
static bool find_superblock(const struct checking *c, uint64_t *ret)
{
	for (uint64_t at = 0; at < c->size; at = at ? at * 2 : 512)
		if (checking_is(c, at, HDF5_SIGNATURE, 8)) {
			*ret = at;
			return true;
		}
	return false;
}

/* Where the two addresses stand that tell the file's length, by version; 0 if it is none that is known. */
static uint64_t addresses_at(unsigned version)
{
	static const uint64_t places[] = { 24, 28, 12, 12 };
	return version < sizeof places / sizeof *places ? places[version] : 0;
}

void format_hdf5(struct checking *c)
{
	uint64_t at;
	if (!find_superblock(c, &at)) {
		checking_say(c, CHECK_DAMAGED, "not HDF5: it has no superblock");
		return;
	}
	if (!checking_has(c, at, 64)) {
		checking_say(c, CHECK_DAMAGED, "truncated: its superblock is not whole");
		return;
	}
	unsigned version = c->bytes[at + 8];
	unsigned width = c->bytes[at + (version < 2 ? 13 : 9)];
	uint64_t place = addresses_at(version);
	if (!place || (width != 2 && width != 4 && width != 8) ||
	    !checking_has(c, at + place, 3ULL * width)) {
		checking_say(c, CHECK_UNCHECKED, "HDF5 of version %u is not known", version);
		return;
	}
	/* base, another one, end: all from the base on. */
	uint64_t base = le_at(c, at + place, width);
	uint64_t end = le_at(c, at + place + 2ULL * width, width);
	if (end < base || end > c->size)
		checking_say(c, CHECK_DAMAGED, "truncated: it should have %llu bytes and has %llu",
			     (unsigned long long)end, (unsigned long long)c->size);
	else if (version == 3 && (c->bytes[at + 11] & 1))
		checking_say(c, CHECK_DAMAGED, "whoever wrote it has not closed it");
}

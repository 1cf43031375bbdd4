/* zlib, with memory from the arena and output that is counted, summed and thrown away. */
#include <zlib.h>

#include "collect/check_parts.h"

#define OUT_SIZE  ((size_t)64 * 1024)
#define CHUNK_MAX ((uint64_t)1 << 30)

struct inflater {
	struct checking *c; /* borrowed */
	z_stream z;
	unsigned char *out; /* in the arena; OUT_SIZE */
};

static void *arena_alloc(void *opaque, unsigned count, unsigned size)
{
	return checking_room(opaque, (size_t)count * size);
}

static void arena_free(void *opaque, void *room)
{
	/* The arena goes as a whole. */
}

struct inflater *inflater_new(struct checking *c, enum inflate_kind kind)
{
	struct inflater *i = checking_room(c, sizeof *i);
	if (!i)
		return NULL;
	*i = (struct inflater){ .c = c, .out = checking_room(c, OUT_SIZE) };
	i->z.zalloc = arena_alloc;
	i->z.zfree = arena_free;
	i->z.opaque = c;
	return i->out && inflateInit2(&i->z, kind) == Z_OK ? i : NULL;
}

static void count(struct inflated_part *part, const unsigned char *out, size_t n)
{
	for (size_t k = 0; part->out + k < sizeof part->first && k < n; k++)
		part->first[part->out + k] = out[k];
	part->crc = (uint32_t)crc32(part->crc, out, (unsigned)n);
	part->out += n;
}

enum inflated inflater_run(struct inflater *i, uint64_t at, uint64_t length,
			   struct inflated_part *ret)
{
	struct inflated_part part = { .crc = (uint32_t)crc32(0, NULL, 0) };
	enum inflated how = inflateReset(&i->z) == Z_OK ? INFLATED_CUT : INFLATED_BAD;
	i->z.avail_in = 0;
	while (how == INFLATED_CUT) {
		if (i->z.avail_in == 0 && part.used == length)
			break;
		if (i->z.avail_in == 0) {
			uint64_t n = length - part.used;
			i->z.next_in = (unsigned char *)i->c->bytes + at + part.used;
			i->z.avail_in = (unsigned)(n < CHUNK_MAX ? n : CHUNK_MAX);
			part.used += i->z.avail_in;
		}
		i->z.next_out = i->out;
		i->z.avail_out = OUT_SIZE;
		int r = inflate(&i->z, Z_NO_FLUSH);
		size_t n = OUT_SIZE - i->z.avail_out;
		count(&part, i->out, n);
		if (n > i->c->left)
			how = INFLATED_CAP;
		else if (r == Z_STREAM_END)
			how = INFLATED_WHOLE;
		else if (r != Z_OK && r != Z_BUF_ERROR)
			how = INFLATED_BAD;
		i->c->left -= n < i->c->left ? n : i->c->left;
	}
	part.used -= i->z.avail_in;
	*ret = part;
	return how;
}

uint32_t inflate_crc(const unsigned char *bytes, size_t length)
{
	return (uint32_t)crc32_z(crc32(0, NULL, 0), bytes, length);
}

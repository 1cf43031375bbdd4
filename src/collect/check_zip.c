/* zip (and npz): its directory is at its end, and each entry in it must be there, whole. */
#include "collect/check_parts.h"

#define EOCD_SIZE    22
#define COMMENT_MAX  65535
#define CENTRAL_SIZE 46
#define LOCAL_SIZE   30
#define FULL32       0xffffffffu
#define ENCRYPTED    1

struct directory {
	uint64_t at, size, entries;
};

struct zip_entry {
	uint64_t at; /* of its local header */
	uint64_t packed, unpacked;
	uint32_t crc;
	unsigned method, flags;
	uint64_t name_at;
	size_t name_length;
};

static bool find_end(const struct checking *c, uint64_t *ret)
{
	uint64_t lowest = c->size > EOCD_SIZE + COMMENT_MAX ? c->size - EOCD_SIZE - COMMENT_MAX : 0;
	for (uint64_t at = c->size < EOCD_SIZE ? 0 : c->size - EOCD_SIZE + 1; at-- > lowest;)
		if (checking_is(c, at, "PK\5\6", 4) &&
		    at + EOCD_SIZE + le_at(c, at + 20, 2) == c->size) {
			*ret = at;
			return true;
		}
	return false;
}

/* zip64 keeps the large numbers in a record of its own, before the end. */
static bool read_end64(const struct checking *c, uint64_t end, struct directory *ret)
{
	if (end < 20 || !checking_is(c, end - 20, "PK\6\7", 4))
		return false;
	uint64_t at = le_at(c, end - 12, 8);
	if (!checking_has(c, at, 56) || !checking_is(c, at, "PK\6\6", 4))
		return false;
	*ret = (struct directory){ .entries = le_at(c, at + 32, 8),
				   .size = le_at(c, at + 40, 8),
				   .at = le_at(c, at + 48, 8) };
	return true;
}

static bool read_end(const struct checking *c, struct directory *ret)
{
	uint64_t end;
	if (c->size < EOCD_SIZE || !find_end(c, &end))
		return false;
	if (read_end64(c, end, ret))
		return true;
	*ret = (struct directory){ .entries = le_at(c, end + 10, 2),
				   .size = le_at(c, end + 12, 4),
				   .at = le_at(c, end + 16, 4) };
	return true;
}

/* The 64-bit values that stand in for those that are all ones, in their order. */
static bool read_extra64(const struct checking *c, uint64_t at, uint64_t end, struct zip_entry *e)
{
	uint64_t *wide[] = { &e->unpacked, &e->packed, &e->at };
	while (at + 4 <= end) {
		uint64_t tag = le_at(c, at, 2), length = le_at(c, at + 2, 2);
		at += 4;
		if (length > end - at)
			return false;
		for (size_t i = 0; tag == 1 && i < 3; i++) {
			if (*wide[i] != FULL32)
				continue;
			if (length < 8)
				return false;
			*wide[i] = le_at(c, at, 8);
			at += 8;
			length -= 8;
		}
		at += length;
	}
	return true;
}

/* Moves *at behind the entry. */
static bool read_entry(const struct checking *c, uint64_t *at, uint64_t end, struct zip_entry *ret)
{
	uint64_t from = *at;
	if (end - from < CENTRAL_SIZE || !checking_is(c, from, "PK\1\2", 4))
		return false;
	uint64_t name = le_at(c, from + 28, 2), extra = le_at(c, from + 30, 2);
	uint64_t size = CENTRAL_SIZE + name + extra + le_at(c, from + 32, 2);
	if (size > end - from)
		return false;
	*ret = (struct zip_entry){ .flags = (unsigned)le_at(c, from + 8, 2),
				   .method = (unsigned)le_at(c, from + 10, 2),
				   .crc = (uint32_t)le_at(c, from + 16, 4),
				   .packed = le_at(c, from + 20, 4),
				   .unpacked = le_at(c, from + 24, 4),
				   .at = le_at(c, from + 42, 4),
				   .name_at = from + CENTRAL_SIZE,
				   .name_length = (size_t)name };
	*at = from + size;
	return read_extra64(c, from + CENTRAL_SIZE + name, from + CENTRAL_SIZE + name + extra, ret);
}

enum entry_state { ENTRY_WHOLE, ENTRY_BROKEN, ENTRY_UNREAD };

static enum entry_state stored_state(struct checking *c, uint64_t data, const struct zip_entry *e)
{
	if (e->packed != e->unpacked)
		return ENTRY_BROKEN;
	if (e->packed > c->left)
		return ENTRY_UNREAD;
	c->left -= e->packed;
	return inflate_crc(c->bytes + data, (size_t)e->packed) == e->crc ? ENTRY_WHOLE
									 : ENTRY_BROKEN;
}

static enum entry_state entry_state(struct checking *c, struct inflater *i,
				    const struct zip_entry *e)
{
	struct inflated_part part = { 0 };
	if (!checking_has(c, e->at, LOCAL_SIZE) || !checking_is(c, e->at, "PK\3\4", 4))
		return ENTRY_BROKEN;
	uint64_t data = e->at + LOCAL_SIZE + le_at(c, e->at + 26, 2) + le_at(c, e->at + 28, 2);
	if (!checking_has(c, data, e->packed) || le_at(c, e->at + 8, 2) != e->method)
		return ENTRY_BROKEN;
	if (e->flags & ENCRYPTED)
		return ENTRY_UNREAD;
	if (e->method == 0)
		return stored_state(c, data, e);
	if (e->method != 8)
		return ENTRY_UNREAD;
	enum inflated how = inflater_run(i, data, e->packed, &part);
	if (how == INFLATED_CAP)
		return ENTRY_UNREAD;
	return how == INFLATED_WHOLE && part.crc == e->crc && part.out == e->unpacked
		       ? ENTRY_WHOLE
		       : ENTRY_BROKEN;
}

void format_zip(struct checking *c)
{
	struct directory d;
	struct inflater *i = inflater_new(c, INFLATE_RAW);
	if (!read_end(c, &d) || !checking_has(c, d.at, d.size)) {
		checking_say(c, CHECK_DAMAGED,
			     checking_is(c, 0, "PK", 2)
				     ? "truncated: the directory at its end is missing"
				     : "not zip: it has no directory at its end");
		return;
	}
	uint64_t at = d.at, unread = 0;
	for (uint64_t n = 0; i && n < d.entries; n++) {
		struct zip_entry e;
		char name[64];
		if (!read_entry(c, &at, d.at + d.size, &e)) {
			checking_say(c, CHECK_DAMAGED, "its directory is damaged");
			return;
		}
		enum entry_state state = entry_state(c, i, &e);
		unread += state == ENTRY_UNREAD;
		if (state != ENTRY_BROKEN)
			continue;
		checking_say(c, CHECK_DAMAGED, "its entry '%s' is damaged",
			     checking_name(c->bytes + e.name_at, e.name_length, name, sizeof name));
		return;
	}
	if (unread)
		checking_say(c, CHECK_UNCHECKED, "%llu of its entries were not checked",
			     (unsigned long long)unread);
}

/* Parquet: its metadata, at its end, are a structure of Thrift's compact protocol that must be whole. */
#include "collect/check_parts.h"

#define DEPTH_MAX 24

struct thrift {
	const struct checking *c; /* borrowed */
	uint64_t at, end;
	bool bad;
	bool has_rows; /* the field that counts them was there */
	uint64_t rows;
};

enum thrift_type {
	THRIFT_STOP,
	THRIFT_TRUE,
	THRIFT_FALSE,
	THRIFT_BYTE,
	THRIFT_I16,
	THRIFT_I32,
	THRIFT_I64,
	THRIFT_DOUBLE,
	THRIFT_BINARY,
	THRIFT_LIST,
	THRIFT_SET,
	THRIFT_MAP,
	THRIFT_STRUCT,
};

static void skip(struct thrift *t, uint64_t length)
{
	if (length > t->end - t->at)
		t->bad = true;
	else
		t->at += length;
}

static unsigned byte(struct thrift *t)
{
	if (t->at >= t->end) {
		t->bad = true;
		return 0;
	}
	return t->c->bytes[t->at++];
}

static uint64_t varint(struct thrift *t)
{
	uint64_t value = 0;
	for (unsigned shift = 0; shift < 64 && !t->bad; shift += 7) {
		unsigned b = byte(t);
		value |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return value;
	}
	t->bad = true;
	return 0;
}

static void value(struct thrift *t, unsigned type, unsigned depth);

/* Each element takes a byte at least, so no count costs more than the bytes there are. */
static void elements(struct thrift *t, uint64_t count, unsigned type, unsigned depth)
{
	for (; count > 0 && !t->bad; count--)
		if (type == THRIFT_TRUE || type == THRIFT_FALSE)
			skip(t, 1);
		else
			value(t, type, depth);
}

static void list(struct thrift *t, unsigned depth)
{
	unsigned head = byte(t);
	uint64_t count = head >> 4 == 15 ? varint(t) : head >> 4;
	elements(t, count, head & 15, depth);
}

static void map(struct thrift *t, unsigned depth)
{
	uint64_t count = varint(t);
	unsigned types = count ? byte(t) : 0;
	for (; count > 0 && !t->bad; count--) {
		elements(t, 1, types >> 4, depth);
		elements(t, 1, types & 15, depth);
	}
}

static void structure(struct thrift *t, unsigned depth)
{
	uint64_t id = 0;
	while (!t->bad) {
		unsigned head = byte(t);
		if ((head & 15) == THRIFT_STOP)
			return;
		uint64_t number = head >> 4 ? 0 : varint(t);
		id = head >> 4 ? id + (head >> 4) : number >> 1;
		if (depth == 0 && id == 3 && (head & 15) == THRIFT_I64) {
			t->rows = varint(t) >> 1;
			t->has_rows = !t->bad;
		} else {
			value(t, head & 15, depth + 1);
		}
	}
}

static void value(struct thrift *t, unsigned type, unsigned depth)
{
	if (depth > DEPTH_MAX)
		t->bad = true;
	else if (type == THRIFT_BYTE)
		skip(t, 1);
	else if (type >= THRIFT_I16 && type <= THRIFT_I64)
		(void)varint(t);
	else if (type == THRIFT_DOUBLE)
		skip(t, 8);
	else if (type == THRIFT_BINARY)
		skip(t, varint(t));
	else if (type == THRIFT_LIST || type == THRIFT_SET)
		list(t, depth + 1);
	else if (type == THRIFT_MAP)
		map(t, depth + 1);
	else if (type == THRIFT_STRUCT)
		structure(t, depth + 1);
	else if (type != THRIFT_TRUE && type != THRIFT_FALSE)
		t->bad = true;
}

void format_parquet(struct checking *c)
{
	if (checking_is(c, 0, "PARE", 4)) {
		checking_say(c, CHECK_UNCHECKED, "its metadata are encrypted");
		return;
	}
	if (!checking_is(c, 0, "PAR1", 4)) {
		checking_say(c, CHECK_DAMAGED, "not Parquet: it does not begin as such");
		return;
	}
	if (c->size < 12 || !checking_is(c, c->size - 4, "PAR1", 4)) {
		checking_say(c, CHECK_DAMAGED, "truncated: the metadata at its end are missing");
		return;
	}
	uint64_t length = le_at(c, c->size - 8, 4);
	if (length > c->size - 12) {
		checking_say(c, CHECK_DAMAGED, "its metadata are longer than the file");
		return;
	}
	struct thrift t = { .c = c, .at = c->size - 8 - length, .end = c->size - 8 };
	structure(&t, 0);
	if (t.bad || t.at != t.end || !t.has_rows)
		checking_say(c, CHECK_DAMAGED, "its metadata are damaged");
	else if (t.rows == 0)
		checking_say(c, CHECK_WARNED, "it has no rows");
}

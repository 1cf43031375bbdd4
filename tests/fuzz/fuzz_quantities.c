/* Sizes, durations, cpus, counts: what is accepted is a positive number that is written and read
 * back exactly; writers and printers need no more room than their header promises. The first eight
 * bytes are also taken as a number to write. */
#include "fuzz.h"

#include "base/num.h"
#include "spec/limits.h"

#define CPUS_MAX  (4096 * 1000)
#define COUNT_MAX (1ULL << 53)
#define ROOM      32 /* of which num.h says that it is enough */

typedef int reader(const char *text, uint64_t *ret, struct err *err);
typedef char *writer(uint64_t value, char *buffer, size_t room);

/* The text, which must be the same in more room. */
static const char *write_in_room(writer *write, uint64_t value, char buffer[ROOM])
{
	char more[2 * ROOM];

	CHECK(write(value, buffer, ROOM) == buffer);
	CHECK(str_eq(buffer, write(value, more, sizeof(more))));
	return buffer;
}

static void check_round_trip(reader *read, writer *write, uint64_t value)
{
	char buffer[ROOM];
	struct err err = { 0 };
	uint64_t back = 0;

	CHECK(fuzz_accepted(read(write_in_room(write, value, buffer), &back, &err), &err));
	CHECK(back == value);
}

static char *write_count(uint64_t value, char *buffer, size_t room)
{
	(void)snprintf(buffer, room, "%llu", (unsigned long long)value);
	return buffer;
}

struct quantity {
	reader *read;
	writer *write;
	uint64_t max;
	const char *bytes; /* that may stand in it */
};

static void check_text(const struct quantity *q, const char *text)
{
	struct err err = { 0 };
	uint64_t value = 4711;

	if (!fuzz_accepted(q->read(text, &value, &err), &err)) {
		CHECK(value == 4711); /* untouched */
		return;
	}
	CHECK(value >= 1 && value <= q->max);
	CHECK(text[strspn(text, q->bytes)] == '\0' && text[0] >= '0' && text[0] <= '9');
	check_round_trip(q->read, q->write, value);
}

static void check_limits(const char *text)
{
	for (int id = 0; id < LIMIT_COUNT_; id++) {
		struct err err = { 0 };
		uint64_t value = 0;
		if (fuzz_accepted(limit_parse(id, text, &value, &err), &err))
			CHECK(value >= limit_infos[id].minimum && value > 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct quantity all[] = {
		{ num_size, num_write_size, INT64_MAX, "0123456789.BKMGTPIbkmgtpi" },
		{ num_duration, num_write_duration, INT64_MAX, "0123456789.dhms" },
		{ num_cpus, num_write_cpus, CPUS_MAX, "0123456789." },
		{ num_count, write_count, COUNT_MAX, "0123456789" },
	};
	CLEANUP_FREE char *text = fuzz_text(data, size);
	uint64_t value = 0;
	char buffer[ROOM];

	memcpy(&value, data, size < sizeof(value) ? size : sizeof(value));
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		check_text(&all[i], text);
		(void)write_in_room(all[i].write, value, buffer);
		if (value >= (all[i].max == CPUS_MAX ? 10 : 1) && value <= all[i].max)
			check_round_trip(all[i].read, all[i].write, value);
	}
	(void)write_in_room(num_print_size, value, buffer);
	(void)write_in_room(num_print_duration, value, buffer);
	check_limits(text);
	return 0;
}

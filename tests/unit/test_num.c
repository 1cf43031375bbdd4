/* num: what is accepted is exact, everything else is refused with a remedy. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/num.h"

#define UNTOUCHED 12345

typedef int reader(const char *text, uint64_t *ret, struct err *err);

struct good {
	const char *text;
	uint64_t value;
};

static void accepts(reader *read, const struct good *good)
{
	for (; good->text; good++) {
		struct err err = { 0 };
		uint64_t value = UNTOUCHED;

		if (read(good->text, &value, &err) != 0)
			fail_msg("'%s' was refused: %s", good->text, err.text);
		if (value != good->value)
			fail_msg("'%s' was read as %llu", good->text, (unsigned long long)value);
	}
}

static void refuses(reader *read, const char *const *bad)
{
	for (; *bad; bad++) {
		struct err err = { 0 };
		uint64_t value = UNTOUCHED;

		if (read(*bad, &value, &err) >= 0)
			fail_msg("'%s' was read as %llu", *bad, (unsigned long long)value);
		assert_int_equal(value, UNTOUCHED);
		assert_int_equal(err.kind, ERR_CALLER);
		assert_non_null(strstr(err.text, ": write "));
		assert_null(strpbrk(err.text, "\n\t\033"));
		assert_true(read(*bad, &value, NULL) < 0);
	}
}

/* No reader takes any of these. */
static const char *const bad_everywhere[] = {
	"",
	" ",
	"-1",
	"+1",
	"-1G",
	"+1G",
	" 1",
	"1 ",
	" 1G",
	"1G ",
	"1 G",
	"nan",
	"NaN",
	"inf",
	"infinity",
	"max",
	"none",
	"1e9",
	"1e9B",
	"0x10",
	"0x10K",
	"0",
	"0.0",
	"0G",
	"0s",
	"0.0h",
	".5",
	".5G",
	"5.",
	"5.G",
	"1.5.2G",
	"1,5G",
	"1_000M",
	"\n1",
	"1\n",
	"1G\n",
	"2\0333",
	"٣",
	"１G",
	"G",
	"s",
	"--",
	"1GG",
	"unlimited",
	"18446744073709551616",
	"18446744073709551616G",
	"99999999999999999999999999999999999999999999999999999999",
	"0.0000000001",
	"1.0000000001",
	"1.0000000001G",
	"1.0000000001s",
	"1x",
	"1/2",
	"50%",
	NULL
};

static void u64(void **state)
{
	uint64_t value = UNTOUCHED;

	assert_int_equal(num_u64("0", 10, &value), 0);
	assert_int_equal(value, 0);
	assert_int_equal(num_u64("18446744073709551615", UINT64_MAX, &value), 0);
	assert_true(value == UINT64_MAX);
	value = UNTOUCHED;
	assert_int_equal(num_u64("18446744073709551616", UINT64_MAX, &value), -ERANGE);
	assert_int_equal(num_u64("11", 10, &value), -ERANGE);
	assert_int_equal(num_u64("99999999999999999999x", 10, &value), -EINVAL);
	assert_int_equal(num_u64("", 10, &value), -EINVAL);
	assert_int_equal(num_u64("-1", 10, &value), -EINVAL);
	assert_int_equal(num_u64("1 ", 10, &value), -EINVAL);
	assert_int_equal(num_u64("1.0", 10, &value), -EINVAL);
	assert_int_equal(value, UNTOUCHED);
}

static void sizes(void **state)
{
	static const struct good good[] = {
		{ "512M", 512ULL << 20 },
		{ "2G", 2ULL << 30 },
		{ "1.5G", 3ULL << 29 },
		{ "64K", 64 << 10 },
		{ "64KiB", 64 << 10 },
		{ "64KB", 64 << 10 },
		{ "100B", 100 },
		{ "100b", 100 },
		{ "2g", 2ULL << 30 },
		{ "2Gi", 2ULL << 30 },
		{ "2GB", 2ULL << 30 },
		{ "2gb", 2ULL << 30 },
		{ "2GiB", 2ULL << 30 },
		{ "2gib", 2ULL << 30 },
		{ "512m", 512ULL << 20 },
		{ "1.5ki", 1536 },
		{ "1T", 1ULL << 40 },
		{ "8191P", 8191ULL << 50 },
		{ "0.5K", 512 },
		{ "0.1K", 102 },
		{ "1.000000000M", 1 << 20 },
		{ "0.001G", 1073741 },
		{ "9223372036854775807B", INT64_MAX },
		{ 0 },
	};
	static const char *const bad[] = { "1",
					   "2048",
					   "512mm",
					   "512mbi",
					   "1Bi",
					   "1BB",
					   "1i",
					   "1iB",
					   "1.5B",
					   "0.0001K",
					   "8192P",
					   "1E",
					   "1s",
					   "1BK",
					   "9223372036854775808B",
					   "18446744073709551615P",
					   NULL };
	struct err err;
	uint64_t value = 0;

	accepts(num_size, good);
	refuses(num_size, bad);
	refuses(num_size, bad_everywhere);
	assert_int_equal(num_size("2048", &value, &err), -EINVAL);
	assert_string_equal(err.text, "'2048' has no unit: write 2048M or 2G");
	(void)num_size("500", &value, &err);
	assert_string_equal(err.text, "'500' has no unit: write 500M or 500G");
	(void)num_size("512X", &value, &err);
	assert_string_equal(
		err.text,
		"'512X': 'X' is not a unit of size: write a size such as 512M, 1.5G or 64K");
	assert_int_equal(num_size("0G", &value, &err), -ERANGE);
}

static void durations(void **state)
{
	static const struct good good[] = {
		{ "250ms", 250 * NS_PER_MS },
		{ "90s", 90 * NS_PER_SEC },
		{ "30m", 1800 * NS_PER_SEC },
		{ "1.5h", 5400 * NS_PER_SEC },
		{ "1h30m", 5400 * NS_PER_SEC },
		{ "2d", 172800 * NS_PER_SEC },
		{ "1d2h3m4s5ms", 93784 * NS_PER_SEC + 5 * NS_PER_MS },
		{ "1m1ms", 60 * NS_PER_SEC + NS_PER_MS },
		{ "0h5m", 300 * NS_PER_SEC },
		{ "0.000001ms", 1 },
		{ "0.000000001s", 1 },
		{ "106751d", 106751ULL * 86400 * NS_PER_SEC },
		{ 0 },
	};
	static const char *const bad[] = {
		"1",      "1800",    "30m1h",  "1h1h",         "1s1ms1s",    "1ms1s", "1.5h30m",
		"1h1.5m", "1h30",    "h1",     "1h 30m",       "1H",         "1min",  "1us",
		"0h0m",   "106752d", "1h-30m", "106751d24h1d", "106751d99h", "1h.5m", NULL
	};
	struct err err;
	uint64_t value = 0;

	accepts(num_duration, good);
	refuses(num_duration, bad);
	refuses(num_duration, bad_everywhere);
	(void)num_duration("1800", &value, &err);
	assert_string_equal(err.text, "'1800' has no unit: write 1800s or 30m");
	(void)num_duration("30m1h", &value, &err);
	assert_non_null(strstr(err.text, "'30m1h': each unit comes once, the longest first"));
}

static void cpus(void **state)
{
	static const struct good good[] = { { "0.5", 500 },          { "1.5", 1500 },
					    { "8", 8000 },           { "0.01", 10 },
					    { "4096", 4096000 },     { "0.125", 125 },
					    { "1.500000000", 1500 }, { 0 } };
	static const char *const bad[] = { "0.009", "0.0015", "4096.001", "4097", "1G",
					   "1s",    "0.00",   "1.0005",   NULL };

	accepts(num_cpus, good);
	refuses(num_cpus, bad);
	refuses(num_cpus, bad_everywhere);
}

static void counts(void **state)
{
	static const struct good good[] = { { "1", 1 },
					    { "9007199254740992", 9007199254740992 },
					    { 0 } };
	static const char *const bad[] = { "9007199254740993", "1.0", "1.5", "1K", "00", NULL };

	accepts(num_count, good);
	refuses(num_count, bad);
	refuses(num_count, bad_everywhere);
}

static void long_text_is_cut_in_the_error(void **state)
{
	char text[5000];
	struct err err;
	uint64_t value = 0;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(num_size(text, &value, &err), -EINVAL);
	assert_true(strlen(err.text) < 200);
	text[0] = '1';
	assert_int_equal(num_size(text, &value, &err), -EINVAL);
	assert_int_equal(num_duration(text, &value, &err), -EINVAL);
	assert_true(strlen(err.text) < 200);
}

static void written_is_read_back(void **state)
{
	static const uint64_t values[] = {
		1,        100,     1023,       1024,          1536 << 20,    2ULL << 30,
		999999,   1000000, 1500000000, 1800000000000, 5400000000000, 1234567890123456789,
		INT64_MAX
	};
	char buffer[32];
	uint64_t back = 0;

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		assert_int_equal(num_size(num_write_size(values[i], buffer, 32), &back, NULL), 0);
		assert_true(back == values[i]);
		assert_int_equal(
			num_duration(num_write_duration(values[i], buffer, 32), &back, NULL), 0);
		assert_true(back == values[i]);
	}
	for (uint64_t milli = 10; milli <= 4096000; milli += milli < 20000 ? 1 : 997) {
		assert_int_equal(num_cpus(num_write_cpus(milli, buffer, 32), &back, NULL), 0);
		assert_int_equal(back, milli);
	}
	assert_string_equal(num_write_size(2ULL << 30, buffer, 32), "2G");
	assert_string_equal(num_write_size(1536ULL << 20, buffer, 32), "1536M");
	assert_string_equal(num_write_size(100, buffer, 32), "100B");
	assert_string_equal(num_write_duration(1800 * NS_PER_SEC, buffer, 32), "30m");
	assert_string_equal(num_write_duration(1500 * NS_PER_MS, buffer, 32), "1500ms");
	assert_string_equal(num_write_duration(1500000, buffer, 32), "1.5ms");
	assert_string_equal(num_write_cpus(1500, buffer, 32), "1.5");
	assert_string_equal(num_write_cpus(10000, buffer, 32), "10");
}

static void printed_for_people(void **state)
{
	char buffer[32];

	assert_string_equal(num_print_size(0, buffer, 32), "0 B");
	assert_string_equal(num_print_size(1023, buffer, 32), "1023 B");
	assert_string_equal(num_print_size(2ULL << 30, buffer, 32), "2.0 GiB");
	assert_string_equal(num_print_size((1ULL << 20) - 1, buffer, 32), "1.0 MiB");
	assert_string_equal(num_print_size(UINT64_MAX, buffer, 32), "16.0 EiB");
	assert_string_equal(num_print_duration(0, buffer, 32), "0 us");
	assert_string_equal(num_print_duration(250 * NS_PER_MS, buffer, 32), "250 ms");
	assert_string_equal(num_print_duration(1500 * NS_PER_MS, buffer, 32), "1.50 s");
	assert_string_equal(num_print_duration(59999999999, buffer, 32), "59.99 s");
	assert_string_equal(num_print_duration(1800 * NS_PER_SEC, buffer, 32), "30m");
	assert_string_equal(num_print_duration(90 * NS_PER_SEC, buffer, 32), "1m30s");
	assert_string_equal(num_print_duration(5400 * NS_PER_SEC, buffer, 32), "1h30m");
	assert_string_equal(num_print_duration(90000 * NS_PER_SEC, buffer, 32), "1d1h");
	assert_true(strlen(num_print_duration(UINT64_MAX, buffer, 32)) < 31);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(u64),
		cmocka_unit_test(sizes),
		cmocka_unit_test(durations),
		cmocka_unit_test(cpus),
		cmocka_unit_test(counts),
		cmocka_unit_test(long_text_is_cut_in_the_error),
		cmocka_unit_test(written_is_read_back),
		cmocka_unit_test(printed_for_people),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

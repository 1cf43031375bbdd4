/* Strict numbers. All four readers share one decimal form, a whole part and at most nine decimals,
 * multiplied exactly and cut, so that no limit is ever larger than what was written. */
#include "base/num.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

#define BILLION 1000000000ULL
/* off_t, time_t and deadlines (now + limit) hold whatever these readers let through. */
#define VALUE_MAX ((uint64_t)INT64_MAX)
#define COUNT_MAX (1ULL << 53)

struct unit {
	const char *name;
	uint64_t factor;
};

/* Powers of 1024, whatever is written behind the letter: a limit of "2GB" must not be smaller than one of "2G". */
static const char size_letters[] = "BKMGTP";

/* Longest first: their order in a text. */
static const struct unit duration_units[] = {
	{ "d", 86400 * NS_PER_SEC }, { "h", 3600 * NS_PER_SEC }, { "m", 60 * NS_PER_SEC },
	{ "s", NS_PER_SEC },         { "ms", NS_PER_MS },
};

#define UNITS(table) (sizeof(table) / sizeof((table)[0]))

/* The text as given, for an error: short, and harmless to a terminal. */
struct shown {
	char text[48];
};

static struct shown show(const char *text)
{
	struct shown s;
	size_t n = strnlen(text, sizeof(s.text));
	bool cut = n >= sizeof(s.text);

	if (cut)
		n = sizeof(s.text) - 4;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];
		s.text[i] = c < 0x20 || c >= 0x7f ? '?' : text[i];
	}
	memcpy(s.text + n, cut ? "..." : "", cut ? 4 : 1);
	return s;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

struct decimal {
	uint64_t whole;
	uint32_t billionths;
	unsigned decimals;
	const char *end; /* borrowed: what follows */
};

/* -EINVAL: does not begin with a number; -ERANGE: too large, or more than nine decimals. */
static int decimal_read(const char *text, struct decimal *ret)
{
	struct decimal d = { .end = text };
	uint32_t scale = BILLION / 10;

	if (!is_digit(*text))
		return -EINVAL;
	for (; is_digit(*d.end); d.end++)
		if (__builtin_mul_overflow(d.whole, 10U, &d.whole) ||
		    __builtin_add_overflow(d.whole, (uint64_t)(*d.end - '0'), &d.whole))
			return -ERANGE;
	if (*d.end == '.') {
		d.end++;
		if (!is_digit(*d.end))
			return -EINVAL;
		for (; is_digit(*d.end); d.end++, d.decimals++) {
			if (d.decimals == 9)
				return -ERANGE;
			d.billionths += (uint32_t)(*d.end - '0') * scale;
			scale /= 10;
		}
	}
	*ret = d;
	return 0;
}

/* Rounded down; false above VALUE_MAX. */
static bool decimal_times(const struct decimal *d, uint64_t factor, uint64_t *ret)
{
	if (d->whole > VALUE_MAX / factor)
		return false;

	unsigned __int128 part = (unsigned __int128)d->billionths * factor / BILLION;
	uint64_t value = d->whole * factor + (uint64_t)part; /* < 2^63 + 2^57 */
	if (value > VALUE_MAX)
		return false;
	*ret = value;
	return true;
}

int num_u64(const char *text, uint64_t max, uint64_t *ret)
{
	uint64_t value = 0;

	if (!text || !*text)
		return -EINVAL;
	for (const char *p = text; *p; p++)
		if (!is_digit(*p))
			return -EINVAL;
	for (const char *p = text; *p; p++)
		if (__builtin_mul_overflow(value, 10U, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value) || value > max)
			return -ERANGE;
	*ret = value;
	return 0;
}

/* What decimal_read refused, in words; `accepted` tells the accepted form. */
static int decimal_failed(int r, const char *text, const char *accepted, struct err *err)
{
	struct shown s = show(text);

	if (r == -ERANGE)
		return err_set(err, ERR_CALLER, ERANGE,
			       "'%s' is too large or has more than 9 decimals: write %s", s.text,
			       accepted);
	if (!*text)
		return err_caller(err, "the value is empty: write %s", accepted);
	if (*text == '-' || *text == '+')
		return err_caller(err, "'%s' has a sign: write %s", s.text, accepted);
	return err_caller(err, "'%s' is not a number: write %s", s.text, accepted);
}

static int out_of_range(const char *text, const char *accepted, struct err *err)
{
	struct shown s = show(text);

	return err_set(err, ERR_CALLER, ERANGE, "'%s' is too large: write %s", s.text, accepted);
}

static int is_zero(const char *text, const char *accepted, struct err *err)
{
	struct shown s = show(text);

	return err_set(err, ERR_CALLER, ERANGE, "'%s' is zero, which is no limit: write %s", s.text,
		       accepted);
}

#define SIZE_FORM "a size such as 512M, 1.5G or 64K"

static int size_without_unit(const char *text, const struct decimal *d, struct err *err)
{
	struct shown s = show(text);

	if (d->whole == 0 && d->billionths == 0)
		return err_caller(err, "'%s' is no limit: write " SIZE_FORM, s.text);
	if (d->decimals == 0 && d->whole >= 1 << 20) /* bytes, surely */
		return err_caller(err, "'%s' has no unit: write %sB or %lluM", s.text, s.text,
				  (unsigned long long)d->whole >> 20);
	if (d->decimals == 0 && d->whole >= 1024 && d->whole % 1024 == 0)
		return err_caller(err, "'%s' has no unit: write %sM or %lluG", s.text, s.text,
				  (unsigned long long)d->whole / 1024);
	return err_caller(err, "'%s' has no unit: write %sM or %sG", s.text, s.text, s.text);
}

/* 2G, 2g, 2GB, 2Gi and 2GiB are the same. 0: it is no unit of size. */
static uint64_t size_factor(const char *unit)
{
	static const char *const endings[] = { "", "B", "i", "iB" };
	const char *letter = strchr(size_letters, toupper((unsigned char)unit[0]));
	for (size_t i = 0; letter && unit[0] && i < UNITS(endings); i++)
		if (strcasecmp(unit + 1, endings[i]) == 0 && (i == 0 || letter != size_letters))
			return 1ULL << (10 * (letter - size_letters));
	return 0;
}

int num_size(const char *text, uint64_t *ret_bytes, struct err *err)
{
	struct decimal d;
	uint64_t bytes = 0;

	int r = decimal_read(text, &d);
	if (r < 0)
		return decimal_failed(r, text, SIZE_FORM, err);
	if (!*d.end)
		return size_without_unit(text, &d, err);
	uint64_t factor = size_factor(d.end);
	if (!factor)
		return err_caller(err, "'%s': '%s' is not a unit of size: write " SIZE_FORM,
				  show(text).text, show(d.end).text);
	if (factor == 1 && d.decimals > 0)
		return err_caller(err, "'%s': bytes have no fraction: write " SIZE_FORM,
				  show(text).text);
	if (!decimal_times(&d, factor, &bytes))
		return out_of_range(text, SIZE_FORM, err);
	if (bytes == 0)
		return is_zero(text, SIZE_FORM, err);
	*ret_bytes = bytes;
	return 0;
}

#define DURATION_FORM "a duration such as 90s, 30m, 1.5h or 1h30m"

static int duration_without_unit(const char *text, const struct decimal *d, struct err *err)
{
	struct shown s = show(text);

	if (d->whole == 0 && d->billionths == 0)
		return err_caller(err, "'%s' is no limit: write " DURATION_FORM, s.text);
	if (d->decimals == 0 && d->whole >= 60 && d->whole % 60 == 0)
		return err_caller(err, "'%s' has no unit: write %ss or %llum", s.text, s.text,
				  (unsigned long long)d->whole / 60);
	return err_caller(err, "'%s' has no unit: write %ss or %sm", s.text, s.text, s.text);
}

/* Index of the unit in duration_units that is all letters at `text`, or UNITS(duration_units). */
static size_t duration_unit(const char *text, size_t length)
{
	size_t i = 0;

	while (i < UNITS(duration_units) && !(strlen(duration_units[i].name) == length &&
					      memcmp(text, duration_units[i].name, length) == 0))
		i++;
	return i;
}

int num_duration(const char *text, uint64_t *ret_ns, struct err *err)
{
	uint64_t total = 0;
	size_t next = 0; /* the longest unit that may still come */
	bool fraction = false;

	for (const char *at = text; at == text || *at;) {
		struct decimal d;
		uint64_t part = 0;

		int r = decimal_read(at, &d);
		if (r < 0)
			return decimal_failed(r, text, DURATION_FORM, err);
		size_t length = strcspn(d.end, "0123456789.");
		if (length == 0 && at == text && !*d.end)
			return duration_without_unit(text, &d, err);
		size_t unit = duration_unit(d.end, length);
		if (unit == UNITS(duration_units))
			return err_caller(
				err, "'%s': the units are d, h, m, s and ms: write " DURATION_FORM,
				show(text).text);
		if (unit < next)
			return err_caller(
				err,
				"'%s': each unit comes once, the longest first: write " DURATION_FORM,
				show(text).text);
		fraction |= d.decimals > 0;
		if (fraction && (at != text || d.end[length]))
			return err_caller(err,
					  "'%s': a fraction stands alone: write " DURATION_FORM,
					  show(text).text);
		if (!decimal_times(&d, duration_units[unit].factor, &part) ||
		    (total += part) > VALUE_MAX)
			return out_of_range(text, DURATION_FORM, err);
		next = unit + 1;
		at = d.end + length;
	}
	if (total == 0)
		return is_zero(text, DURATION_FORM, err);
	*ret_ns = total;
	return 0;
}

#define CPUS_FORM "a number of cpus from 0.01 to 4096, such as 0.5 or 8"

int num_cpus(const char *text, uint64_t *ret_milli, struct err *err)
{
	struct decimal d;
	uint64_t milli = 0;

	int r = decimal_read(text, &d);
	if (r < 0)
		return decimal_failed(r, text, CPUS_FORM, err);
	if (*d.end)
		return err_caller(err, "'%s' is not a number: write " CPUS_FORM, show(text).text);
	if (d.billionths % 1000000 != 0)
		return err_caller(err, "'%s' is finer than a thousandth: write " CPUS_FORM,
				  show(text).text);
	if (!decimal_times(&d, 1000, &milli) || milli < 10 || milli > 4096 * 1000)
		return err_set(err, ERR_CALLER, ERANGE, "'%s' is out of range: write " CPUS_FORM,
			       show(text).text);
	*ret_milli = milli;
	return 0;
}

#define COUNT_FORM "a whole number from 1 to 9007199254740992"

int num_count(const char *text, uint64_t *ret, struct err *err)
{
	uint64_t value = 0;

	int r = num_u64(text, COUNT_MAX, &value);
	if (r == -ERANGE)
		return out_of_range(text, COUNT_FORM, err);
	if (r < 0)
		return err_caller(err, "'%s' is not a whole number: write " COUNT_FORM,
				  show(text).text);
	if (value == 0)
		return is_zero(text, COUNT_FORM, err);
	*ret = value;
	return 0;
}

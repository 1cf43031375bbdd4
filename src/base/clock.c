/* The two clocks. Neither call can fail with these ids. */
#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

static uint64_t read_ns(clockid_t id)
{
	struct timespec now = { 0 };

	(void)clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec;
}

uint64_t clock_monotonic_ns(void)
{
	return read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_real_ns(void)
{
	return read_ns(CLOCK_REALTIME);
}

/* The day of the Gregorian calendar. Years are counted from March, so that a leap day is the last of its year, and in spans of 400,
 * which have 146097 days. */
static void read_day(uint64_t days, unsigned *ret_year, unsigned *ret_month, unsigned *ret_day)
{
	uint64_t since = days + 719468; /* since 0000-03-01 */
	unsigned of_span = (unsigned)(since % 146097);
	unsigned year = (of_span - of_span / 1460 + of_span / 36524 - of_span / 146096) / 365;
	unsigned of_year = of_span - (365 * year + year / 4 - year / 100);
	unsigned month = (5 * of_year + 2) / 153; /* 0: March; five months have 153 days */

	*ret_day = of_year - (153 * month + 2) / 5 + 1;
	*ret_month = month < 10 ? month + 3 : month - 9;
	*ret_year = year + (unsigned)(since / 146097) * 400 + (*ret_month <= 2);
}

/* By hand, since gmtime_r reads the host's time zone first, in each process anew. 64 bits of nanoseconds end in 2554, so the year has
 * four digits. */
char *clock_write(uint64_t real_ns, char *buffer, size_t room)
{
	uint64_t seconds = real_ns / NS_PER_SEC;
	unsigned ms = (unsigned)(real_ns % NS_PER_SEC / NS_PER_MS);
	unsigned of_day = (unsigned)(seconds % 86400);
	unsigned year, month, day;

	read_day(seconds / 86400, &year, &month, &day);
	(void)snprintf(buffer, room, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", year, month, day,
		       of_day / 3600, of_day / 60 % 60, of_day % 60, ms);
	return buffer;
}

/* ".123": nanoseconds, and the first character behind it. */
static const char *read_fraction(const char *at, uint64_t *ret_ns)
{
	uint64_t unit = NS_PER_SEC / 10;

	*ret_ns = 0;
	if (*at != '.')
		return at;
	for (at++; *at >= '0' && *at <= '9'; at++, unit /= 10)
		*ret_ns += (uint64_t)(*at - '0') * unit;
	return at;
}

int clock_read(const char *text, uint64_t *ret_real_ns)
{
	static const char *const forms[] = { "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M",
					     "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d" };

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct tm utc = { 0 };
		uint64_t ns = 0;
		const char *rest = strptime(text, forms[i], &utc);
		if (!rest)
			continue;
		rest = i == 0 || i == 2 ? read_fraction(rest, &ns) : rest;
		rest += *rest == 'Z' && i < 4;
		time_t seconds = timegm(&utc);
		if (*rest || seconds < 0 || (uint64_t)seconds > UINT64_MAX / NS_PER_SEC - 1)
			continue;
		*ret_real_ns = (uint64_t)seconds * NS_PER_SEC + ns;
		return 0;
	}
	return -EINVAL;
}

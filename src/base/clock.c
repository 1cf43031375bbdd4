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

char *clock_write(uint64_t real_ns, char *buffer, size_t room)
{
	time_t seconds = (time_t)(real_ns / NS_PER_SEC);
	unsigned ms = (unsigned)(real_ns % NS_PER_SEC / NS_PER_MS);
	char date[32] = "";
	struct tm utc;

	/* 64 bits of nanoseconds end in 2554, so the year has four digits and gmtime_r succeeds. */
	(void)gmtime_r(&seconds, &utc);
	(void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc);
	(void)snprintf(buffer, room, "%s.%03uZ", date, ms);
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

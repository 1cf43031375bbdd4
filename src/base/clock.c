/* The two clocks. Neither call can fail with these ids. */
#include "base/clock.h"

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

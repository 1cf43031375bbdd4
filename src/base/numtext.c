/* Numbers as text: rounded for people, exact for the readers of num.c. */
#include "base/num.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

typedef unsigned long long ull;

char *num_print_size(uint64_t bytes, char *buffer, size_t room)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes / 1024;
	size_t i = 0;

	if (bytes < 1024) {
		(void)snprintf(buffer, room, "%llu B", (ull)bytes);
		return buffer;
	}
	/* 1023.95 would be rounded to "1024.0". */
	while (value >= 1023.95 && i + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1024;
		i++;
	}
	(void)snprintf(buffer, room, "%.1f %s", value, units[i]);
	return buffer;
}

/* "1h30m", "30m", "2d": the larger unit, and the smaller one unless it is zero. */
static void print_pair(uint64_t value, uint64_t per, const char units[2], char *buffer, size_t room)
{
	if (value % per)
		(void)snprintf(buffer, room, "%llu%c%llu%c", (ull)(value / per), units[0],
			       (ull)(value % per), units[1]);
	else
		(void)snprintf(buffer, room, "%llu%c", (ull)(value / per), units[0]);
}

char *num_print_duration(uint64_t ns, char *buffer, size_t room)
{
	uint64_t seconds = ns / NS_PER_SEC;

	/* Below a minute in whole hundredths or smaller units, cut, so that 59.999 s stays below. */
	if (ns < NS_PER_MS)
		(void)snprintf(buffer, room, "%llu us", (ull)(ns / 1000));
	else if (ns < NS_PER_SEC)
		(void)snprintf(buffer, room, "%llu ms", (ull)(ns / NS_PER_MS));
	else if (seconds < 60)
		(void)snprintf(buffer, room, "%llu.%02llu s", (ull)seconds,
			       (ull)(ns % NS_PER_SEC / (NS_PER_SEC / 100)));
	else if (seconds < 3600)
		print_pair(seconds, 60, "ms", buffer, room);
	else if (seconds < 86400)
		print_pair(seconds / 60, 60, "hm", buffer, room);
	else
		print_pair(seconds / 3600, 24, "dh", buffer, room);
	return buffer;
}

char *num_write_size(uint64_t bytes, char *buffer, size_t room)
{
	static const char units[] = "BKMGTP";
	size_t i = 0;

	while (bytes > 0 && bytes % 1024 == 0 && units[i + 1]) {
		bytes /= 1024;
		i++;
	}
	(void)snprintf(buffer, room, "%llu%c", (ull)bytes, units[i]);
	return buffer;
}

/* `digits` decimals of `rest`, without zeros at the end and without a point if none are left. */
static void write_fraction(uint64_t whole, uint64_t rest, int digits, char *buffer, size_t room)
{
	int n = snprintf(buffer, room, "%llu.%0*llu", (ull)whole, digits, (ull)rest);

	if (n < 0 || (size_t)n >= room)
		return;
	while (buffer[n - 1] == '0')
		buffer[--n] = '\0';
	if (buffer[n - 1] == '.')
		buffer[n - 1] = '\0';
}

char *num_write_duration(uint64_t ns, char *buffer, size_t room)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{ "d", 86400 * NS_PER_SEC }, { "h", 3600 * NS_PER_SEC }, { "m", 60 * NS_PER_SEC },
		{ "s", NS_PER_SEC },         { "ms", NS_PER_MS },
	};
	char number[32];

	if (ns == 0) {
		(void)snprintf(buffer, room, "0s");
		return buffer;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (ns % units[i].ns == 0) {
			(void)snprintf(buffer, room, "%llu%s", (ull)(ns / units[i].ns),
				       units[i].name);
			return buffer;
		}
	}
	write_fraction(ns / NS_PER_MS, ns % NS_PER_MS, 6, number, sizeof(number));
	(void)snprintf(buffer, room, "%sms", number);
	return buffer;
}

char *num_write_cpus(uint64_t milli, char *buffer, size_t room)
{
	write_fraction(milli / 1000, milli % 1000, 3, buffer, room);
	return buffer;
}

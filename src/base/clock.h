/* Time: the monotonic clock for limits, the wall clock for records only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define NS_PER_SEC 1000000000ULL
#define NS_PER_MS  1000000ULL

uint64_t clock_monotonic_ns(void);
uint64_t clock_real_ns(void);
/* RFC 3339 in UTC with milliseconds, "2026-01-31T12:00:00.123Z"; room >= 32; returns the buffer. */
char *clock_write(uint64_t real_ns, char *buffer, size_t room);
/* The same back, also a date alone, a time without seconds or without the Z: always UTC. -EINVAL. */
int clock_read(const char *text, uint64_t *ret_real_ns);

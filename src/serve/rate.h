/* How often each may ask: a bucket that fills with time. Pure but for its memory. */
#pragma once

#include <stdint.h>

#define RATE_PER_SECOND 1000
#define RATE_BURST      5000

struct rates;
struct rates *rates_new(void);
void rates_free(struct rates *r);
/* 0: it may; else in so many nanoseconds. */
uint64_t rates_ask(struct rates *r, const char *name, uint64_t now_ns);

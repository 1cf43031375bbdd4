/* How long submissions waited, as a histogram. */
#pragma once

#include <stdint.h>

#define WAITS_BOUNDS 15

struct waits {
	uint64_t n[WAITS_BOUNDS + 1]; /* each by itself; the last: beyond every bound */
	double seconds;
};
/* The bounds as metrics write them; a wait of just that long is within. */
extern const char *const waits_bounds[WAITS_BOUNDS];
void waits_note(struct waits *w, uint64_t wait_ns);

/* A glob as a small automaton over path components: a walk carries one state per pattern down the tree, so that each name is
 * compared once, no pattern can cost more than components x components, and a directory whose state is 0 need not be entered. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PATTERN_PARTS_MAX 63

struct pattern {
	char *text;                           /* owned; the parts, each NUL-terminated */
	const char *parts[PATTERN_PARTS_MAX]; /* borrowed from text */
	size_t n;
	bool valid; /* false: matches nothing */
};

void pattern_init(struct pattern *p, const char *text);
void pattern_release(struct pattern *p);
/* Bit i: the first i parts have consumed the path so far. */
uint64_t pattern_start(const struct pattern *p);
uint64_t pattern_step(const struct pattern *p, uint64_t state, const char *name);
bool pattern_matched(const struct pattern *p, uint64_t state);

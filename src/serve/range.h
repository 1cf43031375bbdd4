/* Range: one part of a file. Pure. */
#pragma once

#include <stdint.h>

enum range { RANGE_ALL, RANGE_PART, RANGE_NONE };
/* Of a header's value, or NULL, and the size of what is asked for. RANGE_ALL too where it says several parts or what is no range: HTTP lets a
 * server send everything then. RANGE_NONE: it lies behind the end. */
enum range range_parse(const char *value, uint64_t size, uint64_t *ret_first, uint64_t *ret_length);

/*
 * Skipping a cmocka test with a reason. The reason begins with what is missing, in one word, so that
 * TEST_REQUIRE can turn the skip into a failure (tests/run reads this line).
 */
#pragma once

#include <stdio.h>

#define SKIP_UNLESS(condition, what, why)                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("# skip %s: %s\n", (what), (why));                                  \
			(void)fflush(stdout);                                                      \
			skip();                                                                    \
		}                                                                                  \
	} while (0)

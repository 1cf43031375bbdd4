/* Functions that have burnt others; included from the compiler's command line, so that a use is an
 * error at compile time. System headers come first or the poison would hit their declarations. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* _FORTIFY_SOURCE makes macros of these under clang, which warns of poisoning a macro. */
#undef sprintf
#undef vsprintf

#pragma GCC poison strcpy strcat strncpy strncat sprintf vsprintf strtok atoi atol atoll system    \
	popen gets tmpnam mktemp dup

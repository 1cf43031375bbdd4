/* What an analysis might try, one function an act. An act returns 0 if it worked and a negative errno if
 * the kernel refused it; it must do no harm where it is allowed, for the control runs it outside the box. */
#pragma once

#include <stddef.h>

struct act {
	const char *name;
	int (*run)(const char *a, const char *b);
};

/* Each ends with an empty row. */
extern const struct act file_acts[];
extern const struct act kernel_acts[];
extern const struct act mount_acts[];
extern const struct act process_acts[];
extern const struct act talk_acts[];
extern const struct act use_acts[];

/* -errno if the call failed, else 0. */
int answer(long result);
/* The same for a call that gives a descriptor, which is closed. */
int answer_fd(long fd);
/* A word of an act as a number. */
long number(const char *text);
/* The act in this process says what it read: printed in place of `ok`. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

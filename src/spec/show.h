/* Text of unknown origin inside a message: one line, no terminal controls, cut to a readable length. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SHOW_ROOM 96

/* Fills and returns the buffer: control characters and bytes that are not UTF-8 become '?', and
 * what does not fit ends in "...". NULL is shown as "". */
char *show_text(const char *text, char buffer[SHOW_ROOM]);
/* Valid UTF-8 without control characters (C0, DEL, C1), 1 to `max` bytes: fit for a record's label. */
bool text_is_label(const char *text, size_t max);

/* One line a message to standard error: "cupel: text" for people, key=value behind it. Only cli,
 * service and keeper.c log. */
#pragma once

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));

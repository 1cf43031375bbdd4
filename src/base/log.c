/* One write(2) a line, so that lines of several processes do not mix. A message may carry names
 * that an analysis chose: control characters are shown, never sent to the terminal. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/terminal.h"

/* A message is one line: also the control characters that a log may have are written out. */
static void add_visible(struct str *line, const char *text)
{
	struct terminal_filter filter = { 0 };
	while (*text) {
		size_t n = strcspn(text, "\n\t\r\b");
		terminal_filter_add(&filter, text, n, line);
		terminal_filter_end(&filter, line);
		if (text[n])
			str_addf(line, "\\x%02x", (unsigned char)text[n]);
		text += n + (text[n] != 0);
	}
}

__attribute__((format(printf, 3, 0))) static void
log_line(enum terminal_colour colour, const char *prefix, const char *format, va_list args)
{
	int saved = errno;
	CLEANUP_STR struct str line = { 0 };
	char text[4096];

	(void)vsnprintf(text, sizeof(text), format, args);
	bool is_coloured = terminal_has_colour(STDERR_FILENO);
	str_addf(&line, "%s%s%s ", is_coloured ? terminal_colours[colour] : "", prefix,
		 is_coloured ? terminal_colours[COLOUR_NONE] : "");
	add_visible(&line, text);
	str_add(&line, "\n");
	/* There is nobody left to tell when standard error is gone. */
	ssize_t ignored = write(STDERR_FILENO, line.text, line.length);
	(void)ignored;
	errno = saved;
}

void log_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_line(COLOUR_BAD, "cupel:", format, args);
	va_end(args);
}

void log_warning(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_line(COLOUR_WARN, "cupel: warning:", format, args);
	va_end(args);
}

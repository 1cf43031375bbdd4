/* Terminals. A terminal obeys control sequences, whoever wrote them: one can clear the screen, set the clipboard, or type an answer into the
 * shell. Text that others chose (logs, outputs, names, paths) is therefore filtered on its way to a terminal: each control character, each
 * bidirectional mark and each byte that is not UTF-8 is written out, such as \x1b. Files and pipes get every byte as it is.
 *
 * Newline, tab, carriage return and backspace pass: progress bars need them, and they move the cursor within the line at most. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/str.h"

/* The filter of one stream, {0} at first. It keeps the start of a character whose other bytes were not read yet. */
struct terminal_filter {
	char held[4];
	size_t n_held;
};

/* Appends the filtered text to *out. */
void terminal_filter_add(struct terminal_filter *f, const void *bytes, size_t length,
			 struct str *out);
/* Appends what is still held: at the end of the stream it is no character. */
void terminal_filter_end(struct terminal_filter *f, struct str *out);

/* A descriptor that the bytes of others are written to. */
struct terminal_out {
	int fd;           /* borrowed */
	bool is_filtered; /* it is a terminal, and nobody asked for the raw bytes */
	struct terminal_filter filter;
};

enum terminal_bytes { TERMINAL_SAFE, TERMINAL_RAW };

struct terminal_out terminal_out(int fd, enum terminal_bytes bytes);
/* Writes everything. -errno. */
int terminal_out_write(struct terminal_out *o, const void *bytes, size_t length);
int terminal_out_end(struct terminal_out *o);

/* Filters everything that this process prints to stdout and stderr from here on, as far as they are terminals. For main. */
void terminal_guard(void);
/* Sends our own bytes to a stream behind what was printed so far, past the filter. */
void terminal_send(FILE *stream, const void *bytes, size_t length);
/* The same for a control sequence. */
void terminal_control(FILE *stream, const char *sequence);

enum terminal_colour {
	COLOUR_NONE,
	COLOUR_GOOD,
	COLOUR_NOTE,
	COLOUR_ODD,
	COLOUR_WARN,
	COLOUR_BAD,
	COLOUR_HEAD,
	COLOUR_COUNT_
};

/* Is the descriptor a terminal that shows colours, and does nobody object? NO_COLOR (any value) and TERM=dumb do. */
bool terminal_has_colour(int fd);
/* The sequence that begins a colour; COLOUR_NONE ends it. */
extern const char *const terminal_colours[COLOUR_COUNT_];
/* Text in a colour, if the stream has colours. */
void terminal_print(FILE *stream, enum terminal_colour colour, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

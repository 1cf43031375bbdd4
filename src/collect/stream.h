/* A log: one stream of the box into a file, up to its limit. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct stream {
	int pipe_fd; /* owned; read end, non-blocking; -1 once at its end */
	int file_fd; /* owned; append */
	uint64_t limit_bytes;
	uint64_t kept_bytes; /* written to the file, the mark included */
	uint64_t dropped_bytes;
	bool truncated;
	int write_error; /* positive errno of the first write that failed, 0: none */
};

/* Reads what is there (at most about STREAM_PUMP_MAX a call, so that one flood does not starve the rest). Past the limit the
 * bytes are counted and dropped, and the file ends with a line that says so. Returns 1 while open, 0 at its end (the pipe is
 * then closed), and negative errno in the one call in which the file could not be written (disk full): call again, the rest
 * is read and dropped, and `truncated` is set. */
#define STREAM_PUMP_MAX (1024 * 1024)
int stream_pump(struct stream *s);
/* The same for bytes that came by another way. */
int stream_feed(struct stream *s, const char *bytes, size_t length);
/* Writes the closing mark "[cupel: N bytes dropped]" if any were dropped, with the reason when the file could not be written,
 * and syncs the file. To be called once. Negative errno if the file could not be synced or the mark not written. */
int stream_finish(struct stream *s);
void stream_release(struct stream *s);

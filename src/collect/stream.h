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
};

/* Reads what is there (bounded per call, so that one flood does not starve the rest). Past the limit the bytes are
 * counted and dropped, and the file ends with a line that says so. Returns 1 while open, 0 at its end, negative errno if the
 * file could not be written (disk full): reading goes on, the rest is dropped and `truncated` is set. */
int stream_pump(struct stream *s);
/* Writes the closing mark "[cupel: N bytes dropped ...]" if any were dropped, syncs the file. */
int stream_finish(struct stream *s);
void stream_release(struct stream *s);

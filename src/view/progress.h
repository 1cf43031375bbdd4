/* One line on a terminal about long work that is no run: how far it is. Nothing when piped. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
	bool shown;        /* a terminal is there and wants it */
	const char *about; /* borrowed; stands before all else: the runtime's name */
	bool on_screen;
	uint64_t
		last_ns; /* when the line was last written: not more often than an eye can follow */
};

/* As struct check_viewer and struct fingerprint_progress want them: `data` is a struct progress. */
void progress_step(void *data, const char *what, size_t number, size_t of);
void progress_files(void *data, uint64_t files, uint64_t bytes);
void progress_clear(struct progress *p);

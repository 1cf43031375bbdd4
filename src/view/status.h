/* One live line on a terminal while a run goes on; nothing when piped. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "keeper/keeper.h"

struct status {
	bool shown;     /* a terminal is there and wants it */
	bool on_screen; /* a line is there now */
	uint64_t limit_bytes;
	uint64_t last_cpu_usec, last_wall_ns;
};

bool status_wanted(void);
/* Writes this over the live line, cut so that it does not wrap, not even with a ^C behind it: what has wrapped can't be taken back. */
void status_show(const char *text);
/* Whole seconds, from a minute on as people say it: the line is for a glance. Returns `buffer`. */
const char *status_elapsed(uint64_t ns, char *buffer, size_t room);
/* As struct run_viewer wants them: `data` is a struct status. */
void status_sample(void *data, const struct keeper_msg *msg);
void status_clear(void *data);

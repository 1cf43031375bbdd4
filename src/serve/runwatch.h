/* One run, watched: says when something of its record may have changed. */
#pragma once

#include <stdbool.h>

#include "serve/event.h"
#include "spec/config.h"

struct runwatch;
/* `config` is borrowed. The run need not be there yet. `changed` is called by the loop. */
struct runwatch *runwatch_new(sd_event *event, const struct config *config, const char *id,
			      void (*changed)(void *data), void *data);
void runwatch_free(struct runwatch *f);
/* Its directory, borrowed; -1 as long as there is none. */
int runwatch_dir(struct runwatch *f);
/* It will not change any more: its verdict is there, or its keeper is dead. *ret_cause gets the cause, in `room` bytes. */
bool runwatch_has_ended(struct runwatch *f, char *ret_cause, size_t room);

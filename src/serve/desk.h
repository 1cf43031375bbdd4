/* Where reading is done that may wait for a disk or a database: a few threads, so that the loop never does. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "serve/event.h"

struct desk;

struct desk_job {
	void (*work)(void *data); /* in a thread */
	/* In the loop, once; `is_done` is false if the desk was closed before the work began. */
	void (*done)(void *data, bool is_done);
	void *data;
};

int desk_open(sd_event *event, struct desk **ret, struct err *err);
/* Waits for the work that goes on; every job gets its `done`. */
void desk_free(struct desk *d);
static inline void desk_freep(struct desk **d)
{
	desk_free(*d);
	*d = NULL;
}
void desk_give(struct desk *d, const struct desk_job *job);

/* What the thread of the database is asked to do: lists, in order. */
#pragma once

#include "serve/queue_store.h"

enum job_kind {
	JOB_ENTER,
	JOB_FIND,
	JOB_CHANGE,
	JOB_DELAYED, /* never asked for: who waits for a change is told that it goes on waiting */
};

struct job {
	struct job *next;
	enum job_kind kind;
	struct store_row row;
	void *tag;
	struct store_entered what;
};

struct jobs {
	struct job *first, **end;
};

void jobs_add(struct jobs *list, struct job *job);
/* The first one, NULL if there is none. */
struct job *jobs_take(struct jobs *list);
void jobs_release(struct jobs *list);

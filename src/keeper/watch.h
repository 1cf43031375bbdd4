/* Watches a box from its go to its end, and ends it when a limit or a person says so. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "budget/budget.h"
#include "budget/checkpoint.h"
#include "budget/scratch.h"
#include "collect/stream.h"
#include "keeper/keeper.h"
#include "keeper/launch.h"
#include "keeper/record.h"
#include "keeper/stages.h"
#include "keeper/verdict.h"

struct keeping {
	const struct keeper_request *q;
	struct record record;
	struct budget *budget; /* owned */
	struct scratch scratch;
	bool has_scratch;
	struct checkpoint checkpoint; /* path NULL: none is asked for */
	struct launched box;
	struct stream streams[2]; /* stdout, stderr */
	int signal_fd;            /* owned */
	int usage_fd;             /* owned; usage.jsonl */
	uint64_t started_ns;
	uint64_t warn_at, end_at, kill_at, sample_at; /* monotonic; 0: not set */
	unsigned
		n_uncounted; /* looks in a row that could not count everything in the working directory */
	uint64_t uncounted_since_ns; /* monotonic: the first of them */
	bool settled;                /* the run has lasted longer than a moment */
	int report_fd;               /* owned; -1 once nobody listens */
	struct ending ending;
	json_t *executor; /* owned or NULL; what it says of the job, for the verdict */
	struct stages stages;
};

/* Returns when nothing of the box is alive any more. k->ending tells what was seen. */
void watch(struct keeping *k);
/* Takes over what was counted, keeping the largest of what is only known while the box lives. */
void watch_note_usage(struct keeping *k, const struct usage *now);
/* Measures the working directory. True if a limit that is only watched is exceeded, or cannot be told to be kept: end the run. */
bool watch_disk(struct keeping *k, uint64_t now, struct scratch_use *ret);
/* Where there is no box to watch: has somebody asked for the end of the run? Never waits. */
bool watch_hear_cancel(struct keeping *k, int *ret_signal, const char **ret_by);
void keeper_say(struct keeping *k, const struct keeper_msg *msg);

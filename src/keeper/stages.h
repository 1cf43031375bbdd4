/* Where the time of a run goes, stage by stage. Each mark closes the stage since the mark before. */
#pragma once

#include <stdint.h>

#include "base/clock.h"
#include "base/json.h"

enum stage {
	STAGE_CLAIM,  /* the id taken */
	STAGE_BUDGET, /* user, groups and limits */
	STAGE_CLONE, /* init is there and goes about its root, and a thread about the working directory */
	STAGE_RECORD,  /* meanwhile: the request recorded, durably */
	STAGE_SCRATCH, /* waiting for the working directory with its disk limit */
	STAGE_BOX,     /* waiting for a box that is set up; read back, compared */
	STAGE_RECEIPT, /* recorded */
	STAGE_START,   /* "started" noted, go */
	STAGE_RUN,     /* the analysis, until nothing of it is alive */
	STAGE_COLLECT, /* usage, logs closed, outputs */
	STAGE_CLEAN,   /* groups, mount and directory gone */
	STAGE_VERDICT, /* recorded; not in verdict.json itself */
	STAGE_COUNT_
};
const char *stage_name(enum stage stage);

struct stages {
	uint64_t last_ns;
	uint64_t ns[STAGE_COUNT_];
};

static inline void stages_begin(struct stages *s)
{
	s->last_ns = clock_monotonic_ns();
}

static inline void stages_mark(struct stages *s, enum stage stage)
{
	uint64_t now = clock_monotonic_ns();
	s->ns[stage] += now - s->last_ns;
	s->last_ns = now;
}

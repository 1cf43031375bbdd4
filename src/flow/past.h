/* What the tasks of a pipeline were made of the last times, to say why one is run again; and what a dead pipeline left unsaid. */
#pragma once

#include "flow/flow.h"
#include "flow/ongoing.h"
#include "spec/id.h"

struct flow_past;
/* From the pipeline `id` back to those before it, as far as is asked for; "" has no past. Borrows the config. */
struct flow_past *flow_past_new(const struct config *c, const char *id);
void flow_past_free(struct flow_past *p);
static inline void flow_past_freep(struct flow_past **p)
{
	flow_past_free(*p);
	*p = NULL;
}
#define CLEANUP_FLOW_PAST CLEANUP(flow_past_freep)

/* The attempts at a task that pipeline `id` itself has made. */
unsigned flow_past_attempts(struct flow_past *p, const char *label);
/* How the task differs from what it was: "input data/x changed, parameter k is new"; owned by the caller. */
char *flow_past_why(struct flow_past *p, const char *label, const struct analysis_key *now);

/* Runs of a pipeline, and of those before it that did not end either, that ended well after nobody was there to say so any more are entered as
 * finished; those that go on elsewhere are put into `ongoing`. `is_ours`: this process holds its lock. */
void flow_past_recover(const struct config *c, const char *id, bool is_ours,
		       struct ongoing_set *ongoing);

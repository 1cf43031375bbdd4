/* A pipeline for people: while it runs, at its end, and what it would do. */
#pragma once

#include "flow/engine.h"
#include "view/progress.h"

struct flow_progress {
	bool is_live;  /* on a terminal: a line that changes */
	bool is_quiet; /* failures only */
	bool on_screen;
	struct progress reading;             /* of a runtime's content */
	const char *home;                    /* borrowed; where the runs of steps are */
	const struct flow_step *reused_step; /* borrowed; of the tasks counted but not told yet */
	const struct flow *flow;             /* borrowed */
	size_t reused;
};

void flow_progress_news(void *data, const struct flow_news *news);
void flow_progress_tally(void *data, const struct flow_tally *tally);
/* The last words: how it ended, where the record and the outputs are. */
void flow_print_end(struct flow_progress *p, const struct config *c, const struct flow_end *end);

void flow_print_plan(const struct flow *f, const struct flow_foresight *all);
json_t *flow_plan_json(const struct flow *f, const struct flow_foresight *all);

/* The outputs of steps that are done, as the inputs of a task that needs them. */
#pragma once

#include "flow/flow.h"
#include "spec/id.h"

/* What a task that is done made. */
struct flow_made {
	char run[ID_MAX + 1];
	struct strv outputs; /* paths below outputs/ */
};

/* Adds them to the task's inputs, in place of those of an earlier attempt. `made` is one a task; `home` is real. */
int flow_link(const struct flow *f, const char *home, const struct flow_made *made,
	      struct flow_task *t, struct err *err);
/* A task that is over needs none of it any more: its inputs, and what its key was made of. Many that gather much would be much. */
void flow_unlink(struct flow_task *t);

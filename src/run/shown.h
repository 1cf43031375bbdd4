/* What an analysis is shown of the host: data, of which its caller may read all that is named, and no view of the kernel. */
#pragma once

#include "box/plan.h"
#include "spec/analysis.h"
#include "spec/config.h"

/* Of code and inputs, all of them real paths. What root may read and the run's own user may not is shown to this run alone, with the rights of
 * its caller: the plan is changed accordingly. */
int shown_check(const struct config *c, const struct analysis *a, struct plan *p, struct err *err);
/* For an executor whose own process reads the files (gVisor's gofer), to which the maps of a mount don't apply: no private input. */
int shown_to_all(const struct plan *p, const char *executor, struct err *err);
/* Where another program makes the mounts (an engine, a cluster), nothing can be shown to one run alone, and sockets stay sockets. */
int shown_elsewhere(const struct plan *p, const char *executor, struct err *err);

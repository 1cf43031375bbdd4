/* Between the files that make a plan; nobody else includes it. */
#pragma once

#include "box/plan.h"

struct step *plan_step(struct plan *p, enum step_kind kind, const char *target, const char *source);

void plan_env(const struct plan_request *q, struct plan *p);
/* The private root: runtime, /etc, /dev, /proc, /tmp. */
void plan_root(const struct plan_request *q, struct plan *p);
/* The working directory with code, data and docs in it. */
int plan_work(const struct plan_request *q, struct plan *p, struct err *err);

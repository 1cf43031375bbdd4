/* A plan for people. */
#pragma once

#include "base/json.h"
#include "box/plan.h"
#include "runtime/chosen.h"

void plan_print(const struct analysis *analysis, const struct runtime *runtime,
		const struct chosen *chosen, const struct plan *plan);
/* What run_foresee_step gave; NULL: nothing. */
void plan_print_step(const json_t *step);

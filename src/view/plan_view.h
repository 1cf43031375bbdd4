/* A plan for people. */
#pragma once

#include "box/plan.h"
#include "runtime/chosen.h"

void plan_print(const struct analysis *analysis, const struct runtime *runtime,
		const struct chosen *chosen, const struct plan *plan);

/* A plan for people. */
#pragma once

#include "box/plan.h"

void plan_print(const struct analysis *analysis, const struct runtime *runtime,
		const struct plan *plan);

/* Which runs are going on in a runtime. */
#pragma once

#include "base/err.h"
#include "spec/config.h"
#include "spec/id.h"

/* 1 and a run that uses it, or is only just starting and may; 0: none. What a live keeper holds locked decides, so it is never stale. */
int runtime_in_use(const struct config *c, const char *name, char ret_id[ID_MAX + 1],
		   struct err *err);

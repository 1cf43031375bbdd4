/* What finished*.c share. */
#pragma once

#include "base/str.h"
#include "flow/finished.h"

int finished_by_path(const void *a, const void *b); /* of outputs */
/* The run has exactly those outputs; false with the reason. */
bool finished_has_outputs(struct finished_reader *r, const struct finished *f, struct str *why);

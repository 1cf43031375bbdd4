/* What an analysis is told of itself: /run/cupel/provenance.json in the box, so that it can say in its outputs what they were made of. */
#pragma once

#include "run/run.h"

/* Fills the file of the plan. After the contents were read. */
void provenance_show(const struct analysis *a, struct resolved *r);

/* The colour of a word for how something stands: a cause, the state of a run or step, the health of a runtime. Words that are not known are
 * failures: there are many causes, and one that works. */
#pragma once

#include "base/terminal.h"

enum terminal_colour state_colour(const char *word);

/* Capabilities, no_new_privs, securebits. */
#pragma once

#include "base/err.h"

/* Empties every capability set of the calling process and keeps them empty across exec. */
int caps_drop_all(struct err *err);

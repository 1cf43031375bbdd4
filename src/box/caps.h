/* Capabilities, no_new_privs, securebits. */
#pragma once

#include "base/err.h"

/* The part that needs CAP_SETPCAP: bounding set empty, securebits locked. Once it is done, caps_drop_all finds it done. */
int caps_seal(struct err *err);
/* Empties every capability set of the calling process and keeps them empty across exec. */
int caps_drop_all(struct err *err);
